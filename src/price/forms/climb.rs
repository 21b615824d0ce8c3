//! Climbing: `hier` where ranks share caches and sockets.
//!
//! A lane runs its levels one after the other, and its rounds. In a level every rank hands each
//! other member of its column a token, and takes one of each: its core is busy with these, while
//! memory and links pass what all ranks hand over.

use super::call::Call;
use super::hop::Hop;
use super::packed::halve_and_double;
use super::steps::StepWork;
use super::work::Work;
use crate::plan::Collective;
use crate::price::cluster::Level;
use crate::price::parts;

/// Levels below the top, the nearest first, and the top: members and what they share.
struct Climb<'c, 'a> {
    call: &'c Call<'a>,
    levels: Vec<(f64, Level)>,
    top: (f64, Level),
    /// Ranks of a part below the top.
    shares: f64,
    /// Results are cast.
    casts: bool,
}

/// The time of a call whose ranks climb; `None` where they see no parts, or uneven ones.
pub(super) fn climb(call: &Call) -> Option<f64> {
    let machine = &call.site.machine;
    if !call.site.is_even {
        return None;
    }
    let mut levels = parts::ladder(machine);
    let top = levels.pop()?;
    let climb = Climb {
        shares: levels.iter().map(|level| level.0).product(),
        call,
        levels,
        top,
        casts: machine.nodes == 1,
    };
    let chunk = call.geometry.chunk_bytes() as f64;
    let first = climb.levels.first().map_or(1.0, |level| level.0);
    let (rounds, bytes) = call.rounds(chunk * first);
    let share = bytes / climb.shares;
    let folds = call.collective.reduces();
    Some(match call.collective {
        Collective::AllReduce => {
            let both = climb.shared_out(bytes, true) + climb.shared_out(bytes, false);
            rounds * (both + climb.at_top(share))
        }
        // The root deals, or takes, and climbs by turns.
        Collective::Broadcast | Collective::Reduce => {
            let dealt = climb.dealt(bytes, !folds);
            rounds * (dealt + climb.handed(share) + climb.shared_out(bytes, folds))
        }
        Collective::AllGather | Collective::ReduceScatter => {
            let (rounds, block) = call.packed_rounds(call.n / first);
            let at_top = call.own(block) + climb.exchanged(block, folds);
            rounds * (at_top + climb.shared_out(block * call.n, folds))
        }
        _ => return None,
    })
}

impl Climb<'_, '_> {
    /// Columns with all that a rank of a part has: `bytes` are shared out and folded, or gathered.
    fn shared_out(&self, bytes: f64, folds: bool) -> f64 {
        let mut left = bytes;
        let mut time = 0.0;
        for &(members, level) in &self.levels {
            left /= members;
            time += self.phase(members - 1.0, left, level, folds);
        }
        time
    }

    /// Every rank hands `others` tokens of `bytes` on, and takes as many, which it folds or stores.
    fn phase(&self, others: f64, bytes: f64, level: Level, folds: bool) -> f64 {
        let channels = self.call.channels;
        let work = match (folds, self.casts) {
            (true, _) => Work {
                steps: others + 1.0,
                sends: others,
                reads: others,
                locals: others + 1.0,
                writes: 1.0,
                folds: others,
            },
            (false, casts) => {
                let written = if casts { 1.0 } else { others };
                Work {
                    steps: written + others,
                    sends: written,
                    reads: others,
                    locals: written,
                    writes: others,
                    folds: 0.0,
                }
            }
        };
        let flows = match level {
            Level::Network => f64::from(self.call.site.machine.per_node),
            _ => self.call.n / f64::from(self.call.site.machine.nodes),
        };
        let hop = Hop::at(self.call, level, work, flows);
        let once = hop.path_of_all(bytes / channels);
        once + (channels - 1.0) * (once - hop.latency_ns).max(0.0)
    }

    /// The share of a rank, all-reduced at the top.
    fn at_top(&self, share: f64) -> f64 {
        let (members, level) = self.top;
        if members <= 2.0 {
            self.phase(1.0, share, level, true)
        } else {
            let machine = &self.call.site.machine;
            let stride = (self.call.n / members) as u32;
            halve_and_double(self.call, (machine.nranks() / stride, stride), share)
        }
    }

    /// A share from one to all at the top, or back.
    fn handed(&self, share: f64) -> f64 {
        let (members, level) = self.top;
        members.log2().ceil() * self.phase(1.0, share, level, false)
    }

    /// The blocks of all at the top.
    fn exchanged(&self, block: f64, folds: bool) -> f64 {
        let (members, level) = self.top;
        let exchanges = members.log2().ceil();
        let bytes = block * (members - 1.0) / exchanges.max(1.0);
        exchanges * self.phase(1.0, bytes, level, folds)
    }

    /// Shares between the root and the ranks of its part.
    fn dealt(&self, bytes: f64, out: bool) -> f64 {
        let share = bytes / self.shares / self.call.channels;
        let others = self.shares - 1.0;
        let (_, level) = self.levels.last().copied().unwrap_or(self.top);
        let step = if out {
            StepWork {
                sends: vec![(1.0, level)],
                locals: 1.0,
                writes: 1.0,
                ..StepWork::default()
            }
        } else {
            StepWork {
                reads: vec![(1.0, level)],
                writes: 1.0,
                ..StepWork::default()
            }
        };
        let latency = self.call.site.costs.level(level).latency_ns;
        latency + self.call.channels * others * step.core(self.call, share)
    }
}
