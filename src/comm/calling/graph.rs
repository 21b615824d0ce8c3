//! Graphs: who exchanges with whom in neighbour collectives.

use super::call::Collective;
use super::handles::RedOp;
use crate::algo::vector::Neighbours;
use crate::base::exchange::Transfer;
use crate::base::{Error, Rank, Result};
use crate::comm::Communicator;
use std::fmt;
use std::sync::Arc;

/// The neighbours of a rank, on a communicator. Cheap to clone; clones are the same graph. It keeps
/// its communicator.
#[derive(Clone)]
pub struct Graph {
    comm: Communicator,
    edges: Arc<Neighbours>,
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (outs, ins) = self.degrees();
        write!(f, "graph on {:?}, {ins} in, {outs} out", self.comm)
    }
}

impl Communicator {
    /// A graph on this communicator. Every rank calls it with its own neighbours: `sources` send to
    /// it, `destinations` receive from it. A rank may occur several times, and may be the own one:
    /// the k-th edge from a to b in a's destinations is the k-th in b's sources. `None` makes a
    /// block that is not exchanged. All blocks of neighbour calls have the order of these lists.
    ///
    /// # Errors
    /// `InvalidArgument`, on all ranks, if a neighbour is no rank, or if a rank lists an edge that
    /// the other end does not list.
    pub fn graph(&self, sources: &[Option<u32>], destinations: &[Option<u32>]) -> Result<Graph> {
        let edges = Neighbours::new(sources.to_vec(), destinations.to_vec());
        self.connect(edges)
            .map_err(|error| self.inner.tells(error).during("GraphCreate"))
    }

    /// The symmetric graph of a Cartesian grid: for each dimension the neighbour below and the one
    /// above, `None` beyond the end of a dimension that is not periodic. Ranks are numbered row by
    /// row, the last dimension fastest. In a periodic dimension of one or two ranks, what goes
    /// down arrives from above.
    ///
    /// # Errors
    /// `InvalidArgument` if the grid has not as many places as the communicator ranks.
    pub fn cartesian(&self, dims: &[u32], periodic: &[bool]) -> Result<Graph> {
        let make = || {
            let places = dims
                .iter()
                .try_fold(1u32, |all, &length| all.checked_mul(length));
            if places != Some(self.nranks()) || dims.len() != periodic.len() {
                return Err(Error::argument(
                    format!(
                        "a grid of {dims:?} with {} periods for {} ranks",
                        periodic.len(),
                        self.nranks()
                    ),
                    "make the product of the dimensions the number of ranks, and give each one a \
                     period",
                ));
            }
            self.connect(Neighbours::cartesian(self.rank(), dims, periodic))
        };
        make().map_err(|error| self.inner.tells(error).during("CartCreate"))
    }

    /// Checks with all ranks that every edge has both ends.
    fn connect(&self, edges: Neighbours) -> Result<Graph> {
        let n = self.nranks() as usize;
        let mut problem = None;
        let count = |list: &[Option<u32>], problem: &mut Option<Error>| {
            let mut counts = vec![0u32; n];
            for &rank in list.iter().flatten() {
                match counts.get_mut(rank as usize) {
                    Some(count) => *count += 1,
                    None => *problem = Some(stranger(rank, n)),
                }
            }
            counts
        };
        let sent = count(&edges.outs, &mut problem);
        let expected = count(&edges.ins, &mut problem);
        let mut found = vec![0u32; n];
        self.all_to_all(&sent, &mut found)?;
        let differs = (0..n).find(|&peer| found[peer] != expected[peer]);
        if let (None, Some(peer)) = (&problem, differs) {
            problem = Some(one_sided(peer, found[peer], expected[peer], self.rank()));
        }
        // All ranks fail together: a graph that only some have would let the others wait.
        let mut first = [problem.as_ref().map_or(u32::MAX, |_| self.rank())];
        self.all_reduce_in_place(&mut first, RedOp::MIN)?;
        match (problem, first[0]) {
            (Some(error), _) => Err(error),
            (None, u32::MAX) => Ok(Graph {
                comm: self.clone(),
                edges: Arc::new(edges),
            }),
            (None, rank) => Err(Error::argument(
                format!("rank {rank} found its neighbours at odds with those of other ranks"),
                format!("see the message of rank {rank}"),
            )
            .with_peer(Rank(rank))),
        }
    }
}

impl Graph {
    /// Blocks that go out, and blocks that come in: missing neighbours count.
    pub fn degrees(&self) -> (usize, usize) {
        (self.edges.outs.len(), self.edges.ins.len())
    }

    /// Whom the rank receives from, block by block.
    pub fn sources(&self) -> &[Option<u32>] {
        &self.edges.ins
    }

    /// Whom the rank sends to, block by block.
    pub fn destinations(&self) -> &[Option<u32>] {
        &self.edges.outs
    }

    /// The communicator it was made on.
    pub fn communicator(&self) -> &Communicator {
        &self.comm
    }

    /// The messages of a call along the graph.
    pub(in crate::comm) fn messages(&self, collective: Collective) -> Vec<Transfer> {
        let same = matches!(
            collective,
            Collective::NeighborAllGather | Collective::NeighborAllGatherV
        );
        self.edges.messages(self.comm.rank(), same)
    }
}

fn stranger(rank: u32, nranks: usize) -> Error {
    Error::argument(
        format!(
            "neighbour {} is not a rank of this communicator of {nranks}",
            rank as i32
        ),
        format!("give ranks from 0 to {} (or none)", nranks - 1),
    )
}

fn one_sided(peer: usize, found: u32, expected: u32, rank: u32) -> Error {
    Error::argument(
        format!(
            "rank {peer} has rank {rank} {found} times among its destinations, but rank {rank} has \
             rank {peer} {expected} times among its sources"
        ),
        "list every edge at both of its ends",
    )
    .with_peer(Rank(peer as u32))
}
