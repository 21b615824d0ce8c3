//! Pipelined chains: every rank hands every chunk on as soon as it has it.
//!
//! One rank sends the data once, however many ranks there are, and with many chunks the length of
//! the chain costs nothing: the best for large data, the worst for small. The chain goes node by
//! node, beginning with the root's, so that every link between nodes is crossed once.
//!
//! Reference: J. Watts and R. van de Geijn, "A pipelined broadcast for multidimensional meshes",
//! Parallel Processing Letters 5 (1995), doi:10.1142/S0129626495000266.

use super::group::{Group, flat};
use super::ring;
use crate::plan::{Layout, Nodes, Plan, Shape};

/// From the root along the chain.
pub fn broadcast(shape: &Shape, nodes: &Nodes) -> Plan {
    along(shape, nodes, ring::broadcast_in)
}

/// From the end of the chain to the root.
pub fn reduce(shape: &Shape, nodes: &Nodes) -> Plan {
    along(shape, nodes, ring::reduce_in)
}

/// All ranks, node by node, the root first, inside a node as the ring of the channel goes.
fn order(shape: &Shape, nodes: &Nodes, channel: u16) -> Vec<u32> {
    let first = nodes.node_of(shape.root);
    let mut order: Vec<u32> = Vec::with_capacity(shape.nranks as usize);
    for i in 0..nodes.count() {
        order.extend(&*nodes.along_ring(channel, (first + i) % nodes.count()));
    }
    let own = &mut order[..nodes.ranks_of(first).len()];
    let root = own.iter().position(|&rank| rank == shape.root);
    own.rotate_left(root.expect("the root is on its node"));
    order
}

/// The chain is the ring over ranks in another order, cut before the root.
fn along(shape: &Shape, nodes: &Nodes, body: fn(&mut Group, u32)) -> Plan {
    flat(shape, 1, Layout::Blocks, |g| {
        let order = order(shape, nodes, g.channel);
        body(&mut g.in_order(&order), 0);
    })
}
