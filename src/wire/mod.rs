//! Connections: how a token changes hands in memory that both ends can address.
//!
//! **Problem.** A writer and its readers must agree that data are there, and that they have been
//! read, with as few transfers of cache lines as there can be, and without a barrier between calls.
//!
//! **Idea.** A connection has one writer and is first in, first out. What publishes a token is
//! one store, into the line where its small payload lies too; counts never go back to 0, so an
//! old line never looks new. [`pair`] connections have one reader, [`cast`] and [`fan`]
//! connections many; each has 8 slots for larger payload. [`line`] is the hand-over itself; in
//! [`ll`] and [`ll128`] the payload says itself that it is there. [`backing`] is the memory
//! behind all that. In [`ports`] are a rank's ends of any of them. [`layout`] says where each
//! connection lies in the shared memory of a node, [`doorbell`] wakes who sleeps.
//!
//! [`gpu`] has the connections of devices, which kernels read and write.
//!
//! Beside data: [`board`] says who does what, [`abort`] why the communicator has stopped,
//! [`reading`] who reads the buffers of others, [`carrier`] who moves tokens between nodes.
//! [`signature`] packs what a call is into the 8 bytes that travel with every token.
//!
//! **Terms.** *Token*: what is published at once. *Line*: its cache line. *Slot*: a buffer for
//! payload. *Credit*: what readers have given back. *Fan*: one writer and all ranks of a node, for
//! small calls. *Cast*: the same for any size.
//!
//! Reference: J. Giacomoni, T. Moseley, M. Vachharajani, "FastForward for efficient pipeline
//! parallelism: a cache-optimized concurrent lock-free queue", PPoPP 2008,
//! doi:10.1145/1345206.1345215, where the slot itself says that it is full.

pub mod abort;
pub mod backing;
pub mod board;
pub mod carrier;
pub mod cast;
pub mod doorbell;
pub mod fan;
pub mod gpu;
pub mod layout;
pub mod line;
pub mod ll;
pub mod ll128;
pub mod pair;
pub mod port;
pub mod ports;
pub mod reading;
pub mod signature;
pub mod stage;
pub mod taken;

use crate::base::Result;
use cast::CastMemory;
use ll::LinesMemory;
use pair::PairMemory;
use std::ops::Range;

/// Wakes ranks that sleep.
pub trait Bell: Send + Sync {
    /// Called after something was published for `local` (a local rank).
    fn ring(&self, local: usize);
    /// Called after something was published for all other ranks of the node.
    fn ring_others(&self);
}

/// Memory that a rank writes payload into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slots {
    /// The slots of its pair connection to a rank.
    Pair {
        /// Who reads them.
        reader: usize,
        /// The connection's channel.
        channel: usize,
    },
    /// The small places of its pair connection to a rank, but for those on the page of the lines.
    Small {
        /// Who reads them.
        reader: usize,
        /// The connection's channel.
        channel: usize,
    },
    /// The words of its flagged lines to a rank.
    Words {
        /// Who reads them.
        reader: usize,
        /// The connection's channel.
        channel: usize,
        /// The number of the encoding.
        encoding: usize,
    },
    /// Those of its cast connection.
    Cast {
        /// The connection's channel.
        channel: usize,
        /// Which of the casts of this rank.
        cast: usize,
    },
}

/// Where pair and cast connections come from, on first use. Errors say why there is none: ranks
/// that cannot reach each other, or memory that a limit stands before.
pub trait Source: Send {
    /// The memory of a cast connection of `writer`: number `cast` of them.
    ///
    /// # Errors
    /// See above.
    fn cast(&self, writer: usize, channel: usize, cast: usize) -> Result<CastMemory>;
    /// The memory of flagged lines from one rank to another, in encoding number `encoding` (0 LL,
    /// 1 LL128).
    ///
    /// # Errors
    /// See above.
    fn lines(
        &self,
        writer: usize,
        reader: usize,
        channel: usize,
        encoding: usize,
    ) -> Result<LinesMemory>;
    /// The memory of the pair connection.
    ///
    /// # Errors
    /// See above.
    fn pair(&self, writer: usize, reader: usize, channel: usize) -> Result<PairMemory>;
    /// Makes sure that all small places of a pair can be written: where somebody writes them who
    /// asks for none of them before.
    ///
    /// # Errors
    /// See above.
    fn take_small(&self, writer: usize, reader: usize, channel: usize) -> Result<()>;
    /// Makes sure that these bytes of the slots of this rank can be written, counted from the
    /// beginning of the first slot. Returns a number that grows with every such request of the
    /// process.
    ///
    /// # Errors
    /// See above.
    fn reserve(&self, slots: Slots, place: Range<usize>) -> Result<u64>;
    /// Gives the memory behind all of these slots of this rank back, `bytes` of which have been
    /// reserved. False where it stays.
    fn give_back(&self, slots: Slots, bytes: usize) -> bool;
}
