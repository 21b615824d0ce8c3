//! Columns: which ranks of a hierarchy work together between the nodes, and on what.
//!
//! Column i is the leaders i of all nodes. There are as many columns as the smallest node has
//! ranks, so that every node has a leader for each. A block of a rank beyond them belongs to the
//! column of its local rank, counted around.

use super::group::{Group, Pieces};
use crate::plan::Nodes;

/// The columns of a communicator, seen from one rank.
pub struct Columns<'n> {
    nodes: &'n Nodes,
    /// The node of this rank.
    pub node: u32,
    /// How many there are.
    pub count: u32,
    /// The column that this rank leads, if any.
    pub mine: Option<u32>,
}

impl<'n> Columns<'n> {
    /// Seen from `rank`.
    pub fn of(nodes: &'n Nodes, rank: u32) -> Columns<'n> {
        let count = nodes.least_ranks();
        let local = nodes.local_rank(rank);
        Columns {
            nodes,
            node: nodes.node_of(rank),
            count,
            mine: (local < count).then_some(local),
        }
    }

    /// The ranks of this node.
    pub fn mates(&self) -> Vec<u32> {
        self.nodes.ranks_of(self.node).to_vec()
    }

    /// The leaders of a column, by node.
    pub fn leaders(&self, column: u32) -> Vec<u32> {
        let nodes = 0..self.nodes.count();
        nodes.map(|node| self.nodes.leader(node, column)).collect()
    }

    /// For groups of this node: the piece of a leader is `slice` of its column, others have none.
    pub fn slices(&self, slice: impl Fn(u32) -> Vec<u32>) -> Pieces {
        let mates = 0..self.nodes.ranks_of(self.node).len() as u32;
        let of = |mate| match mate < self.count {
            true => slice(mate),
            false => Vec::new(),
        };
        Pieces::Listed(mates.map(of).collect())
    }

    /// The blocks of a column on a node: those of its leader, and of ranks without a column.
    pub fn blocks(&self, node: u32, column: u32) -> impl Iterator<Item = u32> + use<'n> {
        let ranks = self.nodes.ranks_of(node).iter().skip(column as usize);
        ranks.step_by(self.count as usize).copied()
    }

    /// All blocks of a column, those of the leaders first.
    pub fn all_blocks(&self, column: u32) -> Vec<u32> {
        let nth = |n| (0..self.nodes.count()).filter_map(move |k| self.blocks(k, column).nth(n));
        (0..self.most_blocks()).flat_map(nth).collect()
    }

    /// Most blocks that a column has on any node.
    pub fn most_blocks(&self) -> usize {
        let sizes = (0..self.nodes.count()).map(|node| self.nodes.ranks_of(node).len());
        sizes.max().unwrap_or(1).div_ceil(self.count as usize)
    }

    /// Blocks of the largest column.
    pub fn largest(&self) -> u32 {
        let columns = (0..self.count).map(|column| self.all_blocks(column).len());
        columns.max().unwrap_or(1) as u32
    }

    /// For the group of the leaders of a column: its blocks on each node, one at a time.
    pub fn across(&self, column: u32) -> Vec<Pieces> {
        let of = |n| {
            let nodes = 0..self.nodes.count();
            let nth = |node| self.blocks(node, column).nth(n).into_iter().collect();
            Pieces::Listed(nodes.map(nth).collect())
        };
        (0..self.most_blocks()).map(of).collect()
    }

    /// For groups of this node: all blocks of each column, in as few passes as there are irregular
    /// parts.
    pub fn within(&self, g: &Group) -> Vec<Pieces> {
        let mates = 0..self.nodes.ranks_of(self.node).len() as u32;
        let parts: Vec<Vec<Vec<u32>>> = mates
            .map(|mate| match mate < self.count {
                true => g.regular(&self.all_blocks(mate)),
                false => Vec::new(),
            })
            .collect();
        let passes = parts.iter().map(Vec::len).max().unwrap_or(0);
        let of = |pass| {
            let part = |parts: &Vec<Vec<u32>>| parts.get(pass).cloned().unwrap_or_default();
            Pieces::Listed(parts.iter().map(part).collect())
        };
        (0..passes).map(of).collect()
    }
}
