//! The edges of a graph of ranks, on the communicator that has checked them.

use crate::algo::vector::Neighbours;
use crate::base::exchange::Transfer;
use crate::comm::queue::Queue;
use crate::plan::Collective;
use std::sync::Arc;

/// The neighbours of a rank, and the communicator on which all ranks have agreed on them.
#[derive(Clone)]
#[doc(hidden)]
pub struct Edges {
    pub(in crate::comm) queue: Arc<Queue>,
    pub(in crate::comm) neighbours: Arc<Neighbours>,
}

impl Edges {
    /// Blocks that go out, and blocks that come in: missing neighbours count.
    pub fn degrees(&self) -> (usize, usize) {
        (self.neighbours.outs.len(), self.neighbours.ins.len())
    }

    /// Whom the rank receives from, block by block.
    pub fn sources(&self) -> &[Option<u32>] {
        &self.neighbours.ins
    }

    /// Whom the rank sends to, block by block.
    pub fn destinations(&self) -> &[Option<u32>] {
        &self.neighbours.outs
    }

    /// The messages of a call along the graph.
    pub(in crate::comm) fn messages(&self, collective: Collective) -> Vec<Transfer> {
        let same = matches!(
            collective,
            Collective::NeighborAllGather | Collective::NeighborAllGatherV
        );
        self.neighbours.messages(self.queue.rank, same)
    }
}
