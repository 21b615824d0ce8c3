//! Leaders: up through the levels, an exchange at the top, and down.
//!
//! The way from the farthest rank to the top and back is summed step by step. Where a
//! call has several pieces, they follow each other at the pace of the busiest rank, which is a
//! leader at the top.

use super::call::Call;
use super::exchange::guest_hops;
use super::hop::Hop;
use super::steps::StepWork;
use super::work::Work;
use crate::plan::Collective;
use crate::plan::parts::{FEW_TOPS, run_of};
use crate::price::cluster::Level;
use crate::price::costs::Carrier;
use crate::price::parts;

/// See [`FEW_TOPS`].
const TOPS: f64 = FEW_TOPS as f64;

/// Groups that are climbed, the nearest first: members and level; and the leaders at the top.
struct Levels {
    groups: Vec<(f64, Level)>,
    tops: (f64, Level),
    /// Results are cast, not sent one by one.
    casts: bool,
}

impl Levels {
    fn of(call: &Call) -> Levels {
        let machine = &call.site.machine;
        let mut groups = parts::ladder(machine);
        let one_node = machine.nodes == 1;
        let alone = (1.0, Level::Cache);
        let tops = match groups.len() {
            0 => alone,
            1 if one_node => alone,
            _ => groups.pop().unwrap_or(alone),
        };
        Levels {
            groups,
            tops,
            casts: one_node,
        }
    }
}

/// Members of a run, and runs, of a group.
fn runs(members: f64) -> (f64, f64) {
    let run = run_of(members.round() as usize).max(1) as f64;
    (run, (members / run).ceil())
}

/// The way of a token and the work of its busiest rank.
#[derive(Default)]
struct TokenWay {
    path: f64,
    busiest: f64,
    /// Work of the other ranks of a core, which take their turns one after the other before a
    /// leader has all contributions, and before the last of them has its result.
    beside: f64,
    /// Folds of runs, a piece, that ranks on the leader's core make.
    folds_beside: f64,
}

impl TokenWay {
    fn hand_over(&mut self, call: &Call, level: Level) {
        self.path += call.site.costs.level(level).latency_ns;
    }

    /// A hand-over to or from several at once, of `tokens` and `bytes` in all. Where links carry
    /// them, they follow each other on the link of this rank's node.
    fn hand_over_all(&mut self, call: &Call, level: Level, tokens: f64, bytes: f64) {
        self.hand_over(call, level);
        let cost = call.site.costs.level(level);
        if cost.carrier == Carrier::Wire {
            self.path += bytes * cost.byte_ns + tokens * cost.gap_ns;
        }
    }

    /// A step, before which the core turns to the rank where ranks share cores.
    fn step(&mut self, call: &Call, core: f64) {
        self.path += turned(call, core);
    }

    /// A step that all ranks of a core have to take.
    fn step_of_all(&mut self, call: &Call, core: f64) {
        self.step(call, core);
        self.beside += turned(call, core);
    }
}

/// The time of a step and of the turn to its rank, where ranks share cores.
fn turned(call: &Call, core: f64) -> f64 {
    if call.site.machine.crowded() {
        core + call.site.costs.switch_ns
    } else {
        core
    }
}

/// Leaders of the other runs of a group that share the core of the first.
fn run_leaders_beside(call: &Call, run: u32, count: u32) -> f64 {
    let machine = &call.site.machine;
    if !machine.crowded() {
        return 0.0;
    }
    let beside = (1..count).filter(|at| (at * run).is_multiple_of(machine.cores));
    beside.count() as f64
}

/// Contributions to the leaders at the top; `last` is what the last fold publishes and writes.
fn up(call: &Call, levels: &Levels, bytes: f64, last: &StepWork, way: &mut TokenWay) {
    let publish = |level| StepWork {
        sends: vec![(1.0, level)],
        locals: 1.0,
        ..StepWork::default()
    };
    let after = |at: usize| levels.groups.get(at + 1).map(|group| group.1);
    if let Some(&(_, level)) = levels.groups.first() {
        way.step_of_all(call, publish(level).core(call, bytes));
    }
    for (at, &(members, level)) in levels.groups.iter().enumerate() {
        let (run, count) = runs(members);
        let fold = |reads: f64, onward: StepWork| StepWork {
            reads: vec![(reads, level)],
            locals: 1.0,
            folds: true,
            ..onward
        };
        way.hand_over(call, level);
        if count > 1.0 {
            let core = fold(run - 1.0, publish(level)).core(call, bytes);
            way.step(call, core);
            way.hand_over(call, level);
            way.folds_beside += core * run_leaders_beside(call, run as u32, count as u32);
        }
        let reads = run - 1.0 + (count - 1.0);
        let onward = match after(at) {
            Some(level) => publish(level),
            None => last.clone(),
        };
        let core = fold(reads, onward).core(call, bytes);
        way.step(call, core);
        way.busiest += core;
    }
}

/// Results from a leader at the top, whose step is counted, to all.
fn down(call: &Call, levels: &Levels, bytes: f64, way: &mut TokenWay) {
    for (at, &(members, level)) in levels.groups.iter().enumerate().rev() {
        way.hand_over(call, level);
        if levels.casts {
            way.path += (members - 2.0).max(0.0) * call.site.costs.level(level).gap_ns;
        } else if runs(members).1 > 1.0 {
            way.step(
                call,
                passing(levels, at, runs(members).0, level).core(call, bytes),
            );
            way.hand_over(call, level);
        }
        let core = passing(levels, at, 0.0, level).core(call, bytes);
        match at {
            0 => way.step_of_all(call, core),
            _ => way.step(call, core),
        }
    }
}

/// Takes a result, and passes it to the groups below number `end`, and to `more` at the same level.
fn passing(levels: &Levels, end: usize, more: f64, level: Level) -> StepWork {
    let mut sends = sends_below(levels, end);
    sends.push((more, level));
    StepWork {
        reads: vec![(1.0, level)],
        sends,
        writes: 1.0,
        ..StepWork::default()
    }
}

/// Publications of a leader of groups below number `end`.
fn sends_below(levels: &Levels, end: usize) -> Vec<(f64, Level)> {
    let groups = levels.groups[..end].iter();
    groups
        .map(|&(members, level)| {
            if levels.casts {
                (1.0, level)
            } else {
                let (run, count) = runs(members);
                (run - 1.0 + (count - 1.0), level)
            }
        })
        .collect()
}

/// Leaders at the top with each other, and what they write for those below.
fn across(call: &Call, levels: &Levels, bytes: f64, way: &mut TokenWay) {
    let (tops, level) = levels.tops;
    let all = levels.groups.len();
    if tops <= 1.0 {
        return;
    }
    if tops <= TOPS {
        way.hand_over_all(call, level, tops - 1.0, (tops - 1.0) * bytes);
        let core = StepWork {
            reads: vec![(tops - 1.0, level)],
            sends: sends_below(levels, all),
            locals: 1.0,
            writes: 1.0,
            folds: true,
        }
        .core(call, bytes);
        way.step(call, core);
        way.busiest += core;
        return;
    }
    let exchange = StepWork {
        reads: vec![(1.0, level)],
        sends: vec![(1.0, level)],
        locals: 2.0,
        writes: 1.0,
        folds: true,
    };
    let round = exchange.core(call, bytes) + call.site.costs.step_ns;
    let rounds = tops.log2().floor() + guest_hops(tops as u32);
    for _ in 0..rounds as u32 {
        // The core has turned to a leader that waits for the next of its peers.
        way.hand_over_all(call, level, 1.0, bytes);
        way.path += round;
    }
    let spread = StepWork {
        sends: sends_below(levels, all),
        locals: 1.0,
        ..StepWork::default()
    };
    let core = spread.core(call, bytes);
    way.step(call, core);
    way.busiest += rounds * round + core;
}

/// All collectives that have leaders.
pub(super) fn leader(call: &Call) -> Option<f64> {
    let levels = Levels::of(call);
    let chunk = call.geometry.chunk_bytes() as f64;
    let (rounds, bytes) = match call.collective {
        Collective::Barrier => (1.0, 0.0),
        _ => call.rounds(chunk),
    };
    let slices = f64::from(call.geometry.slices()) * call.channels;
    let piece = bytes / slices;
    let mut way = TokenWay::default();
    match call.collective {
        Collective::AllReduce | Collective::Barrier => {
            up(call, &levels, piece, &last_fold(&levels), &mut way);
            across(call, &levels, piece, &mut way);
            down(call, &levels, piece, &mut way);
        }
        Collective::Reduce => {
            let last = StepWork {
                writes: 1.0,
                ..StepWork::default()
            };
            up(call, &levels, piece, &last, &mut way);
            to_root(call, &levels, piece, &mut way);
        }
        Collective::Broadcast => {
            from_root(call, &levels, piece, &mut way);
            down(call, &levels, piece, &mut way);
        }
        _ => return None,
    }
    let pieces = PieceCounts {
        rounds,
        slices,
        piece,
    };
    Some(paced(call, &levels, &way, &pieces))
}

/// Rounds of a call, slices of a round, and bytes of a slice.
struct PieceCounts {
    rounds: f64,
    slices: f64,
    piece: f64,
}

/// The time of all pieces that take this way.
fn paced(call: &Call, levels: &Levels, way: &TokenWay, pieces: &PieceCounts) -> f64 {
    let &PieceCounts {
        rounds,
        slices,
        piece,
    } = pieces;
    let machine = &call.site.machine;
    let crowd = if machine.crowded() {
        f64::from(machine.per_node.div_ceil(machine.cores))
    } else {
        1.0
    };
    // The others of a core only hand over what they have, or take what comes.
    let (_, nearest) = levels.groups.first().copied().unwrap_or(levels.tops);
    let beside = StepWork {
        sends: vec![(1.0, nearest)],
        locals: 1.0,
        ..StepWork::default()
    };
    let pace =
        way.busiest + way.folds_beside + (crowd - 1.0) * turned(call, beside.core(call, piece));
    let path = way.path + (crowd - 1.0) * way.beside;
    let shared = shared(call, levels);
    match call.collective {
        // A rank hands the next round in when it has the result of this one.
        Collective::AllReduce => rounds * (path + (slices - 1.0) * pace) + shared,
        _ => (path + (rounds * slices - 1.0) * pace).max(shared),
    }
}

/// Work of the last fold of a leader at the top, in an all-reduce.
fn last_fold(levels: &Levels) -> StepWork {
    let (tops, level) = levels.tops;
    let sends = if tops <= 1.0 {
        sends_below(levels, levels.groups.len())
    } else {
        vec![((tops - 1.0).min(TOPS - 1.0), level)]
    };
    StepWork {
        sends,
        writes: 1.0,
        ..StepWork::default()
    }
}

/// From a root that is a leader at the top to the others: few are reached by it, many by a binomial
/// tree.
fn from_root(call: &Call, levels: &Levels, piece: f64, way: &mut TokenWay) {
    let (tops, level) = levels.tops;
    let all = levels.groups.len();
    let mut sends = sends_below(levels, all);
    let (hops, children) = if tops <= TOPS {
        (1.0, tops - 1.0)
    } else {
        (tops.log2().ceil(), tops.log2().ceil())
    };
    sends.push((children, level));
    let root = StepWork {
        sends,
        locals: 1.0,
        writes: 1.0,
        ..StepWork::default()
    };
    let core = root.core(call, piece);
    way.step(call, core);
    way.busiest = core;
    if tops > 1.0 {
        // Largest subtrees come first: the way goes by the first child of each, or waits so long at
        // the root.
        let onward = if hops > 1.0 { 1.0 } else { 0.0 };
        let core = passing(levels, all, onward, level).core(call, piece);
        let tokens = if hops > 1.0 { 1.0 } else { children };
        for _ in 0..hops as u32 {
            way.hand_over_all(call, level, tokens, tokens * piece);
            way.step(call, core);
        }
        way.busiest = way.busiest.max(core);
    }
}

/// From the leaders at the top to a root that is one of them.
fn to_root(call: &Call, levels: &Levels, bytes: f64, way: &mut TokenWay) {
    let (tops, level) = levels.tops;
    if tops <= 1.0 {
        return;
    }
    let hops = if tops <= TOPS {
        1.0
    } else {
        tops.log2().ceil()
    };
    let tokens = (tops - 1.0) / hops;
    let fold = StepWork {
        reads: vec![(tokens, level)],
        sends: vec![(1.0, level)],
        locals: 1.0,
        folds: true,
        ..StepWork::default()
    };
    let core = fold.core(call, bytes);
    for _ in 0..hops as u32 {
        way.hand_over_all(call, level, tokens, tokens * bytes);
        way.path += core;
    }
    way.busiest += core;
}

/// Time of memory and links for all bytes of the call: what each rank hands to its leader, or takes
/// from it, and its own buffers.
fn shared(call: &Call, levels: &Levels) -> f64 {
    let (up, down) = match call.collective {
        Collective::AllReduce => (1.0, 1.0),
        Collective::Reduce => (1.0, 0.0),
        Collective::Broadcast => (0.0, 1.0),
        _ => return 0.0,
    };
    let Some(&(_, level)) = levels.groups.first() else {
        return 0.0;
    };
    let work = Work {
        reads: up + down,
        locals: up,
        writes: down,
        ..Work::default()
    };
    let per_node = f64::from(call.site.machine.per_node);
    Hop::at(call, level, work, per_node).shared(1.0, call.bytes)
}
