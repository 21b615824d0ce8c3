//! Scans: rank r gets the fold of ranks 0 to r (or, exclusive, to r - 1), in the order of ranks.
//!
//! *One-shot*: every rank publishes once, reads the ranks before it and drops the others' lines (a
//! fan gives credit when everybody has read). *Recursive doubling*: after step k a rank holds the
//! fold of itself and the 2^k - 1 ranks before it. It sends that to the rank 2^k further on, and
//! folds what comes from the rank 2^k before it, on the left of its own: ceil(log2 n) steps for any
//! n. W. D. Hillis, G. L. Steele, "Data parallel algorithms", Commun. ACM 29 (1986),
//! doi:10.1145/7902.7903. *Chain*: the fold so far goes from rank to rank, pipelined over rounds.
//!
//! A scan has no final scaling: an average of some of the ranks has no meaning that all agree on.

use crate::plan::emit::Connection;
use crate::plan::{Emitter, Layout, Nodes, Operand, PRE_SCALE, Plan, Shape, StepOp};

/// Emits `body` on every channel, which has its part of the data.
fn on_channels(shape: &Shape, body: fn(&mut Emitter, &Shape)) -> Plan {
    let mut e = Emitter::new(*shape, 1, Layout::Blocks);
    for channel in 0..shape.channels {
        e.lane(channel);
        body(&mut e, shape);
    }
    e.finish()
}

/// Publish; fold the ranks before; drop the rest.
pub fn oneshot(shape: &Shape, _: &Nodes) -> Plan {
    let mut e = Emitter::new(*shape, 1, Layout::Blocks);
    e.lane(0);
    let mine = e.fan(shape.rank);
    e.send(mine, 0);
    let mut srcs: Vec<Operand> = (0..shape.rank).map(|r| e.fan(r).operand()).collect();
    if shape.collective.is_inclusive() {
        srcs.push(Operand::INPUT);
    }
    if !srcs.is_empty() {
        e.step(StepOp::Fold, PRE_SCALE, &srcs, &[Operand::OUTPUT], 0);
    }
    for other in shape.rank + 1..shape.nranks {
        drop_token(&mut e, other);
    }
    e.finish()
}

/// Receives the line of a rank and writes it nowhere.
fn drop_token(e: &mut Emitter, writer: u32) {
    let line = e.fan(writer);
    e.step(StepOp::Copy, 0, &[line.operand()], &[], 0);
}

/// Partners at distances 1, 2, 4, ... For an exclusive scan the inputs move up by one rank first.
pub fn recursive_doubling(shape: &Shape, _: &Nodes) -> Plan {
    on_channels(shape, double)
}

fn double(e: &mut Emitter, shape: &Shape) {
    let (rank, n) = (shape.rank, shape.nranks);
    let first = if shape.collective.is_inclusive() {
        let input = [Operand::INPUT];
        e.step(StepOp::Copy, PRE_SCALE, &input, &[Operand::OUTPUT], 0);
        0
    } else {
        if rank + 1 < n {
            let next = e.to(rank + 1);
            e.send(next, 0);
        }
        if rank > 0 {
            let prev = e.from(rank - 1);
            e.recv(prev, 0);
        }
        1
    };
    // Ranks from `first` on hold the fold of ranks max(0, rank - distance + 1 - first) to
    // rank - first.
    let mut distance = 1;
    while rank >= first && distance < n - first {
        if rank + distance < n {
            let next = e.to(rank + distance);
            e.send_from_output(next, 0);
        }
        if rank >= first + distance {
            let prev = e.from(rank - distance);
            let srcs = [prev.operand(), Operand::OUTPUT];
            e.step(StepOp::Fold, 0, &srcs, &[Operand::OUTPUT], 0);
        }
        distance *= 2;
    }
}

/// The fold so far comes from the rank before and goes, with the own input, to the next.
pub fn chain(shape: &Shape, _: &Nodes) -> Plan {
    on_channels(shape, along)
}

fn along(e: &mut Emitter, shape: &Shape) {
    let inclusive = shape.collective.is_inclusive();
    let (rank, last) = (shape.rank, shape.nranks - 1);
    let next = (rank < last).then(|| e.to(rank + 1));
    let hand_on = |e: &mut Emitter, srcs: &[Operand], output: bool, next: Option<Connection>| {
        let mut dsts = vec![Operand::OUTPUT];
        dsts.truncate(usize::from(output));
        dsts.extend(next.map(Connection::operand));
        let op = if srcs.len() == 1 {
            StepOp::Copy
        } else {
            StepOp::Fold
        };
        e.step(op, PRE_SCALE, srcs, &dsts, 0);
    };
    if rank == 0 {
        hand_on(e, &[Operand::INPUT], inclusive, next);
        return;
    }
    let prev = e.from(rank - 1).operand();
    if inclusive {
        hand_on(e, &[prev, Operand::INPUT], true, next);
        return;
    }
    if next.is_some() {
        // The input is read before the output is written, for calls in place.
        let kept = Operand { keep: true, ..prev };
        hand_on(e, &[kept, Operand::INPUT], false, next);
    }
    e.step(StepOp::Copy, 0, &[prev], &[Operand::OUTPUT], 0);
}
