//! Bundles: point-to-point exchanges, one connection a lane, so that no pair waits for another.
//!
//! A group of sends and receives is a bundle of these plans' lanes; all-to-all, gather and scatter
//! are bundles with a fixed pattern, which [`mod@crate::base::exchange`] has.

use crate::base::Share;
use crate::base::exchange::{Transfer, transfers};
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

/// Block p goes to rank p, block p comes from rank p; or the root alone has all blocks, and takes
/// them or hands them out.
pub fn exchange(shape: &Shape, _: &Nodes) -> Plan {
    let mut e = Emitter::new(*shape, shape.nranks, Layout::Blocks);
    let mine = i64::from(shape.rank);
    // The only block of a side is this rank's.
    let chunk = |held: Share, block: usize| match held {
        Share::One => mine,
        _ => block as i64,
    };
    let (sends, receives) = (shape.collective.sends(), shape.collective.receives());
    for transfer in transfers(shape.collective, shape.rank, shape.nranks, shape.root) {
        e.lane(0);
        match transfer {
            Transfer::Own { .. } => e.copy(mine),
            Transfer::Send { to, block } => {
                let next = e.to(to);
                e.send(next, chunk(sends, block));
            }
            Transfer::Recv { from, block } => {
                let prev = e.from(from);
                e.recv(prev, chunk(receives, block));
            }
            Transfer::Fold { .. } => unreachable!("ordered::reduce_scatter folds"),
        }
    }
    e.finish()
}
