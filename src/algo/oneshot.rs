//! One-shot algorithms for small data: every rank publishes once, and every rank that needs the
//! result reads all of it and folds in rank order.
//!
//! One hand-over instead of 2(n-1): the least latency possible. Each rank writes one line (its
//! fan), not n-1. Folding in rank order makes the result independent of timing and equal on all
//! ranks, and keeps the order that non-commutative operations need.
//!
//! Where a rank has a block for each other one (reduce-scatter, all-to-all, the root of a
//! scatter), its token holds all of them, and every reader takes its own. A plan has no step for a
//! part of a token, so the plans take tokens into scratch as a whole; the way that small calls
//! really go (`exec/host/oneshot.rs`) looks at the own part alone.

use crate::plan::{
    Emitter, Layout, Nodes, Operand, POST_SCALE, PRE_SCALE, Plan, Runs, Shape, StepOp,
};

/// The fans of all ranks as sources in rank order, the own input at its place.
fn everybody(e: &mut Emitter, shape: &Shape) -> Vec<Operand> {
    (0..shape.nranks)
        .map(|r| {
            if r == shape.rank {
                Operand::INPUT
            } else {
                e.fan(r).operand()
            }
        })
        .collect()
}

/// Publish, then fold everybody's.
pub fn all_reduce(shape: &Shape, _: &Nodes) -> Plan {
    let mut e = Emitter::new(*shape, 1, Layout::Blocks);
    let mine = e.lane(0).fan(shape.rank);
    e.send(mine, 0);
    let srcs = everybody(&mut e, shape);
    e.fold(&srcs, 0);
    e.finish()
}

/// Publish, then take everybody's.
pub fn all_gather(shape: &Shape, _: &Nodes) -> Plan {
    let mut e = Emitter::new(*shape, shape.nranks, Layout::Blocks);
    let mine = e.lane(0).fan(shape.rank);
    e.copy_send(mine, i64::from(shape.rank));
    for r in (0..shape.nranks).filter(|&r| r != shape.rank) {
        let theirs = e.fan(r);
        e.recv(theirs, i64::from(r));
    }
    e.finish()
}

/// The root publishes, the others read it.
pub fn broadcast(shape: &Shape, _: &Nodes) -> Plan {
    let mut e = Emitter::new(*shape, 1, Layout::Blocks);
    let root = e.lane(0).fan(shape.root);
    if shape.rank == shape.root {
        e.copy_send(root, 0);
    } else {
        e.recv(root, 0);
    }
    e.finish()
}

/// Every rank hands its input to the root, which folds in rank order.
pub fn reduce(shape: &Shape, _: &Nodes) -> Plan {
    let mut e = Emitter::new(*shape, 1, Layout::Blocks);
    e.lane(0);
    if shape.rank != shape.root {
        let root = e.to(shape.root);
        e.send(root, 0);
        return e.finish();
    }
    let srcs: Vec<Operand> = (0..shape.nranks)
        .map(|r| {
            if r == shape.rank {
                Operand::INPUT
            } else {
                e.from(r).operand()
            }
        })
        .collect();
    e.fold(&srcs, 0);
    e.finish()
}

/// Publish all blocks, then fold everybody's own block.
pub fn reduce_scatter(shape: &Shape, _: &Nodes) -> Plan {
    let mut e = Emitter::new(*shape, shape.nranks, Layout::Blocks);
    publish_all(&mut e, shape);
    let srcs = everybody(&mut e, shape);
    let flags = PRE_SCALE | POST_SCALE;
    e.pack(
        (StepOp::Fold, flags),
        &srcs,
        &[Operand::SCRATCH],
        all(shape),
    );
    out_of_scratch(&mut e, i64::from(shape.rank));
    e.finish()
}

/// Publish all blocks, then take the own one of everybody.
pub fn all_to_all(shape: &Shape, _: &Nodes) -> Plan {
    let mut e = Emitter::new(*shape, shape.nranks, Layout::Blocks);
    publish_all(&mut e, shape);
    let me = i64::from(shape.rank);
    e.copy(me);
    for r in (0..shape.nranks).filter(|&r| r != shape.rank) {
        let (theirs, place) = (e.fan(r).operand(), i64::from(r));
        // The piece of this rank comes to the block of theirs.
        let first = place - me;
        let turned = Runs::from(first..first + i64::from(shape.nranks));
        e.pack((StepOp::Copy, 0), &[theirs], &[Operand::SCRATCH], turned);
        out_of_scratch(&mut e, place);
    }
    e.finish()
}

/// The root publishes all blocks, and each of the others takes its own.
pub fn scatter(shape: &Shape, _: &Nodes) -> Plan {
    let mut e = Emitter::new(*shape, shape.nranks, Layout::Blocks);
    let own = i64::from(shape.rank);
    if shape.rank == shape.root {
        publish_all(&mut e, shape);
        e.copy(own);
        return e.finish();
    }
    let theirs = e.lane(0).fan(shape.root).operand();
    let whole = all(shape);
    e.pack((StepOp::Copy, 0), &[theirs], &[Operand::SCRATCH], whole);
    out_of_scratch(&mut e, own);
    e.finish()
}

/// Copies what was taken into scratch for a block to the output.
fn out_of_scratch(e: &mut Emitter, block: i64) {
    let (from, to) = ([Operand::SCRATCH], [Operand::OUTPUT]);
    e.step(StepOp::Copy, 0, &from, &to, block);
}

/// All blocks.
fn all(shape: &Shape) -> Runs {
    Runs::from(0..i64::from(shape.nranks))
}

/// The whole input, in one token on the own fan.
fn publish_all(e: &mut Emitter, shape: &Shape) {
    let mine = e.lane(0).fan(shape.rank).operand();
    e.pack(
        (StepOp::Copy, PRE_SCALE),
        &[Operand::INPUT],
        &[mine],
        all(shape),
    );
}

/// Everybody signals, everybody waits for everybody.
pub fn barrier(shape: &Shape, _: &Nodes) -> Plan {
    let mut e = Emitter::new(*shape, 1, Layout::Blocks);
    let mine = e.lane(0).fan(shape.rank);
    e.signal(&[mine.operand()]);
    let theirs: Vec<Operand> = (0..shape.nranks)
        .filter(|&r| r != shape.rank)
        .map(|r| e.fan(r).operand())
        .collect();
    e.wait(&theirs);
    e.finish()
}
