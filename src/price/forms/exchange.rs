//! Exchanges: every rank hands a token to a rank at some distance, and takes one.

use super::call::Call;
use super::hop::{Hop, Work};
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

/// An exchange in which every rank sends over `distance` ranks.
pub(super) fn exchange(call: &Call, distance: u32, work: Work) -> Hop {
    let machine = &call.site.machine;
    let level = call.level(distance.min(machine.nranks() - 1));
    // Inside the first nodes' distance only the ranks at the edge leave the node.
    let leaving = distance.min(machine.per_node);
    let flows = match level {
        Level::Network => leaving,
        _ => machine.per_node,
    };
    Hop::at(call, level, work, f64::from(flows))
}

/// Whether a rank that looks over `distance` ranks finds one on another node somewhere.
pub(super) fn crossing(call: &Call, distance: u32, work: Work) -> Hop {
    let machine = &call.site.machine;
    if machine.nodes == 1 || distance >= machine.per_node {
        return exchange(call, distance, work);
    }
    // Some pair of this distance is cut by the edge of a node, unless both are powers of two.
    let aligned = machine.per_node.is_multiple_of(2 * distance) && call.is_power();
    match aligned {
        true => exchange(call, distance, work),
        false => Hop::at(call, Level::Network, work, f64::from(distance)),
    }
}

/// Exchanges of one token each: (distance, blocks), of `bytes` a block.
pub(super) fn tokens(call: &Call, exchanges: &[(u32, f64)], bytes: f64, work: Work) -> f64 {
    let hop = |&(distance, blocks): &(u32, f64)| {
        crossing(call, distance, work).path_of_all(blocks * bytes)
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
    rounds * tokens(call, exchanges, bytes, EXCHANGE)
}
