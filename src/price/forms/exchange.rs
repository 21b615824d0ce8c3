//! Exchanges: every rank hands a token to a rank at some distance, and takes one.

use super::call::Call;
use super::hop::Hop;
use super::work::Work;
use crate::price::cluster::Level;

/// `input -> next`, then `prev + output -> output`: two steps, because both sides do both.
pub(super) const EXCHANGE_FOLD: Work = Work {
    steps: 2.0,
    reads: 1.0,
    sends: 1.0,
    locals: 2.0,
    writes: 1.0,
    folds: 1.0,
};
/// `output -> next`, then `prev -> output`.
pub(super) const EXCHANGE: Work = Work {
    steps: 2.0,
    reads: 1.0,
    sends: 1.0,
    locals: 1.0,
    writes: 1.0,
    folds: 0.0,
};
/// A signal out and one in, by two steps.
pub(super) const SIGNAL: Work = Work {
    steps: 2.0,
    reads: 1.0,
    sends: 1.0,
    locals: 0.0,
    writes: 0.0,
    folds: 0.0,
};

/// Of `n` ranks a power of two take part in exchanges at doubling distances.
pub(super) fn cores(n: u32) -> u32 {
    1 << n.ilog2()
}

/// Hand-overs that the others, who are guests, add to the exchanges: in, and out again.
pub(super) fn guest_hops(n: u32) -> f64 {
    if n == cores(n) { 0.0 } else { 2.0 }
}

/// Whom a rank exchanges with.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Exchanged {
    /// Of the cores the partner whose number differs in one bit: they give each other something.
    Partner,
    /// It gives to the rank so far ahead, and takes from the one as far behind.
    Ahead,
}

/// An exchange of all ranks over `distance`, a power of two.
pub(super) fn exchange(call: &Call, reach: Exchanged, distance: u32, work: Work) -> Hop {
    let machine = &call.site.machine;
    if machine.nodes > 1 {
        return across_nodes(call, distance, work);
    }
    let pairs = &call.site.pairs;
    match reach {
        Exchanged::Partner => Hop::between(call, &pairs.exchange(distance), work),
        Exchanged::Ahead => Hop::by_turns(call, &pairs.ahead(distance), work),
    }
}

/// The hand-over of guests to their hosts, among members so far apart.
pub(super) fn guests_in(call: &Call, stride: u32, work: Work) -> Hop {
    with_guests(call, stride, 0, work)
}

/// The hand-over of hosts to their guests.
pub(super) fn guests_out(call: &Call, stride: u32, work: Work) -> Hop {
    with_guests(call, stride, 1, work)
}

fn with_guests(call: &Call, stride: u32, way: usize, work: Work) -> Hop {
    match call.site.machine.nodes {
        1 => Hop::between(call, &call.site.pairs.guests[way], work),
        _ => across_nodes(call, stride, work),
    }
}

/// A rank that looks over `distance` ranks finds one on another node somewhere, if there is one.
fn across_nodes(call: &Call, distance: u32, work: Work) -> Hop {
    let machine = &call.site.machine;
    // Some pair of this distance is cut by the edge of a node, unless both are powers of two.
    let aligned = machine.per_node.is_multiple_of(2 * distance) && call.is_power();
    let level = match aligned {
        true => call.level(distance),
        false => Level::Network,
    };
    // Inside the first nodes' distance only the ranks at the edge leave the node.
    let flows = match level {
        Level::Network => distance.min(machine.per_node),
        _ => machine.per_node,
    };
    Hop::at(call, level, work, f64::from(flows))
}

/// Exchanges of one token each: (distance, blocks), of `bytes` a block.
pub(super) fn tokens(
    call: &Call,
    reach: Exchanged,
    exchanges: &[(u32, f64)],
    bytes: f64,
    work: Work,
) -> f64 {
    let hop = |&(distance, blocks): &(u32, f64)| {
        exchange(call, reach, distance, work).path_of_all(blocks * bytes)
    };
    exchanges.iter().map(hop).sum()
}

/// Exchanges that double the blocks a rank knows: one token each.
pub(super) fn doubling_blocks(call: &Call, exchanges: &[(u32, f64)]) -> f64 {
    let most = exchanges
        .iter()
        .map(|(_, blocks)| *blocks)
        .fold(1.0, f64::max);
    let (rounds, bytes) = call.packed_rounds(most);
    rounds * tokens(call, Exchanged::Ahead, exchanges, bytes, EXCHANGE)
}
