//! Dissemination: in exchange k every rank tells the rank 2^k ahead what it knows.
//!
//! After exchange k a rank has heard, directly or not, of the 2^(k+1) - 1 ranks behind it: log n
//! hand-overs for any number of ranks, powers of two or not.
//!
//! Reference: D. Hensgen, R. Finkel, U. Manber, "Two algorithms for barrier synchronization",
//! Int. J. Parallel Programming 17 (1988), doi:10.1007/BF01379320.

use super::group::{Group, flat};
use crate::plan::{Layout, Nodes, Plan, Shape};

/// Signals only.
pub fn barrier(shape: &Shape, _: &Nodes) -> Plan {
    flat(shape, 1, Layout::Blocks, barrier_in)
}

/// Blocks travel with the signals; they are exchanged one against one, so that connections never
/// fill up.
pub fn all_gather(shape: &Shape, _: &Nodes) -> Plan {
    flat(shape, shape.nranks, Layout::Blocks, all_gather_in)
}

/// Distances of the exchanges among n members.
fn distances(n: u32) -> impl Iterator<Item = u32> {
    (0..32)
        .map(|k| 1 << k)
        .take_while(move |&distance| distance < n)
}

/// Nobody leaves before all have entered.
pub fn barrier_in(g: &mut Group) {
    for distance in distances(g.n) {
        g.signal(&[g.ahead(distance)]);
        g.wait(&[g.behind(distance)]);
    }
}

/// Piece c, a contribution of member c, ends at all.
pub fn all_gather_in(g: &mut Group) {
    let me = i64::from(g.me);
    g.copy(me, false);
    for distance in distances(g.n) {
        let (to, from) = (g.to(g.ahead(distance)), g.from(g.behind(distance)));
        // The pieces of the members from me back to the last that is known, and is new ahead.
        for back in 0..i64::from(distance.min(g.n - distance)) {
            g.send_result(to, me - back);
            g.recv(from, me - back - i64::from(distance));
        }
    }
}
