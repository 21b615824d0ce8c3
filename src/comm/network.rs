//! Means of a communicator on several nodes: its connections, and its part in what nodes tell each
//! other.

use super::start::net::folding::Supported;
use crate::proxy::lookout::Lookout;
use crate::proxy::net::{Links, ProxiedSenders, drain};
use crate::proxy::service;
use crate::proxy::{Attended, Watch};
use crate::transport::fork;
use crate::transport::net::Properties;
use crate::transport::net::socket::SocketNet;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Means of a communicator on several nodes, besides memory.
pub(in crate::comm) struct Network {
    /// Connections to ranks on other nodes.
    pub links: Arc<Links>,
    /// Connections of other ranks of this node, if some send through this rank.
    pub proxied: Option<Arc<ProxiedSenders>>,
    /// Types and operations that the network folds, if it folds.
    pub folds: Option<Supported>,
    /// This rank is the lookout of its node.
    pub lookout: Option<Arc<Lookout>>,
    /// The devices that this rank uses.
    pub devices: BTreeSet<usize>,
    /// All ranks have several devices, which calls on few channels take in turn.
    pub takes_turns: bool,
    /// Which network carries the data, and why, in a sentence.
    pub why: String,
}

impl Network {
    /// Whether sockets carry the data.
    pub fn is_socket(&self) -> bool {
        self.links.net().name() == SocketNet::NAME
    }

    /// The devices that this rank uses.
    pub fn rails(&self) -> Vec<&Properties> {
        let devices = self.links.net().devices();
        self.devices
            .iter()
            .filter_map(|&at| devices.get(at))
            .collect()
    }

    /// Whether ranks of this node send through this one.
    pub fn sends_for_others(&self) -> bool {
        let proxied = self.proxied.as_ref();
        proxied.is_some_and(|proxied| proxied.has_open())
    }

    /// The process exits, and nothing of this rank is in flight: one look whether what it has
    /// handed over has arrived, and whether other nodes have heard of the end. Nothing is closed:
    /// functions behind this one may still make calls.
    pub fn end(&self, is_last: bool) -> bool {
        let has_arrived = drain::has_arrived(&self.links, is_last);
        let tells = || self.lookout.as_ref().is_none_or(|it| it.end(is_last));
        (has_arrived || is_last) && tells()
    }

    /// The rank is about to leave, and its `watch` to end.
    pub fn retire(&self, watch: &Watch) {
        if let Some(lookout) = &self.lookout {
            lookout.retire(watch);
        }
    }

    /// Ends it all: the other nodes are told that this rank has left. Connections that are not
    /// closed yet are given up.
    pub fn close(&self) {
        if fork::in_child_of_user() {
            return;
        }
        if let Some(lookout) = &self.lookout {
            lookout.leave();
        }
        if let Ok(service) = service::get() {
            service.dismiss(&(Arc::clone(&self.links) as Arc<dyn Attended>));
        }
        self.links.close(true);
    }

    /// When the communicator has stopped: nothing moves any more, and nothing touches the memory of
    /// callers.
    pub fn let_go(&self) {
        self.links.let_go();
        if let Some(proxied) = &self.proxied {
            proxied.give_up();
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.close();
    }
}
