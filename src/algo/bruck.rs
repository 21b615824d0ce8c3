//! Bruck's algorithms: blocks travel by the bits of their distance, all with one bit in one token.
//!
//! All-to-all: the block from rank r to rank r + d goes 2^k ahead for every bit k of d. So each
//! rank sends log n tokens of n/2 blocks: for small blocks, where hand-overs cost more than bytes.
//! On its way a block lies in the output of whoever has it, at the place of the rank that is d
//! behind, where the last one wants it.
//!
//! All-gather: what is known doubles, for any number of ranks, and comes from the ranks ahead.
//!
//! Reference: J. Bruck, C. Ho, S. Kipnis, E. Upfal, D. Weathersby, "Efficient algorithms for
//! all-to-all communications in multiport message-passing systems", IEEE Trans. Parallel Distrib.
//! Syst. 8 (1997), doi:10.1109/71.642949.

use super::dissemination;
use super::group::{Group, flat};
use crate::plan::{Layout, Nodes, Plan, Shape};

/// Block p goes to rank p, block p comes from rank p.
pub fn all_to_all(shape: &Shape, _: &Nodes) -> Plan {
    flat(shape, shape.nranks, Layout::Blocks, all_to_all_in)
}

/// All known blocks in every exchange.
pub fn all_gather(shape: &Shape, _: &Nodes) -> Plan {
    flat(shape, shape.nranks, Layout::Blocks, |g| {
        dissemination::spread(g, true)
    })
}

/// Piece p goes to member p, piece p comes from member p.
pub fn all_to_all_in(g: &mut Group) {
    let (n, me) = (i64::from(g.n), i64::from(g.me));
    g.copy(me, false);
    let bits = || (0..32).map(|k| 1i64 << k).take_while(|&bit| bit < n);
    // Distances that move with a bit, the farthest first: those that begin, and those on their way.
    let moved = |bit: i64| (1..n).rev().filter(move |distance| distance & bit != 0);
    let begin = |bit| moved(bit).filter(move |distance| distance % bit == 0);
    let go_on = |bit| moved(bit).filter(move |distance| distance % bit != 0);
    let largest = bits()
        .map(|bit| begin(bit).count().max(go_on(bit).count()))
        .max();
    g.pieces(largest.unwrap_or(1) as u32);
    let (own, result) = (g.own(), g.result());
    for bit in bits() {
        let to = g.to(g.ahead(bit as u32)).operand();
        let from = g.from(g.behind(bit as u32)).operand();
        g.put_many(&[own], &[to], begin(bit).map(|d| me + d), false);
        g.put_many(&[from], &[result], begin(bit).map(|d| me - d), false);
        g.put_many(&[result], &[to], go_on(bit).map(|d| me - d), false);
        g.put_many(&[from], &[result], go_on(bit).map(|d| me - d), false);
    }
}
