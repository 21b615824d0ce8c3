//! Slices and the members that own them: what `twoshot` and `nvls` begin with.
//!
//! The owner of a slice gets the contributions of all members and folds them in rank order.

use super::group::Group;
use crate::plan::Operand;

/// Every piece to its owner.
pub(super) fn hand_out(g: &mut Group) {
    for owner in g.others() {
        let to = g.to(owner);
        g.send(to, i64::from(owner));
    }
}

/// Folds the own piece of all members in their order.
pub(super) fn fold_mine(g: &mut Group, dsts: &[Operand]) {
    let srcs: Vec<Operand> = (0..g.n)
        .map(|member| match member == g.me {
            true => g.own(),
            false => g.from(member).operand(),
        })
        .collect();
    g.put(&srcs, dsts, i64::from(g.me), true);
}

/// Piece c ends, folded, at member c.
pub fn reduce_scatter_in(g: &mut Group) {
    hand_out(g);
    let dsts = [g.result()];
    fold_mine(g, &dsts);
}

/// A piece from the root to the rank that owns it. Only these two emit steps.
pub(super) fn deal(g: &mut Group, root: u32, owner: u32, piece: i64) {
    if g.me == root && owner == root {
        g.copy(piece, false);
    } else if g.me == root {
        let to = g.to(owner);
        g.copy_send(to, piece);
    } else if g.me == owner {
        let from = g.from(root);
        g.recv(from, piece);
    }
}

/// A piece, in scratch at the rank that owns it, to the output of the root.
pub(super) fn hand_in(g: &mut Group, root: u32, owner: u32, piece: i64) {
    if g.me == root && owner == root {
        g.put(&[Operand::SCRATCH], &[Operand::OUTPUT], piece, false);
    } else if g.me == root {
        let from = g.from(owner);
        g.recv(from, piece);
    } else if g.me == owner {
        let to = g.to(root).operand();
        g.put(&[Operand::SCRATCH], &[to], piece, false);
    }
}
