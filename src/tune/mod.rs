//! Which plan for which size: the choice is a pure function of inputs that all ranks share.
//!
//! **Idea.** At init a [`Table`] is filled: for each collective and size class, the algorithm whose
//! expected time is least. A time comes from a measurement of this site ([`measured`], written by
//! `kolo tune`) where there is one, and from closed forms over the costs of the levels that are
//! crossed ([`model`]) where not. What contradicts itself is mended ([`mend`]). A call only reads
//! the table.
//!
//! Local facts (pointers, alignment) never enter: every rank must come to the same answer.
//!
//! **Terms.** *Size class*: the sizes between two powers of two. *Composition*: two collectives in
//! a row that do the work of one, taken where nothing else is faster.

mod allowed;
mod geometry;
pub mod measured;
mod mend;
mod model;
mod table;
mod usual;

pub use allowed::{Allowed, Rule};
pub use geometry::geometry;
pub use measured::Measured;
pub use model::{Setting, predict};
pub use table::{CLASSES, Candidate, Cell, Inputs, Table, class_of};

use crate::plan::{Algorithm, Collective};

/// How a slot says that it is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Protocol {
    /// Slots with a head and a tail count.
    Simple,
    /// One token with its signature and sequence: the one-shot path.
    Eager,
    /// Lines whose sequence travels with the payload; known, but no algorithm uses them yet.
    Ll,
    /// The same with lines of 128 bytes; known, but no algorithm uses them yet.
    Ll128,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Protocol; 4] = [
        Protocol::Simple,
        Protocol::Eager,
        Protocol::Ll,
        Protocol::Ll128,
    ];

    /// The name in settings.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Simple => "simple",
            Protocol::Eager => "eager",
            Protocol::Ll => "ll",
            Protocol::Ll128 => "ll128",
        }
    }
}

/// What to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Its channels.
    pub channels: u16,
    /// The protocol of its tokens.
    pub protocol: Protocol,
    /// Run two collectives in a row instead, see [`parts`].
    pub composed: bool,
}

impl Choice {
    /// An algorithm for a collective, with the protocol that goes with it.
    #[inline]
    pub fn plain(collective: Collective, algorithm: Algorithm, channels: u16) -> Choice {
        Choice {
            algorithm,
            channels,
            protocol: Protocol::of(collective, algorithm),
            composed: false,
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
