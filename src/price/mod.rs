//! Prices of calls: the numbers that the simulator and the tuner share, and estimates by them.
//!
//! **Problem.** Whoever chooses an algorithm has to know its time before it runs, on machines that
//! nobody has at hand.
//!
//! **Idea.** What two ranks share decides what a hand-over between them costs. So a machine is a
//! few counts, links, and a rule of who sits where ([`cluster`], [`links`], [`seating`]), each
//! *level* has its costs ([`costs`]), and the time of an algorithm is a sum over the hand-overs
//! that it makes ([`forms`]). The simulator (`exec::sim`) runs whole plans by the same numbers, and
//! tests hold the sums against it (`tests/tuner.rs`).
//!
//! Inside a node the reader's core carries the bytes ([`Carrier::Reader`]), while memory and the
//! ways out of caches and sockets are shared; between nodes links carry them ([`Carrier::Wire`]),
//! and links are shared. Memory is that of a socket: NUMA nodes of a socket are not told apart.
//!
//! **Terms.** *Level*: the nearest thing two ranks share; *link*: something that carries the bytes
//! of one token at a time; *leaf*: the switch that a group of nodes hangs on; *site*: a machine and
//! its costs.
//!
//! Reference: A. Alexandrov et al., "LogGP: incorporating long messages into the LogP model",
//! J. Parallel Distrib. Comput. 44 (1997), doi:10.1006/jpdc.1997.1346, with one set of parameters
//! per level.

pub mod cached;
pub mod cluster;
pub mod costs;
pub mod forms;
pub mod links;
pub mod pairs;
pub mod parts;
pub mod seating;

pub use cached::Cached;
pub use cluster::{Cluster, Level};
pub use costs::{Carrier, Costs, LevelCost, LinesCost};
pub use links::{LinkPlace, Links};
pub use pairs::{LevelParts, NodePairs};
pub use seating::{CacheSeat, KnownSeat, SeatList, Seating};

use std::sync::Arc;

/// Where ranks are, and what hand-overs cost there.
#[derive(Clone, Debug, PartialEq)]
pub struct Site {
    /// Where the ranks are.
    pub machine: Cluster,
    /// The pairs of a node of it.
    pub pairs: Arc<NodePairs>,
    /// Whether plans see parts of a node, and all of a level have as many ranks.
    pub is_even: bool,
    /// Costs of all that ranks do.
    pub costs: Costs,
}

impl Site {
    /// A machine whose pairs are counted now.
    pub fn new(machine: &Cluster, costs: &Costs) -> Site {
        Site {
            machine: machine.clone(),
            pairs: Arc::new(NodePairs::of(machine)),
            is_even: parts::are_even(machine),
            costs: *costs,
        }
    }

    /// Prices these ranks at other costs.
    pub fn at(&self, costs: &Costs) -> Site {
        Site {
            costs: *costs,
            ..self.clone()
        }
    }
}
