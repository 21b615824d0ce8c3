//! Two-shot: the owner of a slice folds it, and all take the result.
//!
//! Everybody hands slice o to its owner o, who folds the contributions of all ranks in rank order
//! and hands the result to everybody: two hand-overs with the traffic of a ring, or half of it
//! where all ranks share memory, for then the owner writes the result once (`nvls`). In shared
//! memory it is the best for data that exceed a line; over links that are shared, the n - 1
//! messages of every rank meet.
//!
//! Reference: R. Rabenseifner, "Optimization of collective reduction operations", ICCS 2004,
//! doi:10.1007/978-3-540-24685-5_1 (reduce-scatter and all-gather in one step each).

use super::group::{Group, flat};
use super::nvls;
use super::owners::{fold_mine, hand_out, reduce_scatter_in};
use crate::plan::{Layout, Nodes, Operand, Plan, Shape};

/// Slices to their owners, results to all; on one node by cast.
pub fn all_reduce(shape: &Shape, nodes: &Nodes) -> Plan {
    match nodes.count() {
        1 => nvls::all_reduce(shape, nodes),
        _ => flat(shape, shape.nranks, Layout::Split, all_reduce_in),
    }
}

/// Blocks to their owners.
pub fn reduce_scatter(shape: &Shape, _: &Nodes) -> Plan {
    flat(shape, shape.nranks, Layout::Blocks, reduce_scatter_in)
}

/// Every block to all; on one node by cast.
pub fn all_gather(shape: &Shape, nodes: &Nodes) -> Plan {
    match nodes.count() {
        1 => nvls::all_gather(shape, nodes),
        _ => flat(shape, shape.nranks, Layout::Blocks, all_gather_in),
    }
}

/// Slices to their owners, results to the root.
pub fn reduce(shape: &Shape, _: &Nodes) -> Plan {
    flat(shape, shape.nranks, Layout::Split, |g| {
        let root = shape.root;
        hand_out(g);
        match g.me == root {
            true => {
                fold_mine(g, &[Operand::OUTPUT]);
                take_results(g);
            }
            false => {
                let to = g.to(root).operand();
                fold_mine(g, &[to]);
            }
        }
    })
}

/// A slice to every other rank, and from there to the rest.
pub fn broadcast(shape: &Shape, _: &Nodes) -> Plan {
    flat(shape, (shape.nranks - 1).max(1), Layout::Split, |g| {
        let root = shape.root;
        // The owner of a slice is its number of ranks behind the root.
        let owner = |piece: u32| (root + 1 + piece) % shape.nranks;
        let others = |owner: u32| (0..shape.nranks).filter(move |&r| r != owner && r != root);
        if g.me == root {
            for piece in 0..shape.nranks - 1 {
                let to = g.to(owner(piece)).operand();
                g.put(&[g.own()], &[g.result(), to], i64::from(piece), false);
            }
            return;
        }
        let mine = (g.me + shape.nranks - root - 1) % shape.nranks;
        let to: Vec<u32> = others(g.me).collect();
        g.down(Some(root), &to, i64::from(mine));
        for piece in (1..shape.nranks - 1).map(|d| (mine + d) % (shape.nranks - 1)) {
            let from = g.from(owner(piece));
            g.recv(from, i64::from(piece));
        }
    })
}

/// All-reduce of n pieces.
pub fn all_reduce_in(g: &mut Group) {
    hand_out(g);
    let mut dsts = vec![g.result()];
    for member in g.others() {
        dsts.push(g.to(member).operand());
    }
    fold_mine(g, &dsts);
    take_results(g);
}

/// Piece c, a contribution of member c, ends at all.
pub fn all_gather_in(g: &mut Group) {
    let to = g.others();
    g.down(None, &to, i64::from(g.me));
    take_results(g);
}

/// Every other piece from its owner.
fn take_results(g: &mut Group) {
    for owner in g.others().into_iter().rev() {
        let from = g.from(owner);
        g.recv(from, i64::from(owner));
    }
}
