//! Algorithms: pure functions from a [`Shape`] to a [`Plan`]. One file each; no input or output,
//! no clock, no environment, no global.
//!
//! | algorithm | collectives | steps (n ranks) | bytes a rank sends (S = all data) |
//! |---|---|---|---|
//! | [`ring`] | all-reduce | 2(n-1) | 2 S (n-1)/n |
//! | [`ring`] | all-gather, reduce-scatter | n-1 | S (n-1)/n |
//! | [`ring`] | broadcast, reduce | n-1, pipelined | S |
//! | [`oneshot`] | all of them but reduce-scatter, and barrier | 1 | S, once, read by n-1 |
//! | [`ordered`] | all-reduce, reduce, in rank order | 2(n-1), n, pipelined | 2 S, S |
//! | [`ordered`] | reduce-scatter, in rank order | 1 | S (n-1)/n |
//! | [`scan`] | scan, exclusive scan: one-shot | 1 | S, once, read by n-1 |
//! | [`scan`] | the same: recursive doubling | ceil(log2 n) | S ceil(log2 n) |
//! | [`scan`] | the same: chain | n-1, pipelined | S |
//! | [`bundle`] | send, recv, all-to-all, gather, scatter | 1 | what each pair exchanges |

pub mod bundle;
pub mod local;
pub mod oneshot;
pub mod ordered;
pub mod ring;
pub mod scan;
pub mod vector;

use crate::base::{Error, Result};
use crate::plan::{Algorithm, Collective, Plan, Shape};

/// One algorithm for one collective.
pub struct Entry {
    /// Its name.
    pub algorithm: Algorithm,
    /// What it computes.
    pub collective: Collective,
    /// The pure function.
    pub plan: fn(&Shape) -> Plan,
    /// Least number of tokens a connection must hold for chunks of `slices` slices; one fewer
    /// deadlocks for some number of ranks.
    pub least_tokens: fn(slices: u32) -> u32,
    /// Most rounds of one launch; 0 for no limit.
    pub most_rounds: u32,
}

/// Every algorithm for every collective: the one line of registration.
pub const REGISTRY: &[Entry] = &[
    ring_entry(Collective::AllReduce, ring::all_reduce, |slices| slices + 1),
    ring_entry(Collective::AllGather, ring::all_gather, |slices| slices + 1),
    ring_entry(Collective::ReduceScatter, ring::reduce_scatter, |slices| {
        slices + 1
    }),
    ring_entry(Collective::Broadcast, ring::broadcast, |_| 1),
    ring_entry(Collective::Reduce, ring::reduce, |_| 1),
    oneshot_entry(Collective::AllReduce, oneshot::all_reduce),
    oneshot_entry(Collective::AllGather, oneshot::all_gather),
    oneshot_entry(Collective::Broadcast, oneshot::broadcast),
    oneshot_entry(Collective::Reduce, oneshot::reduce),
    oneshot_entry(Collective::Barrier, oneshot::barrier),
    ordered_entry(Collective::AllReduce, ordered::all_reduce),
    ordered_entry(Collective::Reduce, ordered::reduce),
    ordered_entry(Collective::ReduceScatter, ordered::reduce_scatter),
    oneshot_entry(Collective::Scan, scan::oneshot),
    oneshot_entry(Collective::Exscan, scan::oneshot),
    pipelined(
        Algorithm::RecursiveDoubling,
        Collective::Scan,
        scan::recursive_doubling,
    ),
    pipelined(
        Algorithm::RecursiveDoubling,
        Collective::Exscan,
        scan::recursive_doubling,
    ),
    pipelined(Algorithm::Chain, Collective::Scan, scan::chain),
    // Every slice of a chunk is kept until it is handed on and copied.
    Entry {
        least_tokens: |slices| slices,
        ..pipelined(Algorithm::Chain, Collective::Exscan, scan::chain)
    },
    bundle_entry(Collective::ReduceScatter, ordered::reduce_scatter_own_first),
    bundle_entry(Collective::AllToAll, bundle::all_to_all),
    bundle_entry(Collective::Gather, bundle::gather),
    bundle_entry(Collective::Scatter, bundle::scatter),
    bundle_entry(Collective::Send, bundle::send),
    bundle_entry(Collective::Recv, bundle::recv),
];

/// Plans that are parts of a bundle and no collective by themselves: what the lanes of a registered
/// plan do, for one size each.
const PARTS: &[Entry] = &[
    bundle_entry(Collective::ReduceScatterV, ordered::fold_block_own_first),
    ordered_entry(Collective::ReduceScatterV, ordered::fold_block),
];

const fn ring_entry(
    collective: Collective,
    plan: fn(&Shape) -> Plan,
    least_tokens: fn(u32) -> u32,
) -> Entry {
    Entry {
        algorithm: Algorithm::Ring,
        collective,
        plan,
        least_tokens,
        most_rounds: 0,
    }
}

const fn oneshot_entry(collective: Collective, plan: fn(&Shape) -> Plan) -> Entry {
    let algorithm = Algorithm::OneShot;
    Entry {
        algorithm,
        collective,
        plan,
        least_tokens: |slices| slices,
        most_rounds: 1,
    }
}

const fn ordered_entry(collective: Collective, plan: fn(&Shape) -> Plan) -> Entry {
    pipelined(Algorithm::Ordered, collective, plan)
}

/// One chunk a round, on connections that wait for nobody else.
const fn pipelined(
    algorithm: Algorithm,
    collective: Collective,
    plan: fn(&Shape) -> Plan,
) -> Entry {
    Entry {
        algorithm,
        collective,
        plan,
        least_tokens: |_| 1,
        most_rounds: 0,
    }
}

const fn bundle_entry(collective: Collective, plan: fn(&Shape) -> Plan) -> Entry {
    let algorithm = Algorithm::Bundle;
    Entry {
        algorithm,
        collective,
        plan,
        least_tokens: |_| 1,
        most_rounds: 0,
    }
}

/// The entry for a collective and an algorithm.
pub fn find(collective: Collective, algorithm: Algorithm) -> Option<&'static Entry> {
    REGISTRY
        .iter()
        .find(|e| e.collective == collective && e.algorithm == algorithm)
}

/// The plan of `shape`. One rank alone always gets the local copy.
///
/// # Errors
/// `InvalidUsage` if the algorithm does not compute the collective.
pub fn plan(shape: &Shape) -> Result<Plan> {
    if shape.nranks == 1 && !shape.collective.is_point_to_point() {
        return Ok(local::alone(shape));
    }
    let part = PARTS
        .iter()
        .find(|e| e.collective == shape.collective && e.algorithm == shape.algorithm);
    match find(shape.collective, shape.algorithm).or(part) {
        Some(entry) => Ok((entry.plan)(shape)),
        None => Err(Error::usage(
            format!(
                "algorithm {} does not compute {}",
                shape.algorithm.name(),
                shape.collective.name()
            ),
            "leave the choice to kolo (unset KOLO_ALGO)",
        )),
    }
}
