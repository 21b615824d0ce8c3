//! Chain, double binary tree, two-shot: the data is cut up, and all ranks work on all of it.

use super::call::Call;
use super::flat::{ChainOrder, inside, pipeline, pipeline_beside};
use super::hop::{Hop, taper};
use super::shared::{Commons, Flows};
use super::work::{FOLD_ON, PASS_ON, Work};
use crate::plan::Collective;
use crate::price::cluster::Level;
use crate::price::costs::Carrier;

/// The core of a rank, the interfaces of a node, and the longest way, for one phase of messages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Phase {
    pub core: f64,
    pub link: f64,
    pub latency: f64,
}

/// `prev -> output`
pub(super) const RECEIVE: Work = Work {
    steps: 1.0,
    reads: 1.0,
    sends: 0.0,
    locals: 0.0,
    writes: 1.0,
    folds: 0.0,
};

/// `prev + input -> output, next`
const SCAN_ON: Work = Work {
    writes: 1.0,
    ..FOLD_ON
};
/// `prev + input -> next`, then `prev -> output`
const EXSCAN_ON: Work = Work {
    steps: 2.0,
    reads: 2.0,
    writes: 1.0,
    ..FOLD_ON
};

impl Phase {
    fn time(&self) -> f64 {
        self.latency + self.core.max(self.link)
    }
}

/// The ring's pipeline: its ranks stand node by node too, but in a scan by number.
pub(super) fn chain(call: &Call) -> Option<f64> {
    match call.collective {
        Collective::Broadcast => Some(pipeline(call, ChainOrder::Ring, PASS_ON)),
        Collective::Reduce => Some(pipeline(call, ChainOrder::Ring, FOLD_ON)),
        Collective::Scan => Some(pipeline(call, ChainOrder::Numbers, SCAN_ON)),
        Collective::Exscan if call.n <= 2.0 => Some(pipeline(call, ChainOrder::Numbers, PASS_ON)),
        Collective::Exscan => Some(pipeline_beside(
            call,
            ChainOrder::Numbers,
            FOLD_ON,
            EXSCAN_ON,
        )),
        _ => None,
    }
}

/// Down (or up) the tree between nodes, along the chain inside them. With two channels or more
/// each tree carries half of the data.
pub(super) fn tree(call: &Call) -> Option<f64> {
    let passes = match call.collective {
        Collective::AllReduce => vec![FOLD_ON, PASS_ON],
        Collective::Broadcast => vec![PASS_ON],
        Collective::Reduce => vec![FOLD_ON],
        _ => return None,
    };
    let machine = &call.site.machine;
    let chunk = call.geometry.chunk_bytes() as f64;
    let (rounds, bytes) = call.rounds(chunk);
    let piece = bytes / call.channels;
    let pieces = rounds * call.channels;
    // A root feeds two trees over the other nodes; without one the trees are over all.
    let depth = match machine.nodes {
        1 => 0.0,
        nodes => f64::from(nodes).log2().ceil(),
    };
    let (mut way, mut busy, mut turn): (f64, f64, f64) = (0.0, 0.0, 0.0);
    let both = passes.len() as f64;
    for pass in passes {
        let folds = pass.folds > 0.0;
        let inner = match folds {
            true => Work {
                reads: 2.0,
                folds: 2.0,
                ..pass
            },
            false => Work { sends: 2.0, ..pass },
        };
        let far = Hop::at(call, Level::Network, inner, 1.0);
        way += depth * far.path(piece);
        let near = inside(call, pass, pieces);
        way += near.way(piece);
        let mut most = near.busy(1.0, piece);
        if machine.nodes > 1 {
            // Two messages pass the interface in one direction.
            let cost = call.site.costs.level(Level::Network);
            most = most.max(far.busy(1.0, piece));
            most = most.max(2.0 * (cost.gap_ns + piece * cost.byte_ns));
            turn = turn.max(far.turn(piece, call.depth() * call.channels));
        }
        busy += most;
    }
    if machine.nodes > 1 && both > 1.0 {
        // Up and down use different directions of the interface.
        let cost = call.site.costs.level(Level::Network);
        let cores = Hop::at(call, Level::Network, FOLD_ON, 1.0);
        busy = busy
            .min((3.0 * (cost.gap_ns + piece * cost.byte_ns)).max(2.5 * cores.busy(1.0, piece)));
    }
    Some(way + (pieces - 1.0) * busy.max(turn))
}

/// Messages of `bytes` from (or to) every other rank, by every rank of `ranks`.
pub(super) fn phase(call: &Call, count: f64, bytes: f64, work: Work, all: bool) -> Phase {
    let machine = &call.site.machine;
    let mut phase = Phase::default();
    for (part, level) in call.everybody() {
        let hop = Hop::at(call, level, work, 1.0);
        phase.core += part * count * (hop.core_ns + bytes * hop.core_byte_ns);
        phase.latency = phase.latency.max(hop.latency_ns);
        let cost = call.site.costs.level(level);
        if cost.carrier == Carrier::Wire {
            let ranks = f64::from(machine.per_node) / f64::from(machine.nics.max(1));
            let flows = if all { ranks } else { 1.0 };
            let bytes = bytes * cost.byte_ns * taper(call.site, level);
            phase.link += part * count * flows * (cost.gap_ns + bytes);
        }
    }
    if machine.crowded() {
        let crowd = f64::from(machine.per_node) / f64::from(machine.cores);
        let turns = if all { crowd } else { 1.0 };
        phase.core = (phase.core + call.site.costs.switch_ns) * turns;
    }
    let flows = match all {
        true => Flows::Spread(f64::from(machine.per_node)),
        false => Flows::ToOne,
    };
    let shared = Commons::of(call, call.parts(), work, flows);
    phase.core = phase.core.max(shared.taken(count, count * bytes));
    phase
}

/// Slices to their owners, results from them.
pub(super) fn two_shot(call: &Call) -> Option<f64> {
    two_shots(call, false)
}

/// Two shots where an owner writes its result once for all.
pub(super) fn two_shot_by_cast(call: &Call) -> Option<f64> {
    two_shots(call, true)
}

/// Every rank hands each other one its slice of `bytes`, and folds its own.
pub(super) fn scatter_slices(call: &Call, bytes: f64) -> f64 {
    let send = Work {
        steps: 1.0,
        sends: 1.0,
        locals: 1.0,
        ..Work::default()
    };
    let fold = Work {
        reads: 1.0,
        folds: 1.0,
        ..Work::default()
    };
    let others = call.n - 1.0;
    let out = phase(call, others, bytes, send, true).time();
    out + phase(call, others, bytes, fold, true).core + call.own(bytes)
}

/// Every rank hands its slice of `bytes`, which it has folded before, to all others, or casts
/// it, and takes theirs.
pub(super) fn gather_slices(call: &Call, bytes: f64, cast: bool) -> f64 {
    let copies = Work {
        sends: 1.0,
        ..Work::default()
    };
    let others = call.n - 1.0;
    let copied = if cast { 1.0 } else { others };
    let mut out = phase(call, copied, bytes, copies, true);
    out.core += call.own(bytes);
    out.link = (out.link).max(phase(call, others, bytes, copies, true).link);
    if cast {
        out.latency = out.latency.max(call.served_ns());
    }
    out.time() + phase(call, others, bytes, RECEIVE, true).core
}

fn two_shots(call: &Call, cast: bool) -> Option<f64> {
    let others = call.n - 1.0;
    let chunk = call.geometry.chunk_bytes() as f64;
    let split = |pieces: f64| {
        let (rounds, bytes) = call.rounds(chunk * pieces);
        (rounds, bytes / pieces)
    };
    Some(match call.collective {
        Collective::AllReduce => {
            let (rounds, bytes) = split(call.n);
            rounds * (scatter_slices(call, bytes) + gather_slices(call, bytes, cast))
        }
        Collective::ReduceScatter => {
            let (rounds, bytes) = split(1.0);
            rounds * scatter_slices(call, bytes)
        }
        Collective::AllGather => {
            let (rounds, bytes) = split(1.0);
            rounds * gather_slices(call, bytes, cast)
        }
        Collective::Reduce => {
            let (rounds, bytes) = split(call.n);
            let root = phase(call, others, bytes, RECEIVE, false).time();
            let result = bytes * call.site.costs.write_ns;
            rounds * (scatter_slices(call, bytes) + result + root)
        }
        Collective::Broadcast => {
            let (rounds, bytes) = split(others);
            let all = Work {
                steps: 1.0,
                sends: 1.0,
                locals: 1.0,
                writes: 1.0,
                ..Work::default()
            };
            let root = phase(call, others, bytes, all, false).time();
            let rest = gather_slices(call, bytes, cast);
            // The root goes on to the next round while the others are at this one.
            root + rest + (rounds - 1.0) * root.max(rest)
        }
        _ => return None,
    })
}
