//! Over which devices connections go.

use super::Links;
use super::ends::Ends;
use crate::base::{Error, Rank, Result};
use crate::transport::net::Connecting;
use std::sync::{Arc, PoisonError};

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

impl Links {
    /// The same, over devices that `rails` chooses; without it channels take them in turn.
    pub fn over(mut self, rails: Option<Arc<dyn Rails>>) -> Links {
        self.ends.rails = rails;
        self
    }

    /// Over which devices this rank has begun to send: peer, channel and devices of each
    /// connection.
    pub fn rails(&self) -> Vec<(Rank, u16, Rail)> {
        let begun = self.ends.begun.lock();
        begun.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Ends {
    /// Begins to connect to `peer`: over the devices of its rail if they reach each other, else to
    /// the first device that is reached.
    ///
    /// # Errors
    /// Of the network; the peer has no device.
    pub(super) fn connect(&self, peer: Rank, channel: u16) -> Result<Box<dyn Connecting>> {
        let handles = &self.handles[peer.index()];
        let devices = self.net.devices().len();
        if handles.is_empty() {
            let what = format!("rank {peer} has no network device");
            return Err(Error::internal(what).with_peer(peer));
        }
        let turn = |count: usize| usize::from(channel) % count.max(1);
        let me = Rank(self.me as u32);
        let rail = self
            .rails
            .as_ref()
            .and_then(|it| it.rail(me, peer, channel));
        let known = |rail: &Rail| rail.exit < devices && rail.entry < handles.len();
        let wanted = rail.filter(known).unwrap_or(Rail {
            exit: turn(devices),
            entry: turn(handles.len()),
        });
        let reached = |&entry: &usize| self.net.reaches(wanted.exit, &handles[entry]);
        let mut entries = [wanted.entry].into_iter().chain(0..handles.len());
        let entry = entries.find(reached).unwrap_or(wanted.entry);
        let rail = Rail { entry, ..wanted };
        tracing::debug!(
            "rank {me} sends to rank {peer} on channel {channel} from {} to device {entry}",
            self.net.devices()[rail.exit].name
        );
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.push((peer, channel, rail));
        self.net.connect(rail.exit, &handles[entry])
    }
}
