//! One-shot algorithms for small data: every rank publishes once, and every rank that needs the
//! result reads all of it and folds in rank order.
//!
//! One hand-over instead of 2(n-1): the least latency possible. Each rank writes one line (its
//! fan), not n-1. Folding in rank order makes the result independent of timing and equal on all
//! ranks, and keeps the order that non-commutative operations need.

use crate::plan::{Emitter, Layout, Nodes, Operand, Plan, Shape};

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
