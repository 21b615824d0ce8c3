//! Identifiers with a type of their own, so that a channel is never taken for a rank.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Position of a process or thread in a communicator: `0..nranks`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Rank(pub u32);

/// One independent copy of an algorithm with connections and a worker of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelId(pub u16);

impl Rank {
    /// The rank as an index into a table of `nranks` entries.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl ChannelId {
    /// The channel as an index.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for ChannelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
