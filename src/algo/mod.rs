//! Algorithms: pure functions from a [`Shape`] and the [`Nodes`] to a [`Plan`]. One file each.
//!
//! **Problem.** Each collective can be done in many ways, and which is best depends on size, number
//! of ranks and machine. Each way is index arithmetic that is easily wrong for some number of
//! ranks.
//!
//! **Idea.** An algorithm emits steps and does nothing else: no input or output, no clock, no
//! environment, no global. So the checker proves it for every number of ranks that is tried, and
//! whoever runs plans runs it. [`REGISTRY`] has a line for each; what an [`Entry`] does not say is
//! as usual. [`group`] lets algorithms compose: one inside nodes, one between them.
//!
//! **Terms.** *Shape*: what a plan is made for. *Nodes*: which rank is on which node, and the
//! orders in which channels pass the ranks. *Group*: some ranks as an algorithm sees them.
//! *Column*: the leaders of all nodes that have the same local rank.
//!
//! `docs/algorithms.md` has a row for each: hand-overs, bytes on the wire, paper, and when it is
//! good. `docs/HACKING.md` shows how to add one.
//!
//! Reference: E. Chan, M. Heimlich, A. Purkayastha, R. van de Geijn, "Collective communication:
//! theory, practice, and experience", Concurrency Computat. Pract. Exper. 19 (2007),
//! doi:10.1002/cpe.1206. Each file names its own.

pub mod binomial;
pub mod bruck;
pub mod btree;
pub mod bundle;
pub mod chain;
pub mod collnet;
pub mod columns;
pub mod cores;
pub mod dissemination;
pub mod group;
pub mod hd;
pub mod hier;
pub mod hier_blocks;
pub mod hier_rooted;
pub mod leader;
pub mod levels;
pub mod local;
pub mod nvls;
pub mod nvlstree;
pub mod oneshot;
pub mod ordered;
mod owners;
pub mod pairwise;
pub mod pat;
pub mod pat_trees;
pub mod rd;
pub mod ring;
pub mod scan;
pub mod tree;
pub mod twoshot;
pub mod vector;

use crate::base::{Error, Result};
use crate::plan::{Algorithm, Collective, Nodes, Plan, Shape};

/// One algorithm for one collective.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its name.
    pub algorithm: Algorithm,
    /// What it computes.
    pub collective: Collective,
    /// The pure function.
    pub plan: fn(&Shape, &Nodes) -> Plan,
    /// Least number of tokens a connection must hold for chunks of `slices` slices; one fewer
    /// deadlocks for some number of ranks.
    pub least_tokens: fn(slices: u32) -> u32,
    /// Most rounds of one launch; 0 for no limit.
    pub most_rounds: u32,
    /// It uses channels in multiples of this, where it may have so many.
    pub channels: u16,
    /// Most ranks that it is meant for; the grid of `tests/plans` checks it to 1,000.
    pub most_ranks: u32,
    /// It looks at the nodes.
    pub by_node: bool,
    /// All ranks must reach the same memory: it uses connections with many readers.
    pub one_memory: bool,
}

/// `plan` computes `collective` and is called `algorithm`: any number of rounds, one token a
/// connection, up to 1,024 ranks. The functions of [`Entry`] say what is different.
const fn of(
    algorithm: Algorithm,
    collective: Collective,
    plan: fn(&Shape, &Nodes) -> Plan,
) -> Entry {
    Entry {
        algorithm,
        collective,
        plan,
        least_tokens: |_| 1,
        most_rounds: 0,
        channels: 1,
        most_ranks: 1024,
        by_node: false,
        one_memory: false,
    }
}

impl Entry {
    const fn tokens(self, least_tokens: fn(u32) -> u32) -> Entry {
        Entry {
            least_tokens,
            ..self
        }
    }

    const fn one_round(self) -> Entry {
        Entry {
            most_rounds: 1,
            ..self
        }
    }

    const fn two_trees(self) -> Entry {
        Entry {
            channels: 2,
            ..self
        }
    }

    const fn by_node(self) -> Entry {
        Entry {
            by_node: true,
            ..self
        }
    }

    /// One token for each reader at once.
    const fn small(self) -> Entry {
        self.tokens(|slices| slices).one_round().one_memory()
    }

    const fn one_memory(self) -> Entry {
        Entry {
            one_memory: true,
            ..self
        }
    }

    const fn up_to(self, most_ranks: u32) -> Entry {
        Entry { most_ranks, ..self }
    }
}

/// Every algorithm for every collective: the one line of registration.
#[rustfmt::skip]
pub const REGISTRY: &[Entry] = {
    use {Algorithm as A, Collective as C};
    &[
        of(A::Ring, C::AllReduce, ring::all_reduce).tokens(|slices| slices + 1),
        of(A::Ring, C::AllGather, ring::all_gather).tokens(|slices| slices + 1),
        of(A::Ring, C::ReduceScatter, ring::reduce_scatter).tokens(|slices| slices + 1),
        of(A::Ring, C::Broadcast, ring::broadcast),
        of(A::Ring, C::Reduce, ring::reduce),
        of(A::OneShot, C::AllReduce, oneshot::all_reduce).small().up_to(256),
        of(A::OneShot, C::AllGather, oneshot::all_gather).small().up_to(256),
        of(A::OneShot, C::Broadcast, oneshot::broadcast).small(),
        of(A::OneShot, C::Reduce, oneshot::reduce).tokens(|s| s).one_round(),
        of(A::OneShot, C::Barrier, oneshot::barrier).small().up_to(256),
        of(A::RecursiveDoubling, C::AllReduce, rd::all_reduce).tokens(|slices| slices),
        of(A::RecursiveDoubling, C::AllGather, rd::all_gather).tokens(|slices| slices),
        of(A::RecursiveDoubling, C::Barrier, rd::barrier).tokens(|slices| slices),
        of(A::Binomial, C::Broadcast, binomial::broadcast),
        of(A::Binomial, C::Reduce, binomial::reduce),
        of(A::Binomial, C::Gather, binomial::gather),
        of(A::Binomial, C::Scatter, binomial::scatter),
        of(A::Chain, C::Broadcast, chain::broadcast).by_node(),
        of(A::Chain, C::Reduce, chain::reduce).by_node(),
        of(A::Tree, C::AllReduce, tree::all_reduce).by_node().two_trees(),
        of(A::Tree, C::Broadcast, tree::broadcast).by_node().two_trees(),
        of(A::Tree, C::Reduce, tree::reduce).by_node().two_trees(),
        of(A::TwoShot, C::AllReduce, twoshot::all_reduce).tokens(|s| s + 1).up_to(128).by_node(),
        of(A::TwoShot, C::ReduceScatter, twoshot::reduce_scatter).tokens(|s| s).up_to(128),
        of(A::TwoShot, C::AllGather, twoshot::all_gather).tokens(|s| s).up_to(128).by_node(),
        of(A::TwoShot, C::Broadcast, twoshot::broadcast).tokens(|s| s).up_to(128),
        of(A::TwoShot, C::Reduce, twoshot::reduce).tokens(|s| s).up_to(128),
        of(A::HalvingDoubling, C::AllReduce, hd::all_reduce).tokens(|slices| slices),
        of(A::HalvingDoubling, C::ReduceScatter, hd::reduce_scatter).tokens(|slices| slices),
        of(A::HalvingDoubling, C::AllGather, hd::all_gather).tokens(|slices| slices),
        of(A::Bruck, C::AllToAll, bruck::all_to_all).tokens(|slices| 2 * slices),
        of(A::Bruck, C::AllGather, bruck::all_gather).tokens(|slices| slices),
        of(A::Pat, C::AllGather, pat::all_gather).tokens(|slices| slices),
        of(A::Pat, C::ReduceScatter, pat::reduce_scatter).tokens(|slices| slices),
        of(A::Nvls, C::AllReduce, nvls::all_reduce).tokens(|s| s).up_to(128).one_memory(),
        of(A::Nvls, C::ReduceScatter, nvls::reduce_scatter).tokens(|s| s).up_to(128).one_memory(),
        of(A::Nvls, C::AllGather, nvls::all_gather).tokens(|s| s).up_to(128).one_memory(),
        of(A::Nvls, C::Broadcast, nvls::broadcast).one_memory(),
        of(A::NvlsTree, C::AllReduce, nvlstree::all_reduce).tokens(|s| s).by_node().two_trees(),
        of(A::CollNet, C::AllReduce, collnet::all_reduce).tokens(|s| s).by_node(),
        of(A::Hierarchical, C::AllReduce, hier::all_reduce).tokens(|s| s).by_node(),
        of(A::Hierarchical, C::Broadcast, hier_rooted::broadcast).tokens(|s| s).by_node(),
        of(A::Hierarchical, C::Reduce, hier_rooted::reduce).tokens(|s| s).by_node(),
        of(A::Hierarchical, C::AllGather, hier_blocks::all_gather).tokens(|s| s).by_node(),
        of(A::Hierarchical, C::ReduceScatter, hier_blocks::reduce_scatter).tokens(|s| s).by_node(),
        of(A::Hierarchical, C::Barrier, hier_blocks::barrier).tokens(|s| s).by_node(),
        of(A::Leader, C::AllReduce, leader::all_reduce).tokens(|s| s).by_node(),
        of(A::Pairwise, C::AllToAll, pairwise::all_to_all).tokens(|slices| slices).up_to(256),
        of(A::Dissemination, C::Barrier, dissemination::barrier).tokens(|slices| slices),
        of(A::Dissemination, C::AllGather, dissemination::all_gather).tokens(|s| s),
        of(A::Ordered, C::AllReduce, ordered::all_reduce),
        of(A::Ordered, C::Reduce, ordered::reduce),
        of(A::Ordered, C::ReduceScatter, ordered::reduce_scatter).up_to(128),
        of(A::OneShot, C::Scan, scan::oneshot).small().up_to(256),
        of(A::OneShot, C::Exscan, scan::oneshot).small().up_to(256),
        of(A::RecursiveDoubling, C::Scan, scan::recursive_doubling),
        of(A::RecursiveDoubling, C::Exscan, scan::recursive_doubling),
        of(A::Chain, C::Scan, scan::chain),
        // Every slice of a chunk is kept until it is handed on and copied.
        of(A::Chain, C::Exscan, scan::chain).tokens(|slices| slices),
        of(A::Bundle, C::ReduceScatter, ordered::reduce_scatter_own_first).up_to(128),
        of(A::Bundle, C::AllToAll, bundle::all_to_all).up_to(256),
        of(A::Bundle, C::Gather, bundle::gather),
        of(A::Bundle, C::Scatter, bundle::scatter),
        of(A::Bundle, C::Send, bundle::send),
        of(A::Bundle, C::Recv, bundle::recv),
    ]
};

/// Plans that stand for registered ones in some calls: that of a network which folds, and what the
/// lanes of a bundle do, for one size each.
const PARTS: &[Entry] = &[
    of(
        Algorithm::Switch,
        Collective::AllReduce,
        collnet::all_reduce_in_network,
    ),
    of(
        Algorithm::Bundle,
        Collective::ReduceScatterV,
        ordered::fold_block_own_first,
    ),
    of(
        Algorithm::Ordered,
        Collective::ReduceScatterV,
        ordered::fold_block,
    ),
];

/// The entry for a collective and an algorithm.
pub fn find(collective: Collective, algorithm: Algorithm) -> Option<&'static Entry> {
    REGISTRY
        .iter()
        .find(|e| e.collective == collective && e.algorithm == algorithm)
}

/// The plan of `shape` for ranks that live on `nodes`. One rank alone always gets the local copy.
///
/// # Errors
/// `InvalidUsage` if the algorithm does not compute the collective.
pub fn plan(shape: &Shape, nodes: &Nodes) -> Result<Plan> {
    if shape.nranks == 1 && !shape.collective.is_point_to_point() {
        return Ok(local::alone(shape));
    }
    let part = PARTS
        .iter()
        .find(|e| e.collective == shape.collective && e.algorithm == shape.algorithm);
    match find(shape.collective, shape.algorithm).or(part) {
        Some(entry) => Ok((entry.plan)(shape, nodes)),
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
