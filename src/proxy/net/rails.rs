//! Over which devices connections go.

use crate::base::Rank;

/// The devices of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rail {
    /// Of the sender's node, by which it leaves.
    pub exit: usize,
    /// Of the receiver's node, to which it goes.
    pub entry: usize,
}

/// Chooses the devices of connections; the receiver takes whatever comes.
pub trait Rails: Send + Sync {
    /// Between these ranks on a channel; `None` where nothing prefers some devices to others.
    fn rail(&self, from: Rank, to: Rank, channel: u16) -> Option<Rail>;
}
