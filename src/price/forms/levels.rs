//! Compositions, one algorithm inside every node and another one between the nodes, and the chain
//! in the order of ranks.
//!
//! A lane runs its levels one after the other, and its rounds: the time of a round is the sum of
//! the levels. Inside, the form of two-shot is that of a machine of one node. Between the nodes as
//! many columns as a node has ranks work at once, and share its interfaces.

use super::call::Call;
use super::exchange::{EXCHANGE_FOLD, SIGNAL, guest_hops};
use super::flat::{ChainOrder, pace, pipeline};
use super::hop::{Hop, taper};
use super::packed::{halve_and_double, halve_blocks};
use super::spread::{RECEIVE, gather_slices, phase, scatter_slices};
use super::work::{FOLD_ON, PASS_ON, Work};
use crate::plan::Collective;
use crate::price::Site;
use crate::price::cluster::{Cluster, Level};

/// `input -> next`
const SEND: Work = Work {
    steps: 1.0,
    reads: 0.0,
    sends: 1.0,
    locals: 1.0,
    writes: 0.0,
    folds: 0.0,
};

/// One node of the machine.
fn one_node(call: &Call) -> Site {
    Site {
        machine: Cluster {
            nodes: 1,
            ..call.site.machine.clone()
        },
        ..call.site.clone()
    }
}

/// Nodes, and ranks of each.
fn grid(call: &Call) -> (f64, f64) {
    let machine = &call.site.machine;
    (f64::from(machine.nodes), f64::from(machine.per_node))
}

/// The members of a column: how many, and their distance.
fn column(call: &Call) -> (u32, u32) {
    let machine = &call.site.machine;
    (machine.nodes, machine.per_node)
}

/// A hand-over between the nodes in which every rank takes part.
fn between(call: &Call, work: Work) -> Hop {
    let (_, per_node) = grid(call);
    Hop::at(call, Level::Network, work, per_node)
}

/// Rounds of a call whose data are cut into a slice for each rank of a node, and its bytes.
fn slices(call: &Call) -> (f64, f64) {
    let (_, per_node) = grid(call);
    let chunk = call.geometry.chunk_bytes() as f64;
    let (rounds, bytes) = call.rounds(chunk * per_node);
    (rounds, bytes / per_node)
}

fn scatter_inside(call: &Call, bytes: f64) -> f64 {
    scatter_slices(&call.on(&one_node(call)), bytes)
}

fn gather_inside(call: &Call, bytes: f64) -> f64 {
    match call.site.machine.per_node {
        1 => 0.0,
        _ => gather_slices(&call.on(&one_node(call)), bytes, false),
    }
}

/// Two-shot inside, halving and doubling between.
pub(super) fn hierarchical(call: &Call) -> Option<f64> {
    let (nodes, _) = grid(call);
    Some(match call.collective {
        Collective::AllReduce => {
            let (rounds, slice) = slices(call);
            let column = match call.site.machine.nodes {
                1 => 0.0,
                _ => halve_and_double(call, column(call), slice),
            };
            rounds * (scatter_inside(call, slice) + column + gather_inside(call, slice))
        }
        Collective::AllGather => {
            let (rounds, block) = call.packed_rounds(nodes);
            let column = blocks_between(call, block);
            rounds * (call.own(block) + column + gather_inside(call, nodes * block))
        }
        Collective::ReduceScatter => {
            let (rounds, block) = call.packed_rounds(nodes);
            let column = blocks_between(call, block);
            rounds * (scatter_inside(call, nodes * block) + column + call.own(block))
        }
        Collective::Broadcast | Collective::Reduce => by_leaders(call),
        Collective::Barrier => signals(call),
        _ => return None,
    })
}

fn blocks_between(call: &Call, block: f64) -> f64 {
    match call.site.machine.nodes {
        1 => 0.0,
        _ => halve_blocks(call, column(call), block),
    }
}

/// With a root: slices between it and the leaders of its node, binomial trees in the columns,
/// two-shot inside. Rounds follow each other at the pace of the busiest rank.
fn by_leaders(call: &Call) -> f64 {
    let (rounds, slice) = slices(call);
    let (_, per_node) = grid(call);
    let down = call.collective == Collective::Broadcast;
    let inner = one_node(call);
    let inside = call.on(&inner);
    let work = if down { SEND } else { RECEIVE };
    let dealt = phase(&inside, per_node - 1.0, slice, work, false);
    let dealing = dealt.core + dealt.latency + call.own(slice);
    let shared = match down {
        true => gather_inside(call, slice),
        false => scatter_inside(call, slice),
    };
    let work = if down { PASS_ON } else { EXCHANGE_FOLD };
    let hop = between(call, work);
    // The most ones in the binary number of a node.
    let depth = f64::from(call.site.machine.nodes.ilog2());
    let links = depth * (hop.busy_alone(1.0, slice) - hop.core_ns - slice * hop.core_byte_ns);
    let tree = depth * hop.path(slice);
    let pace = (dealt.core + call.own(slice) + shared)
        .max(shared + depth * hop.busy_alone(1.0, slice) + links.max(0.0));
    dealing + tree + shared + (rounds - 1.0) * pace
}

/// A signal to the leader, recursive doubling between the leaders, a signal back.
fn signals(call: &Call) -> f64 {
    let (_, per_node) = grid(call);
    let inner = one_node(call);
    let inside = call.on(&inner);
    let others = per_node - 1.0;
    let signal = Work {
        steps: 0.0,
        reads: 1.0,
        ..Work::default()
    };
    let mut time = 0.0;
    if others > 0.0 {
        // The leader waits for all, and then tells all.
        let gathered = phase(&inside, others, 0.0, signal, false);
        let hop = Hop::at(call, inner.machine.widest(), SIGNAL, 1.0);
        time += 2.0 * (gathered.core + hop.path(0.0));
    }
    time + between_leaders(call, SIGNAL, 0.0)
}

/// Recursive doubling between the first ranks of all nodes; their mates wait.
fn between_leaders(call: &Call, work: Work, bytes: f64) -> f64 {
    let nodes = call.site.machine.nodes;
    let far = Hop::at(call, Level::Network, work, 1.0);
    (f64::from(nodes.ilog2()) + guest_hops(nodes)) * far.path(bytes)
}

/// Two-shot inside, and in each column up a binary tree and down again.
pub(super) fn nvls_tree(call: &Call) -> Option<f64> {
    if call.collective != Collective::AllReduce {
        return None;
    }
    let (rounds, slice) = slices(call);
    let (nodes, _) = grid(call);
    let depth = nodes.log2().ceil();
    let up = Work {
        reads: 1.5,
        folds: 1.5,
        ..FOLD_ON
    };
    let down = Work {
        sends: 1.5,
        ..PASS_ON
    };
    // Channels share cores, but overlap on their way between nodes.
    let piece = slice / call.channels;
    let hops = [up, down].map(|work| between(call, work).crowded_path(piece));
    let inside = scatter_inside(call, piece) + gather_inside(call, piece);
    Some(rounds * (call.channels * inside + depth * (hops[0] + hops[1])))
}

/// Two-shot inside; in each column one head takes from all others, folds, and hands back.
pub(super) fn collnet(call: &Call) -> Option<f64> {
    if call.collective != Collective::AllReduce {
        return None;
    }
    let (rounds, slice) = slices(call);
    let (nodes, per_node) = grid(call);
    let column = match call.site.machine.nodes {
        1 => 0.0,
        _ => reducer(call, slice, (per_node / nodes).ceil()),
    };
    Some(rounds * (scatter_inside(call, slice) + column + gather_inside(call, slice)))
}

/// A reducer that is played by a head, `switches` of which are on one node.
fn reducer(call: &Call, slice: f64, switches: f64) -> f64 {
    let (nodes, _) = grid(call);
    let (costs, machine) = (&call.site.costs, &call.site.machine);
    let others = nodes - 1.0;
    let cost = costs.level(Level::Network);
    let to = Hop::at(call, Level::Network, SEND, 1.0);
    let work = Work {
        steps: 1.0,
        reads: others,
        sends: others,
        locals: 1.0,
        writes: 1.0,
        folds: others,
    };
    let fold = Hop::at(call, Level::Network, work, 1.0);
    let from = Hop::at(call, Level::Network, RECEIVE, 1.0);
    let messages = others * (switches / f64::from(machine.nics.max(1))).max(1.0);
    let token = cost.gap_ns + slice * cost.byte_ns * taper(call.site, Level::Network);
    let core = |hop: &Hop| hop.core_ns + slice * hop.core_byte_ns;
    2.0 * (messages * token + cost.latency_ns) + core(&to) + core(&fold) + core(&from)
}

/// Up the chain of ranks and back, or from its end to the root; blocks as in two-shot.
pub(super) fn ordered(call: &Call) -> Option<f64> {
    let chunk = call.geometry.chunk_bytes() as f64;
    let (pieces, bytes) = call.rounds(chunk);
    let alone = || Call {
        bytes,
        ..call.on(call.site)
    };
    let way = |work| pipeline(&alone(), ChainOrder::Numbers, work);
    let (up, down) = (way(FOLD_ON), way(PASS_ON));
    Some(match call.collective {
        Collective::AllReduce => {
            let both = Work {
                steps: 2.0,
                reads: 2.0,
                sends: 2.0,
                locals: 1.0,
                writes: 1.0,
                folds: 1.0,
            };
            up + down + (pieces - 1.0) * pace(call, ChainOrder::Numbers, both, pieces, bytes)
        }
        Collective::Reduce => {
            let last = call.site.machine.widest();
            let last = Hop::at(call, last, RECEIVE, 1.0).path(bytes);
            up + last + (pieces - 1.0) * pace(call, ChainOrder::Numbers, FOLD_ON, pieces, bytes)
        }
        Collective::ReduceScatter => pieces * scatter_slices(call, bytes),
        _ => return None,
    })
}
