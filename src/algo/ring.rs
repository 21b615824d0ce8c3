//! Ring algorithms: every rank talks to two neighbours only, so every link carries the same load.
//!
//! Reference: P. Patarasuk and X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
//! workstations", J. Parallel Distrib. Comput. 69 (2009), doi:10.1016/j.jpdc.2008.09.002.
//!
//! Chunk numbers are relative to the position in the ring, which here is the rank. Chunk `c` is
//! complete at rank `c` after the reduce-scatter half, and then travels once more around.

use crate::plan::emit::Connection;
use crate::plan::{Emitter, Layout, Nodes, Plan, Shape};

/// Opens the lane of `channel` with the connections from and to the neighbours.
fn neighbours(e: &mut Emitter, shape: &Shape, channel: u16) -> (Connection, Connection) {
    let n = shape.nranks;
    e.lane(channel);
    (e.from((shape.rank + n - 1) % n), e.to((shape.rank + 1) % n))
}

/// Reduce-scatter and all-gather in one loop of 2(n-1) hand-overs.
pub fn all_reduce(shape: &Shape, _: &Nodes) -> Plan {
    let (n, c) = (i64::from(shape.nranks), i64::from(shape.rank));
    let mut e = Emitter::new(*shape, shape.nranks, Layout::Split);
    for channel in 0..shape.channels {
        let (prev, next) = neighbours(&mut e, shape, channel);
        e.send(next, c - 1);
        for j in 2..n {
            e.recv_reduce_send(prev, next, c - j);
        }
        e.recv_reduce_copy_send(prev, next, c);
        for j in 1..n - 1 {
            e.recv_copy_send(prev, next, c - j);
        }
        e.recv(prev, c + 1);
    }
    e.finish()
}

/// Block r ends, folded, at rank r.
pub fn reduce_scatter(shape: &Shape, _: &Nodes) -> Plan {
    let (n, c) = (i64::from(shape.nranks), i64::from(shape.rank));
    let mut e = Emitter::new(*shape, shape.nranks, Layout::Blocks);
    for channel in 0..shape.channels {
        let (prev, next) = neighbours(&mut e, shape, channel);
        e.send(next, c - 1);
        for j in 2..n {
            e.recv_reduce_send(prev, next, c - j);
        }
        e.recv_reduce_copy(prev, c);
    }
    e.finish()
}

/// Every block travels once around.
pub fn all_gather(shape: &Shape, _: &Nodes) -> Plan {
    let (n, c) = (i64::from(shape.nranks), i64::from(shape.rank));
    let mut e = Emitter::new(*shape, shape.nranks, Layout::Blocks);
    for channel in 0..shape.channels {
        let (prev, next) = neighbours(&mut e, shape, channel);
        e.copy_send(next, c);
        for j in 1..n - 1 {
            e.recv_copy_send(prev, next, c - j);
        }
        e.recv(prev, c + 1);
    }
    e.finish()
}

/// A chain from the root around the ring; chunks follow each other.
pub fn broadcast(shape: &Shape, _: &Nodes) -> Plan {
    let mut e = Emitter::new(*shape, 1, Layout::Blocks);
    let distance = (shape.rank + shape.nranks - shape.root) % shape.nranks;
    for channel in 0..shape.channels {
        let (prev, next) = neighbours(&mut e, shape, channel);
        if distance == 0 {
            e.copy_send(next, 0);
        } else if distance < shape.nranks - 1 {
            e.recv_copy_send(prev, next, 0);
        } else {
            e.recv(prev, 0);
        }
    }
    e.finish()
}

/// A chain that starts behind the root and ends at it.
pub fn reduce(shape: &Shape, _: &Nodes) -> Plan {
    let mut e = Emitter::new(*shape, 1, Layout::Blocks);
    let distance = (shape.rank + shape.nranks - shape.root) % shape.nranks;
    for channel in 0..shape.channels {
        let (prev, next) = neighbours(&mut e, shape, channel);
        match distance {
            0 => e.recv_reduce_copy(prev, 0),
            1 => e.send(next, 0),
            _ => e.recv_reduce_send(prev, next, 0),
        }
    }
    e.finish()
}
