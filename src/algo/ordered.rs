//! Folds in the order of ranks, for operations that do not commute and data of any size.
//!
//! A chain from rank 0 to rank n - 1 folds `((r0 op r1) op r2) ...`, pipelined over rounds; the
//! last rank has the result. It goes back along the chain (all-reduce) or straight to the root
//! (reduce). The second lane of a rank only waits for what its first lane has contributed to, so a
//! result never overtakes an input.
//!
//! For reduce-scatter every rank hands block r to rank r, which folds what arrives in the order of
//! ranks, with its own input at its place.

use crate::base::exchange::{Transfer, transfers};
use crate::plan::{Emitter, Layout, Nodes, Operand, POST_SCALE, PRE_SCALE, Plan, Shape, StepOp};

/// Up the chain, folded; down the chain, copied.
pub fn all_reduce(shape: &Shape, _: &Nodes) -> Plan {
    let mut e = Emitter::new(*shape, 1, Layout::Blocks);
    for channel in 0..shape.channels {
        up_and_down(&mut e, shape, channel);
    }
    e.finish()
}

fn up_and_down(e: &mut Emitter, shape: &Shape, channel: u16) {
    let (rank, last) = (shape.rank, shape.nranks - 1);
    e.lane(channel);
    if rank == last {
        let (prev, back) = (e.from(rank - 1), e.to(rank - 1));
        return e.recv_reduce_copy_send(prev, back, 0);
    }
    contribute(e, rank, rank + 1);
    e.lane(channel);
    let next = e.from(rank + 1);
    match rank {
        0 => e.recv(next, 0),
        _ => {
            let before = e.to(rank - 1);
            e.recv_copy_send(next, before, 0);
        }
    }
}

/// Folds what comes from the rank before with the own input, and hands it on.
fn contribute(e: &mut Emitter, rank: u32, to: u32) {
    if rank == 0 {
        let next = e.to(to);
        return e.send(next, 0);
    }
    let (prev, next) = (e.from(rank - 1), e.to(to));
    e.recv_reduce_send(prev, next, 0);
}

/// Up the chain, folded; from its end to the root.
pub fn reduce(shape: &Shape, _: &Nodes) -> Plan {
    let mut e = Emitter::new(*shape, 1, Layout::Blocks);
    for channel in 0..shape.channels {
        up_to_the_root(&mut e, shape, channel);
    }
    e.finish()
}

fn up_to_the_root(e: &mut Emitter, shape: &Shape, channel: u16) {
    let (rank, root, last) = (shape.rank, shape.root, shape.nranks - 1);
    e.lane(channel);
    if rank == last {
        let prev = e.from(rank - 1);
        if root == last {
            return e.recv_reduce_copy(prev, 0);
        }
        let (srcs, to) = ([prev.operand(), Operand::INPUT], e.to(root));
        let flags = PRE_SCALE | POST_SCALE;
        return e.step(StepOp::Fold, flags, &srcs, &[to.operand()], 0);
    }
    contribute(e, rank, rank + 1);
    if rank == root {
        let end = e.lane(channel).from(last);
        e.recv(end, 0);
    }
}

/// Block r of every rank goes to rank r, which folds them in order.
pub fn reduce_scatter(shape: &Shape, _: &Nodes) -> Plan {
    scatter(shape, fold_in_order)
}

/// Reduce-scatter that folds the own block first, for sums that are scaled: a fold scales only the
/// first 64 of its sources.
pub fn reduce_scatter_own_first(shape: &Shape, _: &Nodes) -> Plan {
    scatter(shape, fold_own_first)
}

/// A lane for each other rank's block, and one for the fold.
fn scatter(shape: &Shape, fold: fn(&mut Emitter, &Shape, i64)) -> Plan {
    let mut e = Emitter::new(*shape, shape.nranks, Layout::Blocks);
    for channel in 0..shape.channels {
        for transfer in transfers(shape.collective, shape.rank, shape.nranks, shape.root) {
            e.lane(channel);
            match transfer {
                Transfer::Send { to, block } => {
                    let next = e.to(to);
                    e.send(next, block as i64);
                }
                Transfer::Fold { block } => fold(&mut e, shape, block as i64),
                Transfer::Own { .. } | Transfer::Recv { .. } => unreachable!("blocks are folded"),
            }
        }
    }
    e.finish()
}

/// The receiving half of [`reduce_scatter`] for a block of its own size: the input is only that
/// block.
pub fn fold_block(shape: &Shape, _: &Nodes) -> Plan {
    let mut e = Emitter::new(*shape, 1, Layout::Blocks);
    fold_in_order(&mut e, shape, 0);
    e.finish()
}

/// The receiving half of [`reduce_scatter_own_first`] in the same way.
pub fn fold_block_own_first(shape: &Shape, _: &Nodes) -> Plan {
    let mut e = Emitter::new(*shape, 1, Layout::Blocks);
    fold_own_first(&mut e, shape, 0);
    e.finish()
}

fn fold_in_order(e: &mut Emitter, shape: &Shape, chunk: i64) {
    let srcs: Vec<Operand> = (0..shape.nranks)
        .map(|r| match r == shape.rank {
            true => Operand::INPUT,
            false => e.from(r).operand(),
        })
        .collect();
    e.fold(&srcs, chunk);
}

fn fold_own_first(e: &mut Emitter, shape: &Shape, chunk: i64) {
    let others = (0..shape.nranks).filter(|&r| r != shape.rank);
    let arrivals = others.map(|r| e.from(r).operand());
    let srcs: Vec<Operand> = std::iter::once(Operand::INPUT).chain(arrivals).collect();
    e.fold(&srcs, chunk);
}
