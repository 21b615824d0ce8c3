//! Which plan for which size: the choice is a pure function of inputs that all ranks share.
//!
//! **Problem.** Which algorithm is fastest depends on size, ranks and machine. All ranks must
//! choose alike, and a call has no time to think.
//!
//! **Idea.** At init a [`Table`] is filled: for each collective and size class, the algorithm and
//! protocol whose expected time is least. A time comes from a measurement of this site
//! ([`measured`], written by `kolo tune`) where there is one, and from [`crate::price`], the costs
//! of the levels that are crossed, where not. Times may contradict each other (half of
//! the data takes longer than all of it); then the faster way is chosen for both ([`mend`]). A call
//! only reads the table; its *route* ([`route`]) says whether it is a plan, or shorter than one, or
//! several, and its *form* ([`form`]) which executor carries it out.
//!
//! Local facts (pointers, alignment) never enter: every rank must come to the same answer.
//!
//! **Terms.** *Size class*: the sizes between two powers of two. *Composition*: two collectives in
//! a row that do the work of one, taken where nothing else is faster. *Level*: the nearest thing
//! that two ranks share.
//!
//! Reference: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication
//! operations in MPICH", Int. J. High Perform. Comput. Appl. 19 (2005),
//! doi:10.1177/1094342005051521; the costs are those of LogGP (doi:10.1006/jpdc.1997.1346).

mod allowed;
pub mod asked;
mod decided;
pub mod device;
mod direct;
pub mod form;
#[doc(hidden)]
pub mod fuzz;
mod geometry;
mod grid;
mod inputs;
pub mod measured;
mod mend;
pub mod messages;
pub mod mpi_table;
mod placement;
mod predict;
mod protocol;
pub mod route;
pub mod stores;
mod table;
mod told;
mod usual;

pub use crate::plan::Cards;
pub use allowed::{Allowed, Rule};
pub use asked::{Asked, Called, Combining, OwnBlocks};
pub use decided::Decided;
pub use form::{CallForm, FormFacts};
pub use geometry::geometry;
pub use grid::{CLASSES, Cell, class_of};
pub use inputs::Inputs;
pub use measured::Measured;
pub use messages::is_small_message;
pub use placement::check_rules;
pub use predict::{Setting, predict};
pub use protocol::ProtocolChoice;
pub use route::Route;
pub use table::{Candidate, Table};
pub use told::ToldRoute;

use crate::plan::{Algorithm, Collective};

/// A way to run a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Its channels.
    pub channels: u16,
    /// The protocol of its tokens.
    pub protocol: ProtocolChoice,
    /// Run two collectives in a row instead, see [`parts`].
    pub composed: bool,
}

impl Choice {
    /// An algorithm for a collective, with the protocol that usually goes with it.
    #[inline]
    pub fn plain(collective: Collective, algorithm: Algorithm, channels: u16) -> Choice {
        Choice {
            algorithm,
            channels,
            protocol: ProtocolChoice::of(collective, algorithm),
            composed: false,
        }
    }

    /// The algorithm, its protocol and its channels in words.
    pub fn words(&self) -> String {
        let (algorithm, protocol) = (self.algorithm.name(), self.protocol.name());
        match self.channels {
            0 | 1 => format!("{algorithm}, protocol {protocol}"),
            many => format!("{algorithm}, protocol {protocol}, {many} channels"),
        }
    }
}

/// The collectives that do the work of one in a row, and whether each moves the blocks of all ranks
/// where the one counts a single block; nothing for those that are never composed.
pub fn parts(collective: Collective) -> &'static [(Collective, bool)] {
    match collective {
        Collective::AllReduce => &[(Collective::Reduce, false), (Collective::Broadcast, false)],
        Collective::AllGather => &[(Collective::Gather, false), (Collective::Broadcast, true)],
        Collective::Barrier => &[(Collective::AllReduce, false)],
        _ => &[],
    }
}
