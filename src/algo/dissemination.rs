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

/// All known blocks travel with the signals.
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
    spread(g, false);
}

/// Gathers from all members as [`all_gather_in`] does. If `mirrored`, pieces come from the members
/// ahead.
pub fn spread(g: &mut Group, mirrored: bool) {
    let me = i64::from(g.me);
    let counts = distances(g.n).map(|distance| distance.min(g.n - distance));
    g.pieces(counts.max().unwrap_or(1));
    g.copy(me, false);
    for distance in distances(g.n) {
        // The pieces of the members from me back to the last that is known, and is new ahead.
        let count = i64::from(distance.min(g.n - distance));
        let (ahead, behind) = (g.ahead(distance), g.behind(distance));
        let distance = i64::from(distance);
        match mirrored {
            false => {
                let first = me - count + 1;
                let theirs = first - distance;
                g.exchange(
                    (ahead, first..first + count),
                    (behind, theirs..theirs + count),
                );
            }
            true => {
                let theirs = me + distance;
                g.exchange((behind, me..me + count), (ahead, theirs..theirs + count));
            }
        }
    }
}
