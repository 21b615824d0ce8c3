//! Hierarchies: one algorithm inside every node, another one between the nodes.
//!
//! Links between nodes are slower than memory and fewer than ranks. So data are first brought
//! together inside the node, cross the links once, and are spread inside again. With one leader a
//! node a single core and a single NIC would do all the work: instead every node has as many
//! *leaders* as its smallest neighbour has ranks, and each works on a slice, its *column*: leader
//! i of a node talks to the leaders i of the others. Ranks beyond that number (nodes may be
//! unequal) have no column and share in the work inside.
//!
//! Where ranks share caches and sockets of a node too, `climb` does so level by level.
//!
//! It is all composition: the bodies of `levels` run on groups, first on the ranks of a node, then
//! on the leaders of a column. What the first leaves in output or scratch is what the second finds.
//!
//! Reference: the levels of M. Bayatpour et al., "Scalable reduction collectives with data
//! partitioning-based multi-leader design", SC 2017, doi:10.1145/3126908.3126954.

use super::climb;
use super::columns::Columns;
use super::group::{Group, Pieces, flat};
use super::hd::{self, Halving};
use super::levels::{Bodies, DOUBLING, TWO_SHOT};
use crate::plan::{Layout, Nodes, Operand, Plan, Shape};
use std::ops::Range;

/// Two-shot inside, halving and doubling between. Two nodes exchange all of a column at once: no
/// more bytes than by halves, and half of the messages.
pub fn all_reduce(shape: &Shape, nodes: &Nodes) -> Plan {
    if let Some(plan) = climb::all_reduce(shape, nodes) {
        return plan;
    }
    match nodes.count() {
        0..=2 => all_reduce_by(shape, nodes, &TWO_SHOT, &DOUBLING),
        _ => all_reduce_by_halves(shape, nodes, &TWO_SHOT),
    }
}

/// Reduce-scatter inside, halving and doubling in each column, all-gather inside, with columns in
/// halves: the node folds one half while the other one begins to cross the links, and spreads
/// what it has while the rest arrives.
fn all_reduce_by_halves(shape: &Shape, nodes: &Nodes, inside: &Bodies) -> Plan {
    let columns = Columns::of(nodes, shape.rank);
    let width = hd::pieces(nodes.count());
    flat(shape, columns.count * width, Layout::Split, |g| {
        let columns_in_a_token = if inside.packs_blocks {
            columns.count
        } else {
            1
        };
        g.e.pieces(width / 2 * columns_in_a_token);
        let pieces = |run: Range<u32>| {
            columns.slices(|column| run.clone().map(|chunk| column * width + chunk).collect())
        };
        let fold = |g: &mut Group, run| {
            let places = (Operand::INPUT, Operand::OUTPUT);
            (inside.reduce_scatter)(&mut g.level(columns.mates(), pieces(run), places, false));
        };
        let across = |g: &mut Group, stage: &dyn Fn(&mut Group)| {
            if let Some(mine) = columns.mine {
                let pieces = (0..width).map(|chunk| vec![mine * width + chunk]).collect();
                let places = (Operand::OUTPUT, Operand::OUTPUT);
                stage(&mut g.level(columns.leaders(mine), Pieces::Listed(pieces), places, true));
            }
        };
        let spread = |g: &mut Group, run| {
            let places = (Operand::OUTPUT, Operand::OUTPUT);
            (inside.all_gather)(&mut g.level(columns.mates(), pieces(run), places, true));
        };
        let halving = Halving::of(nodes.count(), columns.node);
        halving.between(g, &fold, &across, &spread);
    })
}

/// Reduce-scatter inside, all-reduce in each column, all-gather inside.
pub fn all_reduce_by(shape: &Shape, nodes: &Nodes, inside: &Bodies, between: &Bodies) -> Plan {
    let column = |g: &mut Group, _| (between.all_reduce)(g);
    let width = (between.pieces)(nodes.count());
    all_reduce_over(shape, nodes, inside, (width, between.packs), column)
}

/// All-reduce with anything between the nodes: `column` is called with the group of leaders, whose
/// data are `width` pieces, and the number of the column.
pub fn all_reduce_over(
    shape: &Shape,
    nodes: &Nodes,
    inside: &Bodies,
    (width, packs): (u32, bool),
    column: impl Fn(&mut Group, u32),
) -> Plan {
    let columns = Columns::of(nodes, shape.rank);
    flat(shape, columns.count * width, Layout::Split, |g| {
        // The chunks of a column pass together, or one after the other.
        let passes: Vec<_> = match packs {
            true => std::iter::once(0..width).collect(),
            false => (0..width).map(|chunk| chunk..chunk + 1).collect(),
        };
        let columns_in_a_token = if inside.packs_blocks {
            columns.count
        } else {
            1
        };
        g.e.pieces(passes[0].end * columns_in_a_token);
        let slice = |column: u32, pass: &std::ops::Range<u32>| {
            pass.clone().map(|chunk| column * width + chunk).collect()
        };
        for pass in &passes {
            let pieces = columns.slices(|column| slice(column, pass));
            let mut node = g.level(
                columns.mates(),
                pieces,
                (Operand::INPUT, Operand::OUTPUT),
                false,
            );
            (inside.reduce_scatter)(&mut node);
        }
        if let Some(mine) = columns.mine {
            let pieces = (0..width).map(|chunk| vec![mine * width + chunk]).collect();
            let places = (Operand::OUTPUT, Operand::OUTPUT);
            let mut leaders = g.level(columns.leaders(mine), Pieces::Listed(pieces), places, true);
            column(&mut leaders, mine);
        }
        for pass in &passes {
            let pieces = columns.slices(|column| slice(column, pass));
            let places = (Operand::OUTPUT, Operand::OUTPUT);
            (inside.all_gather)(&mut g.level(columns.mates(), pieces, places, true));
        }
    })
}
