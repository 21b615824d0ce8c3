//! Hierarchies over blocks: all-gather, reduce-scatter, and the barrier. See `hier`.
//!
//! The blocks of a node belong to its leaders in turn, so every column carries an equal share even
//! where nodes are unequal. Between the nodes, blocks of a column pass one of each node at a time;
//! inside, all that are regular pass in one token.

use super::climb;
use super::columns::Columns;
use super::group::{Group, Pieces, flat};
use super::levels::{Bodies, HALVING, TWO_SHOT};
use crate::plan::{Layout, Nodes, Operand, Plan, Shape};

/// Halving and doubling between, two-shot inside.
pub fn all_gather(shape: &Shape, nodes: &Nodes) -> Plan {
    climb::all_gather(shape, nodes)
        .unwrap_or_else(|| all_gather_by(shape, nodes, &TWO_SHOT, &HALVING))
}

/// Two-shot inside, halving and doubling between.
pub fn reduce_scatter(shape: &Shape, nodes: &Nodes) -> Plan {
    climb::reduce_scatter(shape, nodes)
        .unwrap_or_else(|| reduce_scatter_by(shape, nodes, &TWO_SHOT, &HALVING))
}

/// A signal to the leader, recursive doubling between leaders, a signal back.
pub fn barrier(shape: &Shape, nodes: &Nodes) -> Plan {
    barrier_by(shape, nodes, &TWO_SHOT, &HALVING)
}

/// Blocks in the largest token.
fn largest(columns: &Columns, shape: &Shape, inside: &Bodies) -> u32 {
    match inside.packs_blocks {
        true => shape.nranks,
        false => columns.largest(),
    }
}

/// Ranks without a column hand in their block; all-gather in each column, all-gather inside.
pub fn all_gather_by(shape: &Shape, nodes: &Nodes, inside: &Bodies, between: &Bodies) -> Plan {
    let columns = Columns::of(nodes, shape.rank);
    let places = (Operand::OUTPUT, Operand::OUTPUT);
    flat(shape, shape.nranks, Layout::Blocks, |g| {
        g.e.pieces(largest(&columns, shape, inside));
        g.copy(i64::from(g.me), false);
        for_others(g, &columns, nodes, |g, leader, rank| match g.me == leader {
            true => {
                let from = g.from(rank);
                g.recv(from, i64::from(rank));
            }
            false => {
                let to = g.to(leader);
                g.send(to, i64::from(rank));
            }
        });
        if let Some(mine) = columns.mine {
            for pieces in columns.across(mine) {
                let leaders = columns.leaders(mine);
                (between.all_gather)(&mut g.level(leaders, pieces, places, true));
            }
        }
        for pieces in columns.within(g) {
            (inside.all_gather)(&mut g.level(columns.mates(), pieces, places, true));
        }
    })
}

/// Reduce-scatter inside and in each column; ranks without a column take out their block.
pub fn reduce_scatter_by(shape: &Shape, nodes: &Nodes, inside: &Bodies, between: &Bodies) -> Plan {
    let columns = Columns::of(nodes, shape.rank);
    flat(shape, shape.nranks, Layout::Blocks, |g| {
        g.e.pieces(largest(&columns, shape, inside));
        let places = (Operand::INPUT, Operand::SCRATCH);
        for pieces in columns.within(g) {
            (inside.reduce_scatter)(&mut g.level(columns.mates(), pieces, places, false));
        }
        let places = (Operand::SCRATCH, Operand::SCRATCH);
        if let Some(mine) = columns.mine {
            for pieces in columns.across(mine) {
                let leaders = columns.leaders(mine);
                (between.reduce_scatter)(&mut g.level(leaders, pieces, places, true));
            }
            let me = i64::from(g.me);
            g.put(&[Operand::SCRATCH], &[Operand::OUTPUT], me, false);
        }
        for_others(g, &columns, nodes, |g, leader, rank| match g.me == leader {
            true => {
                let to = g.to(rank).operand();
                g.put(&[Operand::SCRATCH], &[to], i64::from(rank), false);
            }
            false => {
                let from = g.from(leader);
                g.recv(from, i64::from(rank));
            }
        });
    })
}

/// For each rank of this node that leads no column, on itself and on the leader of its column.
fn for_others(
    g: &mut Group,
    columns: &Columns,
    nodes: &Nodes,
    mut hand: impl FnMut(&mut Group, u32, u32),
) {
    for column in 0..columns.count {
        let leader = nodes.leader(columns.node, column);
        for rank in columns.blocks(columns.node, column).skip(1) {
            if g.me == leader || g.me == rank {
                hand(g, leader, rank);
            }
        }
    }
}

/// Nobody leaves before all have entered; `inside` is a signal to the first leader and back.
pub fn barrier_by(shape: &Shape, nodes: &Nodes, _: &Bodies, between: &Bodies) -> Plan {
    let columns = Columns::of(nodes, shape.rank);
    flat(shape, 1, Layout::Blocks, |g| {
        let mates = columns.mates();
        if g.me != mates[0] {
            g.signal(&mates[..1]);
            return g.wait(&mates[..1]);
        }
        if mates.len() > 1 {
            g.wait(&mates[1..]);
        }
        let places = (Operand::INPUT, Operand::OUTPUT);
        let mut leaders = g.level(columns.leaders(0), Pieces::All, places, true);
        if leaders.n > 1 {
            (between.barrier)(&mut leaders);
        }
        if mates.len() > 1 {
            g.signal(&mates[1..]);
        }
    })
}
