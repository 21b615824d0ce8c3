//! Words in which a rank tells all others about its network.

use crate::base::Rank;
use crate::base::record::{self, Record};
use crate::transport::net::Handle;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Facts about its network that a rank tells the others.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    /// The name of its network.
    pub name: String,
    /// Where the lookout of its node listens, if it is the one; empty if not.
    pub lookout: Handle,
    /// Ranks of its node through which it sends.
    pub proxies: BTreeSet<Rank>,
    /// The device of each port of its node, or [`NO_DEVICE`].
    pub ports: Vec<u8>,
    /// How its devices are reached.
    pub handles: Vec<Handle>,
}

/// Stands for a port that is none of the network's devices.
pub const NO_DEVICE: u8 = u8::MAX;

/// Nothing of a rank that can use no network.
impl Record for Option<Said> {
    const NAME: &'static str = "what a rank tells about its network";
}

/// Decodes `bytes` as such facts, for `tests/fuzz`.
pub fn fuzz(bytes: &[u8]) -> (&'static str, bool) {
    record::fuzz::<Option<Said>>(bytes)
}
