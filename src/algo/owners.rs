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
