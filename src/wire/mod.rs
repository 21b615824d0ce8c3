//! Connections: how a token changes hands in memory that both ends can address.
//!
//! A connection has 8 lines, and a slot of payload behind each. [`pair`] connections have one
//! reader, [`cast`] and [`fan`] connections many. [`line`] is the hand-over itself, [`ll`] and
//! [`ll128`] are pairs whose payload says itself that it is there, [`layout`] says
//! where each connection lies in the shared memory of a node, [`board`] who does what, [`abort`]
//! why it has stopped, and [`reading`] who reads the buffers of others. [`signature`] packs what a
//! call is into the 8 bytes that travel with every token.

pub mod abort;
pub mod board;
pub mod cast;
pub mod doorbell;
pub mod fan;
pub mod layout;
pub mod line;
pub mod ll;
pub mod ll128;
pub mod pair;
pub mod reading;
pub mod signature;

use crate::base::Result;
use cast::CastMemory;
use ll::LinesMemory;
use pair::PairMemory;

/// Wakes ranks that sleep.
pub trait Bell: Send + Sync {
    /// Called after something was published for `local` (a local rank).
    fn ring(&self, local: usize);
    /// Called after something was published for all other ranks of the node.
    fn ring_others(&self);
}

/// Carries the tokens of pairs whose ends are on different nodes: the memory of such a pair lies on
/// both nodes, and somebody has to move what is in it.
pub trait Carrier: Send {
    /// Whether a rank is on another node.
    fn is_remote(&self, rank: usize) -> bool;
    /// `slots` slots will pass to (`is_send`) or from `peer` on a channel. What has the same number
    /// `launch` belongs together.
    fn expect(&self, launch: u64, peer: usize, channel: usize, is_send: bool, slots: u64);
    /// Whether what is sent on a channel is moved by another rank of the node.
    fn is_proxied(&self, channel: usize) -> bool;
    /// Whether payload may lie elsewhere than in slots.
    fn takes_parts(&self) -> bool;
    /// What the launch of this number has the network fold: the numbers of type and operation, and
    /// the bytes of an element.
    fn announce(&self, _launch: u64, _dtype: i32, _operation: i32, _element_bytes: usize) {}
    /// The payload of the token at slot count `position` from `peer`, if it has so many bytes, had
    /// best be put at `data`. That place is the carrier's until the token has been published, or
    /// the communicator has stopped.
    fn want(&self, peer: usize, channel: usize, position: u64, data: (*mut u8, usize));
}

/// Slots that a rank writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slots {
    /// Those of its pair connection to a rank.
    Pair {
        /// Who reads them.
        reader: usize,
        /// The connection's channel.
        channel: usize,
    },
    /// Those of its cast connection.
    Cast {
        /// The connection's channel.
        channel: usize,
    },
}

/// Where pair and cast connections come from, on first use. Errors say why there is none: ranks
/// that cannot reach each other, or memory that a limit stands before.
pub trait Source: Send {
    /// The memory of the cast connection of `writer`.
    ///
    /// # Errors
    /// See above.
    fn cast(&self, writer: usize, channel: usize) -> Result<CastMemory>;
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
    /// Makes sure that the first `bytes` bytes of each of these slots of this rank can be written.
    ///
    /// # Errors
    /// See above.
    fn reserve(&self, slots: Slots, bytes: usize) -> Result<()>;
}
