//! Ring algorithms: every rank talks to two neighbours only, so every link carries the same load.
//!
//! Reference: P. Patarasuk and X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
//! workstations", J. Parallel Distrib. Comput. 69 (2009), doi:10.1016/j.jpdc.2008.09.002.
//!
//! The order of the ring is that of the nodes ([`Nodes::ring`]), channel by channel. Piece numbers
//! are relative to the position in the ring, which is the number in the group. Piece `c` is
//! complete at member `c` after the reduce-scatter half, and then travels once more around.

use super::group::{Group, flat};
use crate::plan::{Layout, Nodes, Plan, Shape};

/// Reduce-scatter and all-gather in one loop of 2(n-1) hand-overs.
pub fn all_reduce(shape: &Shape, nodes: &Nodes) -> Plan {
    flat(shape, shape.nranks, Layout::Split, |g| {
        match nodes.ring(g.channel) {
            None => all_reduce_in(g),
            Some(order) => all_reduce_in(&mut g.in_order(order)),
        }
    })
}

/// Block r ends, folded, at rank r.
pub fn reduce_scatter(shape: &Shape, nodes: &Nodes) -> Plan {
    blocks(shape, nodes, reduce_scatter_in)
}

/// Every block travels once around.
pub fn all_gather(shape: &Shape, nodes: &Nodes) -> Plan {
    blocks(shape, nodes, all_gather_in)
}

/// A chain from the root around the ring; chunks follow each other.
pub fn broadcast(shape: &Shape, nodes: &Nodes) -> Plan {
    rooted(shape, nodes, broadcast_in)
}

/// A chain that starts behind the root and ends at it.
pub fn reduce(shape: &Shape, nodes: &Nodes) -> Plan {
    rooted(shape, nodes, reduce_in)
}

fn blocks(shape: &Shape, nodes: &Nodes, body: fn(&mut Group)) -> Plan {
    flat(shape, shape.nranks, Layout::Blocks, |g| {
        match nodes.ring(g.channel) {
            None => body(g),
            Some(order) => body(&mut g.in_order_with_blocks(order)),
        }
    })
}

fn rooted(shape: &Shape, nodes: &Nodes, body: fn(&mut Group, u32)) -> Plan {
    flat(shape, 1, Layout::Blocks, |g| match nodes.ring(g.channel) {
        None => body(g, shape.root),
        Some(order) => {
            let position = order.iter().position(|&rank| rank == shape.root);
            let root = position.expect("a ring visits all ranks");
            body(&mut g.in_order(order), root as u32);
        }
    })
}

/// All-reduce of n pieces.
pub fn all_reduce_in(g: &mut Group) {
    let (n, c) = (i64::from(g.n), i64::from(g.me));
    if n == 1 {
        return g.copy(0, true);
    }
    let (prev, next) = (g.from(g.behind(1)), g.to(g.ahead(1)));
    g.send(next, c - 1);
    for j in 2..n {
        g.recv_reduce_send(prev, next, c - j);
    }
    g.recv_reduce_copy_send(prev, next, c);
    for j in 1..n - 1 {
        g.recv_copy_send(prev, next, c - j);
    }
    g.recv(prev, c + 1);
}

/// Piece c ends, folded, at member c.
pub fn reduce_scatter_in(g: &mut Group) {
    let (n, c) = (i64::from(g.n), i64::from(g.me));
    if n == 1 {
        return g.copy(0, true);
    }
    let (prev, next) = (g.from(g.behind(1)), g.to(g.ahead(1)));
    g.send(next, c - 1);
    for j in 2..n {
        g.recv_reduce_send(prev, next, c - j);
    }
    g.recv_reduce_copy(prev, c);
}

/// Piece c, a contribution of member c, ends at all.
pub fn all_gather_in(g: &mut Group) {
    let (n, c) = (i64::from(g.n), i64::from(g.me));
    if n == 1 {
        return g.copy(0, false);
    }
    let (prev, next) = (g.from(g.behind(1)), g.to(g.ahead(1)));
    g.copy_send(next, c);
    for j in 1..n - 1 {
        g.recv_copy_send(prev, next, c - j);
    }
    g.recv(prev, c + 1);
}

/// Piece 0 of member `root` ends at all.
pub fn broadcast_in(g: &mut Group, root: u32) {
    let distance = (g.me + g.n - root) % g.n;
    if g.n == 1 {
        return g.copy(0, false);
    }
    let (prev, next) = (g.from(g.behind(1)), g.to(g.ahead(1)));
    if distance == 0 {
        g.copy_send(next, 0);
    } else if distance < g.n - 1 {
        g.recv_copy_send(prev, next, 0);
    } else {
        g.recv(prev, 0);
    }
}

/// Piece 0 ends, folded, at member `root`.
pub fn reduce_in(g: &mut Group, root: u32) {
    let distance = (g.me + g.n - root) % g.n;
    if g.n == 1 {
        return g.copy(0, true);
    }
    let (prev, next) = (g.from(g.behind(1)), g.to(g.ahead(1)));
    match distance {
        0 => g.recv_reduce_copy(prev, 0),
        1 => g.send(next, 0),
        _ => g.recv_reduce_send(prev, next, 0),
    }
}
