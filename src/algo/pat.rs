//! PAT, parallel aggregated trees: every block has a binomial tree of its own, and all ranks walk
//! all trees in the same order.
//!
//! The tree of block b is the same for all blocks, turned: its members are numbered by *distance*
//! d = rank - b, the parent of d is d without its lowest set bit. What is far apart is exchanged
//! when little data is on its way (all-gather: first; reduce-scatter: last), and any number of
//! ranks will do: the tree just ends at n. Trees move *aggregated*: the blocks of one token are
//! those with distances w, w + width, w + 2 width ..., at most [`super::pat_trees::MOST`] of them.
//! So up to that many ranks everything takes log n hand-overs; beyond it, width - 1 more tokens,
//! each as full as can be, whatever the number of ranks.
//!
//! A reduce-scatter keeps partial sums. Walking the distances downwards (children before parents,
//! depth first) leaves only the ancestors of the current distance open: log(width) sums for each of
//! the aggregated trees, however many ranks there are. They lie in scratch; see [`Trees::sum`].
//!
//! Reference: S. Jeaugey, "PAT: a new algorithm for all-gather and reduce-scatter operations at
//! scale", 2025, arXiv:2506.20252.

use super::group::{Group, flat};
use super::pat_trees::Trees;
use crate::plan::{Layout, Nodes, Plan, Shape};

/// Top of the trees first, then the lower parts.
pub fn all_gather(shape: &Shape, _: &Nodes) -> Plan {
    flat(shape, shape.nranks, Layout::Blocks, |g| {
        gather(g, &Trees::of(shape.nranks))
    })
}

/// Lower parts of the trees first, then their tops.
pub fn reduce_scatter(shape: &Shape, _: &Nodes) -> Plan {
    // Chunk numbers of twice the blocks never wrap, so that scratch can be counted by them.
    flat(shape, 2 * shape.nranks, Layout::Blocks, |g| {
        scatter(g, &Trees::of(shape.nranks))
    })
}

fn gather(g: &mut Group, trees: &Trees) {
    let me = i64::from(g.me);
    g.pieces(trees.count as u32);
    g.copy(me, false);
    let tops = trees.tops().rev().map(|bit| (bit, trees.of_top(bit)));
    let lower = (1..trees.width).map(|within| (Trees::bit(within), trees.at(within)));
    for (bit, distances) in tops.chain(lower) {
        let (ahead, behind) = (g.ahead(bit as u32), g.behind(bit as u32));
        let give = distances.iter().map(|d| me - (d - bit));
        let take = distances.iter().map(|d| me - d);
        g.exchange((ahead, give), (behind, take));
    }
}

fn scatter(g: &mut Group, trees: &Trees) {
    g.e.scratch(trees.sums() as u32);
    g.pieces(trees.count as u32);
    if trees.width == 1 {
        begin_sums(g, trees, 0);
    }
    for within in (1..trees.width).rev() {
        let bit = Trees::bit(within);
        let parent = within - bit;
        let widest = if parent == 0 {
            trees.width
        } else {
            Trees::bit(parent)
        };
        // The farthest child comes first.
        if bit == widest / 2 {
            begin_sums(g, trees, parent);
        }
        add_up(g, trees, (bit, within), trees.at(within), false);
    }
    let mut tops = trees.tops().peekable();
    while let Some(bit) = tops.next() {
        add_up(g, trees, (bit, 0), trees.of_top(bit), tops.peek().is_none());
    }
}

/// The chunks of this rank's sums at these distances.
fn chunks(g: &Group, trees: &Trees, distances: &[i64]) -> Vec<i64> {
    let first = i64::from(g.me) + trees.n;
    distances.iter().map(|distance| first - distance).collect()
}

/// Partial sums at `within` of all trees begin with the own contribution.
fn begin_sums(g: &mut Group, trees: &Trees, within: i64) {
    let (own, sum) = (g.own(), trees.sum(g.me.into(), within));
    let chunks = chunks(g, trees, &trees.at(within));
    g.put_many(&[own], &[sum], chunks, false);
}

/// Sums at these distances, which lie `within` their trees, go to their parents, `bit` nearer, and
/// are folded there.
fn add_up(
    g: &mut Group,
    trees: &Trees,
    (bit, within): (i64, i64),
    distances: Vec<i64>,
    last: bool,
) {
    let me = i64::from(g.me);
    let (to, from) = (g.to(g.behind(bit as u32)), g.from(g.ahead(bit as u32)));
    // Odd distances have no children.
    let source = match within % 2 {
        0 => trees.sum(me, within),
        _ => g.own(),
    };
    let give = chunks(g, trees, &distances);
    g.put_many(&[source], &[to.operand()], give, false);
    let parents: Vec<i64> = distances.iter().map(|distance| distance - bit).collect();
    let sum = trees.sum(me, if within == 0 { 0 } else { within - bit });
    let result = if last { g.result() } else { sum };
    let take = chunks(g, trees, &parents);
    g.put_many(&[sum, from.operand()], &[result], take, last);
}
