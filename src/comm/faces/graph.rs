//! Makes the graphs of neighbour calls: all ranks agree on their edges.

use super::safe::{call, outside_groups};
use crate::algo::vector::Neighbours;
use crate::base::{Error, Rank, Result};
use crate::comm::calling::call::Call;
use crate::comm::calling::edges::Edges;
use crate::comm::calling::enqueue;
use crate::comm::queue::Queue;
use crate::comm::{Collective, RedOp};
use std::sync::Arc;

/// Runs a call whose buffers its caller keeps.
fn run(queue: &Arc<Queue>, call: &Call) -> Result<()> {
    outside_groups().map_err(|error| queue.tells(error).during(call.collective.name()))?;
    // SAFETY: the buffers are the caller's until this returns; the call blocks, because there is
    // no stream and no group.
    unsafe { enqueue::enqueue(queue, call, None) }
}

/// A graph on this communicator. Every rank calls it with its own neighbours: `sources` send to
/// it, `destinations` receive from it. A rank may occur several times, and may be the own one:
/// the k-th edge from a to b in a's destinations is the k-th in b's sources. `None` makes a
/// block that is not exchanged. All blocks of neighbour calls have the order of these lists.
///
/// # Errors
/// `InvalidArgument`, on all ranks, if a neighbour is no rank, or if a rank lists an edge that
/// the other end does not list.
pub(in crate::comm) fn graph(
    queue: &Arc<Queue>,
    sources: &[Option<u32>],
    destinations: &[Option<u32>],
) -> Result<Edges> {
    let edges = Neighbours::new(sources.to_vec(), destinations.to_vec());
    connect(queue, edges).map_err(|error| queue.tells(error).during("GraphCreate"))
}

/// The symmetric graph of a Cartesian grid: for each dimension the neighbour below and the one
/// above, `None` beyond the end of a dimension that is not periodic. Ranks are numbered row by
/// row, the last dimension fastest. In a periodic dimension of one or two ranks, what goes
/// down arrives from above.
///
/// # Errors
/// `InvalidArgument` if the grid has not as many places as the communicator ranks.
pub(in crate::comm) fn cartesian(
    queue: &Arc<Queue>,
    dims: &[u32],
    periodic: &[bool],
) -> Result<Edges> {
    let make = || {
        let places = dims
            .iter()
            .try_fold(1u32, |all, &length| all.checked_mul(length));
        if places != Some(queue.nranks) || dims.len() != periodic.len() {
            return Err(Error::argument(
                format!(
                    "a grid of {dims:?} with {} periods for {} ranks",
                    periodic.len(),
                    queue.nranks
                ),
                "make the product of the dimensions the number of ranks, and give each one a \
                 period",
            ));
        }
        connect(queue, Neighbours::cartesian(queue.rank, dims, periodic))
    };
    make().map_err(|error| queue.tells(error).during("CartCreate"))
}

/// Checks with all ranks that every edge has both ends.
fn connect(queue: &Arc<Queue>, edges: Neighbours) -> Result<Edges> {
    let n = queue.nranks as usize;
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
    let place = found.as_mut_ptr();
    run(
        queue,
        &call(Collective::AllToAll, &sent, place, 1, (RedOp::SUM, 0)),
    )?;
    let differs = (0..n).find(|&peer| found[peer] != expected[peer]);
    if let (None, Some(peer)) = (&problem, differs) {
        problem = Some(one_sided(peer, found[peer], expected[peer], queue.rank));
    }
    // All ranks fail together: a graph that only some have would let the others wait.
    let mut first = [problem.as_ref().map_or(u32::MAX, |_| queue.rank)];
    let place = first.as_mut_ptr();
    run(
        queue,
        &call(Collective::AllReduce, &first, place, 1, (RedOp::MIN, 0)),
    )?;
    match (problem, first[0]) {
        (Some(error), _) => Err(error),
        (None, u32::MAX) => Ok(Edges {
            queue: Arc::clone(queue),
            neighbours: Arc::new(edges),
        }),
        (None, rank) => Err(Error::argument(
            format!("rank {rank} found its neighbours at odds with those of other ranks"),
            format!("see the message of rank {rank}"),
        )
        .with_peer(Rank(rank))),
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
