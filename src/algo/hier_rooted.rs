//! Hierarchies with a root: broadcast and reduce. See `hier`.
//!
//! The root deals slices to the leaders of its node, or gathers them there, so that every leader,
//! and not the root alone, works over the links between nodes.

use super::climb;
use super::columns::Columns;
use super::group::{Pieces, flat};
use super::levels::{Bodies, HALVING, TWO_SHOT};
use super::owners;
use crate::plan::{Layout, Nodes, Operand, Plan, Shape};

/// Slices to the leaders of the root's node, a tree for each column, and to all.
pub fn broadcast(shape: &Shape, nodes: &Nodes) -> Plan {
    climb::broadcast(shape, nodes)
        .unwrap_or_else(|| broadcast_by(shape, nodes, &TWO_SHOT, &HALVING))
}

/// Reduce inside the nodes and in each column, the way of [`broadcast`] backwards.
pub fn reduce(shape: &Shape, nodes: &Nodes) -> Plan {
    climb::reduce(shape, nodes).unwrap_or_else(|| reduce_by(shape, nodes, &TWO_SHOT, &HALVING))
}

/// Scatter in the root's node, broadcast in each column, all-gather inside.
pub fn broadcast_by(shape: &Shape, nodes: &Nodes, inside: &Bodies, between: &Bodies) -> Plan {
    let columns = Columns::of(nodes, shape.rank);
    let first = nodes.node_of(shape.root);
    flat(shape, columns.count, Layout::Split, |g| {
        g.e.pieces(if inside.packs_blocks {
            columns.count
        } else {
            1
        });
        for column in 0..columns.count {
            let leader = nodes.leader(first, column);
            owners::deal(g, shape.root, leader, i64::from(column));
        }
        let places = (Operand::OUTPUT, Operand::OUTPUT);
        if let Some(mine) = columns.mine {
            let pieces = Pieces::Listed(vec![vec![mine]]);
            (between.broadcast)(
                &mut g.level(columns.leaders(mine), pieces, places, true),
                first,
            );
        }
        let pieces = columns.slices(|column| vec![column]);
        (inside.all_gather)(&mut g.level(columns.mates(), pieces, places, true));
    })
}

/// Reduce-scatter inside, reduce in each column, gather in the root's node.
pub fn reduce_by(shape: &Shape, nodes: &Nodes, inside: &Bodies, between: &Bodies) -> Plan {
    let columns = Columns::of(nodes, shape.rank);
    let first = nodes.node_of(shape.root);
    flat(shape, columns.count, Layout::Split, |g| {
        g.e.pieces(if inside.packs_blocks {
            columns.count
        } else {
            1
        });
        let pieces = columns.slices(|column| vec![column]);
        let places = (Operand::INPUT, Operand::SCRATCH);
        (inside.reduce_scatter)(&mut g.level(columns.mates(), pieces, places, false));
        let places = (Operand::SCRATCH, Operand::SCRATCH);
        if let Some(mine) = columns.mine {
            let pieces = Pieces::Listed(vec![vec![mine]]);
            (between.reduce)(
                &mut g.level(columns.leaders(mine), pieces, places, true),
                first,
            );
        }
        for column in 0..columns.count {
            let leader = nodes.leader(first, column);
            owners::hand_in(g, shape.root, leader, i64::from(column));
        }
    })
}
