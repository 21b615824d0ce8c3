//! Exchanges at doubling distances, and binomial trees.

use super::call::Call;
use super::exchange::{
    EXCHANGE, EXCHANGE_FOLD, Exchanged, SIGNAL, cores, doubling_blocks, exchange, guest_hops,
    guests_in, guests_out, tokens,
};
use super::flat::{ChainOrder, pipeline};
use super::hop::Hop;
use super::shared::{Commons, Flows};
use super::work::{FOLD_ON, PASS_ON, Work};
use crate::plan::Collective;
use crate::price::cluster::Level;

/// Exchanges among the greatest power of two, and two more hand-overs where that is not all.
pub(super) fn recursive_doubling(call: &Call) -> Option<f64> {
    let n = call.site.machine.nranks();
    let (cores, guests) = (cores(n), guest_hops(n) > 0.0);
    let powers = || call.distances().filter(move |&d| d < cores);
    let in_and_out = |work: [Work; 2], bytes: [f64; 2]| match guests {
        true => {
            guests_in(call, 1, work[0]).path(bytes[0]) + guests_out(call, 1, work[1]).path(bytes[1])
        }
        false => 0.0,
    };
    let all = |work, bytes| {
        let exchanges = powers().map(|d| exchange(call, Exchanged::Partner, d, work));
        exchanges.map(|hop| hop.path_of_all(bytes)).sum::<f64>()
    };
    Some(match call.collective {
        Collective::AllReduce => {
            let chunk = call.geometry.chunk_bytes() as f64;
            let (rounds, bytes) = call.rounds(chunk);
            let guests = in_and_out([EXCHANGE_FOLD, EXCHANGE], [bytes; 2]);
            rounds * (all(EXCHANGE_FOLD, bytes) + guests)
        }
        Collective::Barrier => all(SIGNAL, 0.0) + in_and_out([SIGNAL; 2], [0.0; 2]),
        Collective::Scan | Collective::Exscan => doubling_scan(call),
        Collective::AllGather => {
            let each = call.n / f64::from(cores);
            let blocks: Vec<_> = powers().map(|d| (d, f64::from(d) * each)).collect();
            let known = call.n - 1.0;
            let most = if guests { known } else { call.n / 2.0 };
            let (rounds, bytes) = call.packed_rounds(most);
            let exchanges = tokens(call, Exchanged::Partner, &blocks, bytes, EXCHANGE);
            rounds * (exchanges + in_and_out([EXCHANGE; 2], [bytes, known * bytes]))
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

/// A hand-over to the rank 2^k further for each k, whatever the number of ranks; one more in
/// front where the own input does not count.
fn doubling_scan(call: &Call) -> f64 {
    let machine = &call.site.machine;
    let chunk = call.geometry.chunk_bytes() as f64;
    let (rounds, bytes) = call.rounds(chunk);
    let near = farthest_inside(call, false);
    let shift = |distance: u32, work: Work| match distance > near {
        false => Hop::by_turns(call, &call.site.pairs.upwards(distance), work),
        true => {
            let flows = f64::from(distance.min(machine.per_node));
            Hop::at(call, Level::Network, work, flows)
        }
    };
    let least = match call.collective {
        // One rank sends, and the other one receives.
        Collective::Exscan if machine.nranks() == 2 => {
            return pipeline(call, ChainOrder::Numbers, PASS_ON);
        }
        Collective::Exscan => 1,
        _ => 0,
    };
    let last = machine.nranks() - least;
    let first = (least > 0).then(|| shift(1, EXCHANGE));
    let doubled = call.distances().filter(|&d| d < last);
    let hops: Vec<Hop> = first
        .into_iter()
        .chain(doubled.map(|d| shift(d, EXCHANGE_FOLD)))
        .collect();
    // Nobody waits for those ahead: while one round is at far ranks, the next one is at near ones.
    let path: f64 = hops.iter().map(|hop| hop.crowded_path(bytes)).sum();
    path + (rounds - 1.0) * Hop::busy_in_a_row(&hops, bytes)
}

/// Exchange k goes to the rank 2^k ahead.
pub(super) fn dissemination(call: &Call) -> Option<f64> {
    let n = call.site.machine.nranks();
    Some(match call.collective {
        Collective::Barrier => {
            let hops = call
                .distances()
                .map(|d| exchange(call, Exchanged::Ahead, d, SIGNAL));
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
    let others = call.n - 1.0;
    let exchanges = call.everybody().into_iter().map(|(part, level)| {
        let flows = if level == Level::Network {
            per_node
        } else {
            0.0
        };
        part * others * Hop::at(call, level, EXCHANGE, flows).crowded_path(bytes)
    });
    // Ranks drift apart: what is shared is busy all the time, or idle all the time.
    let all = Commons::of(call, call.parts(), EXCHANGE, Flows::Spread(per_node));
    let exchanges = exchanges
        .sum::<f64>()
        .max(all.taken(others, others * bytes));
    Some(rounds * (call.own(bytes) + exchanges))
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
    let near = near_edges(call);
    let core = |hop: &Hop| hop.core_ns + bytes * hop.core_byte_ns;
    // The child at distance 2^k has k children of its own.
    let (mut path, mut sent, mut below): (f64, f64, f64) = (0.0, 0.0, 0.0);
    let mut children = 0.0;
    for distance in call.distances() {
        let child = edge(call, distance, near, member(call, 0.0, 1.0));
        path += child.path(bytes) + children;
        below = below.max(core(&child) + children);
        children += core(&edge(call, distance, near, member(call, 1.0, 0.0)));
        sent += alone(call, distance, bytes);
    }
    let top = edge(call, 1, near, member(call, 0.0, 0.0));
    path += core(&top) + children;
    if call.collective == Collective::Reduce {
        // The others of the core come first, once.
        path += (top.crowd - 1.0) * (top.path(bytes) - top.latency_ns);
    }
    let busy = top.busy(1.0, bytes) + children * top.crowd;
    let turn = top.turn(bytes, call.depth()) + children / call.depth();
    let work = match down(call) {
        0 => PASS_ON,
        _ => FOLD_ON,
    };
    let shared = Commons::between(call, &call.site.pairs.tree[down(call)], work).taken(1.0, bytes);
    path.max(shared) + (pieces - 1.0) * busy.max(sent).max(below).max(turn).max(shared)
}

/// Of the distances of a binomial tree the largest whose edges need not leave a node.
fn near_edges(call: &Call) -> u32 {
    let per_node = call.site.machine.per_node;
    farthest_inside(call, call.is_power() && per_node.is_power_of_two())
}

/// The hand-over between ranks and their children `distance` ahead.
fn edge(call: &Call, distance: u32, near: u32, work: Work) -> Hop {
    if distance > near {
        return Hop::at(call, Level::Network, work, 1.0);
    }
    // Not all edges of a length are busy at once.
    let parts = call.site.pairs.edges(distance)[0].parts;
    Hop::among(call, parts, work, 1.0)
}

/// Which way data go in the tree: down, or up.
fn down(call: &Call) -> usize {
    usize::from(matches!(
        call.collective,
        Collective::Reduce | Collective::Gather
    ))
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
    if call.site.machine.nodes == 1 || call.level(distance) != Level::Network {
        return 0.0;
    }
    let cost = call.site.costs.level(Level::Network);
    cost.gap_ns + bytes * cost.byte_ns
}

/// Blocks pass one by one: the root handles n - 1 of them, and its farthest child half of them.
fn binomial_blocks(call: &Call) -> f64 {
    let chunk = call.geometry.chunk_bytes() as f64;
    let (rounds, bytes) = call.rounds(chunk);
    let one = |reads: f64, sends: f64| Work {
        steps: 1.0,
        reads,
        sends,
        locals: 1.0 - reads,
        writes: 1.0 - sends,
        ..Work::default()
    };
    let near = near_edges(call);
    let hop = |distance: u32, work: Work| edge(call, distance, near, work);
    let (pass, send, take) = (one(1.0, 1.0), one(0.0, 1.0), one(1.0, 0.0));
    let (at_root, at_leaf) = match call.collective {
        Collective::Gather => (take, send),
        _ => (send, take),
    };
    let pace = |blocks: f64, hop: Hop| {
        let slots = if rounds * blocks > call.depth() {
            hop.turn(bytes, call.depth())
        } else {
            0.0
        };
        hop.busy_alone(1.0, bytes).max(slots)
    };
    let (mut root, mut left) = (0.0, call.n - 1.0);
    for distance in call.distances() {
        let blocks = f64::from(distance).min(left);
        left -= blocks;
        root += blocks * pace(blocks, hop(distance, at_root));
    }
    let far = call.distances().last().unwrap_or(1);
    let half = (call.n / 2.0).floor();
    let child = half * pace(half, hop(far, pass));
    // The root copies its own block while the leaf beside it works.
    let leaf = hop(1, at_leaf).path(bytes);
    let crowd = root_crowd(&hop(1, pass));
    let by_root = rounds * root + (rounds - 1.0) * call.own(bytes) + leaf.max(call.own(bytes));
    let by_child = rounds * child + leaf + hop(far, at_root).path(bytes);
    let inside = call.distances().filter(|&d| d <= near && crowd > 1.0);
    let turns: f64 = inside.map(|d| hop(d, pass).path(bytes)).sum();
    turns + by_root.max(by_child) * crowd
}

/// The core of the root passes on half of all blocks for each doubling of its ranks.
fn root_crowd(hop: &Hop) -> f64 {
    1.0 + hop.crowd.log2() / 2.0
}
