//! Exchanges at doubling distances, and binomial trees.

use super::call::Call;
use super::exchange::{
    EXCHANGE, EXCHANGE_FOLD, SIGNAL, cores, crossing, doubling_blocks, exchange, guest_hops,
};
use super::flat::{Row, pipeline};
use super::hop::{Hop, PASS_ON, Work};
use crate::plan::Collective;
use crate::price::cluster::Level;

/// Exchanges among the greatest power of two, and two more hand-overs where that is not all.
pub(super) fn recursive_doubling(call: &Call) -> Option<f64> {
    let n = call.site.machine.nranks();
    let (cores, guests) = (cores(n), guest_hops(n));
    let powers = || call.distances().filter(move |&d| d < cores);
    Some(match call.collective {
        Collective::AllReduce => {
            let chunk = call.geometry.chunk_bytes() as f64;
            let (rounds, bytes) = call.rounds(chunk);
            let exchanges = powers().map(|d| crossing(call, d, EXCHANGE_FOLD));
            let path: f64 = exchanges.map(|hop| hop.path_of_all(bytes)).sum();
            let guest = crossing(call, 1, EXCHANGE_FOLD).path(bytes);
            rounds * (path + guests * guest)
        }
        Collective::Barrier => {
            let path: f64 = powers()
                .map(|d| crossing(call, d, SIGNAL).path_of_all(0.0))
                .sum();
            path + guests * crossing(call, 1, SIGNAL).path(0.0)
        }
        Collective::Scan | Collective::Exscan => doubling_scan(call),
        Collective::AllGather => {
            let each = call.n / f64::from(cores);
            let blocks: Vec<_> = powers().map(|d| (d, f64::from(d) * each)).collect();
            let guest = match guests > 0.0 {
                true => doubling_blocks(call, &[(1, call.n - 1.0)]),
                false => 0.0,
            };
            doubling_blocks(call, &blocks) + guest
        }
        _ => return None,
    })
}

/// Of the distances that a way upwards through the ranks is made of, the largest that need not
/// leave a node: a way crosses no more edges of nodes than there are, and in `aligned` groups
/// of ranks only where it must.
fn farthest_inside(call: &Call, aligned: bool) -> u32 {
    let machine = &call.site.machine;
    let all = call.distances().count();
    let must = call.distances().filter(|&d| d >= machine.per_node).count();
    let may = (machine.nodes as usize - 1).min(all);
    let crossing = if aligned { must } else { must.max(may) };
    call.distances().take(all - crossing).last().unwrap_or(0)
}

/// Level of ranks that are `distance` apart on one node.
fn inside(call: &Call, distance: u32) -> Level {
    call.level(distance.min(call.site.machine.per_node - 1))
}

/// A hand-over to the rank 2^k further for each k, whatever the number of ranks; one more in
/// front where the own input does not count.
fn doubling_scan(call: &Call) -> f64 {
    let machine = &call.site.machine;
    let chunk = call.geometry.chunk_bytes() as f64;
    let (rounds, bytes) = call.rounds(chunk);
    let near = farthest_inside(call, false);
    let shift = |distance: u32, work: Work| {
        let hop = match distance > near {
            false => Hop::at(
                call,
                inside(call, distance),
                work,
                f64::from(machine.per_node),
            ),
            true => {
                let flows = f64::from(distance.min(machine.per_node));
                Hop::at(call, Level::Network, work, flows)
            }
        };
        hop.crowded_path(bytes)
    };
    let (first, least) = match call.collective {
        // One rank sends, and the other one receives.
        Collective::Exscan if machine.nranks() == 2 => {
            return pipeline(call, Row::Numbers, PASS_ON);
        }
        Collective::Exscan => (shift(1, EXCHANGE), 1),
        _ => (0.0, 0),
    };
    let last = machine.nranks() - least;
    let doubled = call.distances().filter(|&d| d < last);
    rounds * (first + doubled.map(|d| shift(d, EXCHANGE_FOLD)).sum::<f64>())
}

/// Exchange k goes to the rank 2^k ahead.
pub(super) fn dissemination(call: &Call) -> Option<f64> {
    let n = call.site.machine.nranks();
    Some(match call.collective {
        Collective::Barrier => {
            let hops = call.distances().map(|d| crossing(call, d, SIGNAL));
            hops.map(|hop| hop.crowded_path(0.0)).sum()
        }
        Collective::AllGather => {
            let blocks = call.distances().map(|d| (d, f64::from(d.min(n - d))));
            doubling_blocks(call, &blocks.collect::<Vec<_>>())
        }
        _ => return None,
    })
}

/// Every pair in turn.
pub(super) fn pairwise(call: &Call) -> Option<f64> {
    if call.collective != Collective::AllToAll {
        return None;
    }
    let chunk = call.geometry.chunk_bytes() as f64;
    let (rounds, bytes) = call.rounds(chunk);
    let per_node = f64::from(call.site.machine.per_node);
    let exchanges = call.everybody().into_iter().map(|(part, level)| {
        let hop = Hop::at(call, level, EXCHANGE, per_node);
        part * (call.n - 1.0) * hop.crowded_path(bytes)
    });
    let costs = &call.site.costs;
    let own = costs.step_ns + bytes * (costs.read_ns + costs.write_ns);
    Some(rounds * (own + exchanges.sum::<f64>()))
}

/// A binomial tree from or to the root.
pub(super) fn binomial(call: &Call) -> Option<f64> {
    match call.collective {
        Collective::Broadcast | Collective::Reduce => Some(binomial_pieces(call)),
        Collective::Gather | Collective::Scatter => Some(binomial_blocks(call)),
        _ => None,
    }
}

/// One step of a rank serves all its children: the root has log n, the ranks below fewer.
fn binomial_pieces(call: &Call) -> f64 {
    let chunk = call.geometry.chunk_bytes() as f64;
    let (pieces, bytes) = call.rounds(chunk);
    let per_node = call.site.machine.per_node;
    let near = farthest_inside(call, call.is_power() && per_node.is_power_of_two());
    let hop = |distance: u32, work: Work| match distance > near {
        true => Hop::at(call, Level::Network, work, 1.0),
        false => Hop::at(call, inside(call, distance), work, f64::from(per_node)),
    };
    let core = |hop: &Hop| hop.core_ns + bytes * hop.core_byte_ns;
    // The child at distance 2^k has k children of its own.
    let (mut path, mut sent, mut below): (f64, f64, f64) = (0.0, 0.0, 0.0);
    let mut children = 0.0;
    for distance in call.distances() {
        let child = hop(distance, member(call, 0.0, 1.0));
        path += child.path(bytes) + children;
        below = below.max(core(&child) + children);
        children += core(&hop(distance, member(call, 1.0, 0.0)));
        sent += alone(call, distance, bytes);
    }
    let top = exchange(call, 1, member(call, 0.0, 0.0));
    path += core(&top) + children;
    if call.collective == Collective::Reduce {
        // The others of the core come first, once.
        path += (top.crowd - 1.0) * (top.path(bytes) - top.latency_ns);
    }
    let busy = top.busy(1.0, bytes) + children * top.crowd;
    let turn = top.turn(bytes, call.depth()) + children / call.depth();
    path + (pieces - 1.0) * busy.max(sent).max(below).max(turn)
}

/// Work of a rank of a tree for its children, or for its parent, or for itself alone.
fn member(call: &Call, children: f64, parents: f64) -> Work {
    let down = call.collective == Collective::Broadcast;
    match (down, children > 0.0) {
        (true, true) => Work {
            sends: children,
            ..Work::default()
        },
        (true, false) => Work {
            steps: 1.0,
            reads: parents,
            locals: 1.0 - parents,
            writes: 1.0,
            ..Work::default()
        },
        (false, true) => Work {
            reads: children,
            folds: children,
            ..Work::default()
        },
        (false, false) => Work {
            steps: 1.0,
            locals: 1.0,
            sends: parents,
            writes: 1.0 - parents,
            ..Work::default()
        },
    }
}

/// Time that a message of the root takes on the network, if it goes there.
fn alone(call: &Call, distance: u32, bytes: f64) -> f64 {
    match call.level(distance) {
        Level::Network => {
            let cost = call.site.costs.level(Level::Network);
            cost.gap_ns + bytes * cost.byte_ns
        }
        _ => 0.0,
    }
}

/// Blocks pass one by one: the root handles n - 1 of them, after the first has come.
fn binomial_blocks(call: &Call) -> f64 {
    let chunk = call.geometry.chunk_bytes() as f64;
    let (rounds, bytes) = call.rounds(chunk);
    let pass = Work {
        steps: 1.0,
        reads: 1.0,
        sends: 1.0,
        ..Work::default()
    };
    let end = Work {
        steps: 1.0,
        reads: 1.0,
        writes: 1.0,
        ..Work::default()
    };
    let far = exchange(call, call.site.machine.nranks() / 2, pass);
    let way: f64 = call
        .distances()
        .map(|d| exchange(call, d, pass).path(bytes))
        .sum();
    let level = call.site.machine.widest();
    let last = Hop::at(call, level, end, 1.0);
    let pace = last
        .busy_alone(1.0, bytes)
        .max(far.turn(bytes, call.depth()));
    let costs = &call.site.costs;
    let own = costs.step_ns + bytes * (costs.read_ns + costs.write_ns);
    // The core of the root passes on half of all blocks for each doubling of its ranks.
    let shared = 1.0 + last.crowd.log2() / 2.0;
    way + ((rounds * (call.n - 1.0) - 1.0) * pace + rounds * own) * shared
}
