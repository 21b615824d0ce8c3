//! Bundles: point-to-point exchanges, one connection a lane, so that no pair waits for another.
//!
//! A group of sends and receives is a bundle of these plans' lanes; all-to-all, gather and scatter
//! are bundles with a fixed pattern. Lanes begin with the nearest peer behind and ahead, so that
//! not everybody turns to rank 0 first.

use crate::plan::{Emitter, Layout, Nodes, Plan, Shape};

/// One send to `root` (the peer).
pub fn send(shape: &Shape, _: &Nodes) -> Plan {
    let mut e = Emitter::new(*shape, 1, Layout::Blocks);
    let peer = e.lane(0).to(shape.root);
    e.send(peer, 0);
    e.finish()
}

/// One receive from `root` (the peer).
pub fn recv(shape: &Shape, _: &Nodes) -> Plan {
    let mut e = Emitter::new(*shape, 1, Layout::Blocks);
    let peer = e.lane(0).from(shape.root);
    e.recv(peer, 0);
    e.finish()
}

/// Block p goes to rank p, block p comes from rank p.
pub fn all_to_all(shape: &Shape, _: &Nodes) -> Plan {
    let n = shape.nranks;
    let mut e = Emitter::new(*shape, n, Layout::Blocks);
    e.lane(0).copy(i64::from(shape.rank));
    for distance in 1..n {
        let (to, from) = ((shape.rank + distance) % n, (shape.rank + n - distance) % n);
        let next = e.lane(0).to(to);
        e.send(next, i64::from(to));
        let prev = e.lane(0).from(from);
        e.recv(prev, i64::from(from));
    }
    e.finish()
}

/// The root takes block p from rank p.
pub fn gather(shape: &Shape, _: &Nodes) -> Plan {
    let mut e = Emitter::new(*shape, shape.nranks, Layout::Blocks);
    if shape.rank != shape.root {
        let root = e.lane(0).to(shape.root);
        e.send(root, i64::from(shape.rank));
        return e.finish();
    }
    e.lane(0).copy(i64::from(shape.rank));
    for peer in (1..shape.nranks).map(|d| (shape.root + d) % shape.nranks) {
        let from = e.lane(0).from(peer);
        e.recv(from, i64::from(peer));
    }
    e.finish()
}

/// The root hands block p to rank p.
pub fn scatter(shape: &Shape, _: &Nodes) -> Plan {
    let mut e = Emitter::new(*shape, shape.nranks, Layout::Blocks);
    if shape.rank != shape.root {
        let root = e.lane(0).from(shape.root);
        e.recv(root, i64::from(shape.rank));
        return e.finish();
    }
    e.lane(0).copy(i64::from(shape.rank));
    for peer in (1..shape.nranks).map(|d| (shape.root + d) % shape.nranks) {
        let to = e.lane(0).to(peer);
        e.send(to, i64::from(peer));
    }
    e.finish()
}
