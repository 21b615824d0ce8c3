//! All-reduces of hierarchies between nodes, with columns in halves where there are more than two.

use super::call::Call;
use super::exchange::cores;
use super::overlap::{StageWork, StagedLane};
use super::packed::LEAST_PIECE;
use super::work::Work;
use crate::price::cluster::Level;
use crate::price::{STRAIGHT_BYTES, parts};

/// Ranks of a node that work together: how many others each one has, and at which levels.
#[derive(Clone, Copy)]
struct MateLevel {
    others: f64,
    parts: [f64; 4],
}

impl MateLevel {
    /// Levels of a node as plans climb them, the nearest first; one where they do not.
    fn of(call: &Call) -> Vec<MateLevel> {
        let machine = &call.site.machine;
        if call.site.is_even {
            let mut levels = parts::ladder(machine);
            levels.pop();
            let of = |(members, level): (f64, Level)| {
                let mut parts = [0.0; 4];
                parts[level as usize] = 1.0;
                MateLevel {
                    others: members - 1.0,
                    parts,
                }
            };
            return levels.into_iter().map(of).collect();
        }
        let others = f64::from(machine.per_node) - 1.0;
        if others == 0.0 {
            return Vec::new();
        }
        let [cache, socket, node] = call.site.pairs.company;
        vec![MateLevel {
            others,
            parts: [cache - 1.0, socket - cache, node - socket, 0.0].map(|ranks| ranks / others),
        }]
    }
}

/// Stages of a round of `hier`.
struct HalvedRound<'c, 'a> {
    call: &'c Call<'a>,
    levels: Vec<MateLevel>,
    lane: StagedLane<'c, 'a>,
    /// Bytes of a round of a channel, and of a piece of a column.
    bytes: f64,
    piece: f64,
}

/// The time of an all-reduce between nodes.
pub(super) fn all_reduce(call: &Call) -> f64 {
    let nodes = call.site.machine.nodes;
    let levels = MateLevel::of(call);
    let pieces = cores(nodes);
    let halves = if nodes > 2 { 2.0 } else { 1.0 };
    // Of the columns those that a token does not hold at once.
    let first = levels.first().map_or(1.0, |level| level.others + 1.0);
    let chunk = call.geometry.chunk_bytes() as f64;
    let (rounds, round_bytes) = call.rounds(chunk * halves * first);
    let bytes = round_bytes / call.channels;
    let width = if nodes > 2 { f64::from(pieces) } else { 1.0 };
    let columns = f64::from(call.site.machine.per_node);
    let piece = (bytes / columns / width).max(LEAST_PIECE.min(bytes));
    let begun = (bytes / (piece * width).max(1.0)).clamp(1.0, columns);
    let mut halved = HalvedRound {
        call,
        lane: StagedLane::new(call, begun / columns),
        levels,
        bytes,
        piece,
    };
    if nodes > 2 {
        halved.by_halves(pieces, nodes > pieces);
    } else {
        halved.at_once();
    }
    halved.lane.time_ns(rounds)
}

impl HalvedRound<'_, '_> {
    /// Two nodes exchange columns as they are.
    fn at_once(&mut self) {
        let all = self.held(0.0, 1.0);
        self.fold(all);
        let given = self.give(1.0, false);
        self.fold_far(1.0, given);
        self.spread(all);
    }

    /// The critical rank is a host of a guest, where there are guests.
    fn by_halves(&mut self, pieces: u32, has_guests: bool) {
        let all = f64::from(pieces);
        let half = all / 2.0;
        let halves = [self.held(0.0, half), self.held(half, half)];
        self.fold(halves[0]);
        let mut given = self.give(half, false);
        if has_guests {
            self.lane.elsewhere();
            self.fold_far(half, given);
        }
        self.fold(halves[1]);
        if has_guests {
            let second = self.give(half, false);
            self.lane.elsewhere();
            self.fold_far(half, second);
        }
        let exchanges = pieces.ilog2();
        let kept = |k: u32| all / f64::from(2u32 << k);
        for k in 0..exchanges {
            if k > 0 || has_guests {
                given = self.give(kept(k), false);
            }
            self.fold_far(kept(k), given);
        }
        for k in (0..exchanges).rev() {
            given = self.give(kept(k), true);
            if k > 0 || has_guests {
                self.take_far(kept(k), given);
            }
        }
        if has_guests {
            self.give(half, true);
        }
        self.spread(halves[0]);
        if has_guests {
            given = self.give(half, true);
        }
        self.take_far(half, given);
        self.spread(halves[1]);
    }

    /// Bytes of the first column in so many pieces from `first` on: of few bytes it has all.
    fn held(&self, first: f64, pieces: f64) -> f64 {
        let before = first * self.piece;
        (self.piece * pieces).min(self.bytes - before).max(0.0)
    }

    /// Columns that each member has, by level.
    fn columns(&self) -> Vec<f64> {
        let mut left = f64::from(self.call.site.machine.per_node);
        let of = |mates: &MateLevel| {
            left /= mates.others + 1.0;
            left
        };
        self.levels.iter().map(of).collect()
    }

    fn is_straight(&self, bytes: f64) -> bool {
        self.call.site.is_mapped && bytes >= STRAIGHT_BYTES as f64
    }

    /// Mates hand each other a part of their columns, of so many bytes each, and fold their own.
    fn fold(&mut self, column: f64) {
        if self.levels.is_empty() {
            let copy = StageWork {
                work: Work {
                    steps: 1.0,
                    locals: 1.0,
                    writes: 1.0,
                    ..Work::default()
                },
                bytes: column,
                ..StageWork::default()
            };
            self.lane.near([1.0, 0.0, 0.0, 0.0], copy, None);
        }
        for (level, columns) in self.columns().into_iter().enumerate() {
            let MateLevel { others, parts } = self.levels[level];
            let (bytes, mean) = self.token(column, columns, others);
            // Later levels overwrite what they hand over.
            let is_shown = level == 0 && self.is_straight(bytes);
            let copies = if is_shown { 0.0 } else { others };
            let out = StageWork {
                work: Work {
                    steps: others,
                    sends: others,
                    locals: copies,
                    ..Work::default()
                },
                copies,
                bytes: mean,
                is_shown,
            };
            let out = self.lane.near(parts, out, None);
            let fold = StageWork {
                work: Work {
                    steps: 1.0,
                    reads: others,
                    locals: 1.0,
                    writes: 1.0,
                    folds: others,
                    sends: 0.0,
                },
                copies: 0.0,
                bytes,
                is_shown,
            };
            self.lane.near(parts, fold, Some(out));
        }
    }

    /// Each hands its own part of columns to its mates, and takes theirs.
    fn spread(&mut self, column: f64) {
        for (level, columns) in self.columns().into_iter().enumerate().rev() {
            let MateLevel { others, parts } = self.levels[level];
            let (bytes, mean) = self.token(column, columns, others);
            let is_shown = self.is_straight(bytes);
            let copied = if is_shown { 0.0 } else { 1.0 };
            let out = StageWork {
                work: Work {
                    steps: 1.0,
                    sends: others,
                    locals: copied,
                    ..Work::default()
                },
                copies: copied * others,
                bytes,
                is_shown,
            };
            let out = self.lane.near(parts, out, None);
            let take = StageWork {
                work: Work {
                    steps: others,
                    reads: others,
                    writes: others,
                    ..Work::default()
                },
                copies: 0.0,
                bytes: mean,
                is_shown,
            };
            self.lane.near(parts, take, Some(out));
        }
    }

    /// Bytes of the largest token of so many columns, and of one on average.
    fn token(&self, column: f64, columns: f64, others: f64) -> (f64, f64) {
        let begun = (columns * self.lane.at_work).max(1.0);
        let bytes = (column * begun).min(self.bytes);
        (bytes, bytes.min(self.bytes / others))
    }

    /// Pieces of the own column to another node.
    fn give(&mut self, pieces: f64, is_result: bool) -> usize {
        let bytes = self.held(0.0, pieces);
        let is_straight = is_result && pieces == 1.0 && self.is_straight(bytes);
        let copied = if is_straight { 0.0 } else { 1.0 };
        let what = StageWork {
            work: Work {
                steps: 1.0,
                sends: 1.0,
                locals: copied,
                ..Work::default()
            },
            copies: copied,
            bytes,
            is_shown: false,
        };
        self.lane.far(what, None)
    }

    /// Folds what a partner has handed over.
    fn fold_far(&mut self, pieces: f64, given: usize) {
        let what = StageWork {
            work: Work {
                steps: 1.0,
                reads: 1.0,
                locals: 1.0,
                writes: 1.0,
                folds: 1.0,
                sends: 0.0,
            },
            copies: 0.0,
            bytes: self.held(0.0, pieces),
            is_shown: false,
        };
        self.lane.far(what, Some(given));
    }

    /// Stores it.
    fn take_far(&mut self, pieces: f64, given: usize) {
        let bytes = self.held(0.0, pieces);
        let is_straight = pieces == 1.0 && self.is_straight(bytes);
        let what = StageWork {
            work: Work {
                steps: 1.0,
                reads: 1.0,
                writes: if is_straight { 0.0 } else { 1.0 },
                ..Work::default()
            },
            copies: 0.0,
            bytes,
            is_shown: is_straight,
        };
        self.lane.far(what, Some(given));
    }
}
