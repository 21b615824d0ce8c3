//! A hub for every slice, and a cast of its result.
//!
//! With NVLink SHARP the switch folds what all GPUs write to an address, and multicasts what one
//! writes. On hosts a slice has an owner, whose shared memory is the hub: it folds what all ranks
//! put there, and casts the result: it writes once what n - 1 ranks read. A hub of hardware folds
//! in its own order, so rank order is no promise of this algorithm even where the plan keeps it.
//!
//! Reference: B. Klenk, N. Jiang, G. Thorson, L. Dennison, "An in-network architecture for
//! accelerating shared-memory multiprocessor collectives", ISCA 2020,
//! doi:10.1109/ISCA45697.2020.00085.

use super::group::{Group, flat};
use super::owners;
use crate::plan::{Layout, Nodes, Plan, Readers, Shape};

/// Slices to their hubs, results by cast.
pub fn all_reduce(shape: &Shape, _: &Nodes) -> Plan {
    flat(shape, shape.nranks, Layout::Split, all_reduce_in)
}

/// Blocks to their hubs.
pub fn reduce_scatter(shape: &Shape, _: &Nodes) -> Plan {
    flat(
        shape,
        shape.nranks,
        Layout::Blocks,
        owners::reduce_scatter_in,
    )
}

/// Every rank casts its block.
pub fn all_gather(shape: &Shape, _: &Nodes) -> Plan {
    flat(shape, shape.nranks, Layout::Blocks, |g| {
        all_gather_in(g, Readers::ALL);
    })
}

/// The root casts.
pub fn broadcast(shape: &Shape, _: &Nodes) -> Plan {
    flat(shape, 1, Layout::Blocks, |g| {
        let cast = g.e.cast(shape.root);
        match shape.rank == shape.root {
            true => g.copy_send(cast, 0),
            false => g.recv(cast, 0),
        }
    })
}

/// All-reduce of n pieces among all ranks.
pub fn all_reduce_in(g: &mut Group) {
    owners::hand_out(g);
    let dsts = [g.result(), g.e.cast(g.me).operand()];
    owners::fold_mine(g, &dsts);
    take_casts(g, Readers::ALL);
}

/// Piece c, a contribution of member c, ends at all members, who are those that read casts.
pub fn all_gather_in(g: &mut Group, readers: Readers) {
    let mine = g.e.cast_to(g.rank(g.me), readers);
    g.copy_send(mine, i64::from(g.me));
    take_casts(g, readers);
}

/// Every other piece from the cast of its owner.
fn take_casts(g: &mut Group, readers: Readers) {
    for owner in g.others().into_iter().rev() {
        let from = g.e.cast_to(g.rank(owner), readers);
        g.recv(from, i64::from(owner));
    }
}
