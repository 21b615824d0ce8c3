//! In which orders channels pass the ranks: what a search of the machine tells algorithms.
//!
//! The problem: ranks that are neighbours in number need not be neighbours on the machine. A ring
//! 0, 1, 2, ... over two sockets whose ranks were dealt in turn crosses between them at every
//! step. The idea: an algorithm asks for the order of its channel in place of counting. Where there
//! is nothing to say the orders are *natural*: rings go 0, 1, 2, ..., and chains inside nodes begin
//! with another rank on every channel.
//!
//! Like [`Nodes`](super::Nodes), of which they are a part, orders are one fact per communicator,
//! equal on all ranks, and no part of the key of a plan.

/// The ranks of one node in one tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// From the head down. The head talks to the parent node and to the first child node.
    pub ranks: Vec<u32>,
    /// The second child node hangs below the rank behind the head, and not below the head.
    pub second_behind: bool,
}

impl Chain {
    /// The rank that talks to the first (0) or the second (1) child node.
    pub fn holder(&self, child: usize) -> u32 {
        match child > 0 && self.second_behind && self.ranks.len() > 1 {
            true => self.ranks[1],
            false => self.ranks[0],
        }
    }
}

/// The orders of all channels. Channels beyond those that are listed begin again with the first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Orders {
    /// For every channel all ranks in ring order; none where they are natural.
    pub rings: Vec<Vec<u32>>,
    /// For every channel the chain of every node; none where they are natural.
    pub trees: Vec<Vec<Chain>>,
}
