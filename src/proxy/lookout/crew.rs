//! A lookout is given these when it is made.

use crate::base::Rank;
use crate::proxy::service::OnDeath;
use crate::transport::node::NodeMemory;
use std::collections::HashMap;

/// Parts of which a lookout is made.
pub struct Crew {
    /// This rank, the lowest of its node.
    pub me: Rank,
    /// The communicator.
    pub nonce: u128,
    /// The ranks of this node.
    pub mates: Vec<Rank>,
    /// The memory of this node.
    pub node: NodeMemory,
    /// Called when a node is lost.
    pub on_lost: OnDeath,
    /// `host (pid)` of the lookouts, by rank, for messages.
    pub places: HashMap<u32, String>,
}
