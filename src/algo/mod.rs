//! Algorithms: pure functions from a [`Shape`] and the [`Nodes`] to a [`Plan`]. One file each.
//!
//! **Problem.** Each collective can be done in many ways, and which is best depends on size, number
//! of ranks and machine. Each way is index arithmetic that is easily wrong for some number of
//! ranks.
//!
//! **Idea.** An algorithm emits steps and does nothing else: no input or output, no clock, no
//! environment, no global. So the checker proves it for every number of ranks that is tried, and
//! whoever runs plans runs it. The table below has them all; what a line does not say is as usual
//! ([`Entry`]). [`group`] lets algorithms compose: one inside nodes, one between them.
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
pub mod climb;
pub mod collnet;
pub mod columns;
pub mod cores;
pub mod dissemination;
pub mod group;
pub mod hd;
pub mod hier;
pub mod hier_blocks;
pub mod hier_rooted;
mod ladder;
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

/// The one table of algorithms, as text: `algorithms!(what)` hands it to the macro `what`. Three
/// make something of it, each in its room: the names ([`Algorithm`], in `plan`), the words of the
/// option `algo` and their documentation (in `config`), and the [`REGISTRY`] of functions (here).
///
/// An algorithm has a phrase, a name, its word, and a line for each collective that it computes:
/// the function, then what is unlike most, by the functions of [`Entry`].
macro_rules! algorithms {
    ($then:ident) => {
        $then! {
            // Those that a user may name.
            named {
                /// each rank passes chunks to its neighbour in a ring
                Ring = "ring" {
                    AllReduce: ring::all_reduce, tokens(|s| s + 1);
                    AllGather: ring::all_gather, tokens(|s| s + 1);
                    ReduceScatter: ring::reduce_scatter, tokens(|s| s + 1);
                    Broadcast: ring::broadcast;
                    Reduce: ring::reduce;
                }
                /// every rank publishes its data and every rank folds in rank order
                OneShot = "oneshot" {
                    AllReduce: oneshot::all_reduce, small(), up_to(256);
                    AllGather: oneshot::all_gather, small(), up_to(256);
                    Broadcast: oneshot::broadcast, small();
                    Reduce: oneshot::reduce, tokens(|s| s), one_round();
                    ReduceScatter: oneshot::reduce_scatter, small(), all_blocks(), up_to(64);
                    AllToAll: oneshot::all_to_all, small(), all_blocks(), up_to(64);
                    Scatter: oneshot::scatter, small(), all_blocks(), up_to(64);
                    Barrier: oneshot::barrier, small(), up_to(256);
                    Scan: scan::oneshot, small(), up_to(256);
                    Exscan: scan::oneshot, small(), up_to(256);
                }
                /// partners at doubling distances exchange all they have
                RecursiveDoubling = "rd" {
                    AllReduce: rd::all_reduce, tokens(|s| s);
                    AllGather: rd::all_gather, tokens(|s| s), packs(|n, _| n);
                    Barrier: rd::barrier, tokens(|s| s);
                    Scan: scan::recursive_doubling;
                    Exscan: scan::recursive_doubling;
                }
                /// a binomial tree
                Binomial = "binomial" {
                    Broadcast: binomial::broadcast;
                    Reduce: binomial::reduce;
                    Gather: binomial::gather;
                    Scatter: binomial::scatter;
                }
                /// a pipelined chain, node by node
                Chain = "chain" {
                    Broadcast: chain::broadcast, by_node();
                    Reduce: chain::reduce, by_node();
                    Scan: scan::chain;
                    // Every slice of a chunk is kept until it is handed on and copied.
                    Exscan: scan::chain, tokens(|s| s);
                }
                /// two binary trees between the nodes, each for half of the data
                Tree = "tree" {
                    AllReduce: tree::all_reduce, by_node(), two_trees();
                    Broadcast: tree::broadcast, by_node(), two_trees();
                    Reduce: tree::reduce, by_node(), two_trees();
                }
                /// the owner of a slice folds it, all take the result
                TwoShot = "twoshot" {
                    AllReduce: twoshot::all_reduce, tokens(|s| s + 1), up_to(256), by_node(),
                        direct();
                    ReduceScatter: twoshot::reduce_scatter, tokens(|s| s), up_to(256), direct();
                    AllGather: twoshot::all_gather, tokens(|s| s), up_to(256), by_node(), direct();
                    Broadcast: twoshot::broadcast, tokens(|s| s), up_to(256);
                    Reduce: twoshot::reduce, tokens(|s| s), up_to(256);
                }
                /// partners exchange halves of halves, then double what they have
                HalvingDoubling = "hd" {
                    AllReduce: hd::all_reduce, tokens(|s| s), packs(|n, _| n);
                    ReduceScatter: hd::reduce_scatter, tokens(|s| s), packs(|n, _| n);
                    AllGather: hd::all_gather, tokens(|s| s), packs(|n, _| n);
                }
                /// blocks at doubling distances, several in one message
                Bruck = "bruck" {
                    AllToAll: bruck::all_to_all, tokens(|s| 2 * s), packs(|n, _| n);
                    AllGather: bruck::all_gather, tokens(|s| s), packs(|n, _| n);
                }
                /// parallel aggregated trees
                Pat = "pat" {
                    AllGather: pat::all_gather, tokens(|s| s), packs(|n, _| n);
                    ReduceScatter: pat::reduce_scatter, tokens(|s| s), packs(|n, _| n);
                }
                /// a hub for every slice and a fan for its result
                Nvls = "nvls" {
                    AllReduce: nvls::all_reduce, tokens(|s| s), up_to(256), one_memory();
                    ReduceScatter: nvls::reduce_scatter, tokens(|s| s), up_to(256), one_memory();
                    AllGather: nvls::all_gather, tokens(|s| s), up_to(256), one_memory();
                    Broadcast: nvls::broadcast, one_memory(), direct();
                }
                /// hubs inside the node, two binary trees between nodes
                NvlsTree = "nvlstree" {
                    AllReduce: nvlstree::all_reduce, tokens(|s| s), by_node(), two_trees();
                }
                /// a reducer in the network, played by a rank
                CollNet = "collnet" {
                    AllReduce: collnet::all_reduce, tokens(|s| s), by_node();
                }
                /// one algorithm inside the node, another between the nodes
                Hierarchical = "hier" {
                    AllReduce: hier::all_reduce, tokens(|s| s), packs(|_, nodes| nodes), by_node();
                    Broadcast: hier_rooted::broadcast, tokens(|s| s), by_node();
                    Reduce: hier_rooted::reduce, tokens(|s| s), by_node();
                    AllGather: hier_blocks::all_gather, tokens(|s| s), packs(|n, _| n), by_node();
                    ReduceScatter: hier_blocks::reduce_scatter, tokens(|s| s), packs(|n, _| n),
                        by_node();
                    Barrier: hier_blocks::barrier, tokens(|s| s), by_node();
                }
                /// one rank of each cache, socket and node speaks for it
                Leader = "leader" {
                    AllReduce: leader::all_reduce, tokens(|s| s), by_node();
                    Broadcast: leader::broadcast, by_node();
                    Reduce: leader::reduce, by_node();
                    Barrier: leader::barrier, tokens(|s| s), by_node();
                }
                /// every pair of ranks in turn
                Pairwise = "pairwise" {
                    AllToAll: pairwise::all_to_all, tokens(|s| s), up_to(1024);
                }
                /// signals at doubling distances
                Dissemination = "dissemination" {
                    Barrier: dissemination::barrier, tokens(|s| s);
                    AllGather: dissemination::all_gather, tokens(|s| s), packs(|n, _| n);
                }
                /// in the order of ranks, as operations that do not commute need it
                Ordered = "ordered" {
                    AllReduce: ordered::all_reduce;
                    Reduce: ordered::reduce;
                    ReduceScatter: ordered::reduce_scatter, up_to(256);
                }
            }
            // Those that kolo takes by itself, where nothing else will do.
            unnamed {
                /// one connection a lane: point-to-point groups and what is built of them
                Bundle = "bundle" {
                    ReduceScatter: ordered::reduce_scatter_own_first, up_to(256);
                    AllToAll: bundle::exchange, up_to(256), direct();
                    Gather: bundle::exchange, up_to(1 << 15), direct();
                    Scatter: bundle::exchange, up_to(1 << 15), direct();
                    Send: bundle::send;
                    Recv: bundle::recv;
                }
                /// one rank alone: a scaled copy
                Local = "local" {}
                /// the same where the network itself folds: takes the place of `collnet` there
                Switch = "switch" {}
            }
        }
    };
}

use crate::base::{Error, Result};
use crate::plan::{Algorithm, Collective, Nodes, Plan, Shape};

/// One algorithm for one collective.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its name.
    pub algorithm: Algorithm,
    /// Collective that it computes.
    pub collective: Collective,
    /// The pure function.
    pub plan: fn(&Shape, &Nodes) -> Plan,
    /// Least number of tokens a connection must hold for chunks of `slices` slices; one fewer
    /// deadlocks for some number of ranks.
    pub least_tokens: fn(slices: u32) -> u32,
    /// Most rounds of one launch; 0 for no limit.
    pub most_rounds: u32,
    /// Its tokens hold the blocks of all ranks.
    pub all_blocks: bool,
    /// It uses channels in multiples of this, where it may have so many.
    pub channels: u16,
    /// Most pieces in one of its tokens, among so many ranks of so many nodes.
    pub most_pieces: fn(nranks: u32, nodes: u32) -> u32,
    /// Most ranks that it is meant for.
    pub most_ranks: u32,
    /// It looks at the nodes.
    pub by_node: bool,
    /// All ranks must reach the same memory: it uses connections with many readers.
    pub one_memory: bool,
    /// It is what runs where all ranks reach the buffers of all others.
    pub direct: bool,
}

/// `plan` computes `collective` and is called `algorithm`: any number of ranks and rounds, one
/// token a connection. The functions of [`Entry`] say what is different.
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
        all_blocks: false,
        channels: 1,
        most_pieces: |_, _| 1,
        most_ranks: u32::MAX,
        by_node: false,
        one_memory: false,
        direct: false,
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

    const fn all_blocks(self) -> Entry {
        Entry {
            all_blocks: true,
            ..self
        }
    }

    /// Blocks of a contribution that are in one token, among `nranks` ranks.
    pub fn blocks_in_token(&self, nranks: u32) -> usize {
        match self.all_blocks {
            true => nranks as usize,
            false => 1,
        }
    }

    const fn packs(self, most_pieces: fn(u32, u32) -> u32) -> Entry {
        Entry {
            most_pieces,
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

    const fn direct(self) -> Entry {
        Entry {
            direct: true,
            ..self
        }
    }

    const fn up_to(self, most_ranks: u32) -> Entry {
        Entry { most_ranks, ..self }
    }
}

macro_rules! registry {
    ($( $section:ident {
        $( #[doc = $doc:literal] $algorithm:ident = $name:literal {
            $( $collective:ident: $plan:path $(, $with:ident($($value:tt)*))*; )*
        } )*
    } )*) => {
        /// Every algorithm for every collective.
        pub const REGISTRY: &[Entry] = &[ $( $( $(
            of(Algorithm::$algorithm, Collective::$collective, $plan)$(.$with($($value)*))*,
        )* )* )* ];

        /// Returns the phrase in the table that says what an algorithm is.
        pub fn purpose(algorithm: Algorithm) -> &'static str {
            let phrase = match algorithm { $( $( Algorithm::$algorithm => $doc, )* )* };
            phrase.trim_start()
        }
    };
}

algorithms!(registry);

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

/// Returns the algorithm that runs where all ranks can reach the buffers of all others; none for
/// collectives that always go through slots.
pub fn direct(collective: Collective) -> Option<Algorithm> {
    let mut of = REGISTRY.iter();
    let found = of.find(|entry| entry.collective == collective && entry.direct);
    found.map(|entry| entry.algorithm)
}

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
