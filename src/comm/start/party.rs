//! The ranks of a communicator whose network is not open yet: what is known of them.

use crate::base::Rank;
use crate::bootstrap::Bootstrap;
use crate::comm::registrations::{NoneLasting, Registrations};
use crate::config::{self, Settings};
use crate::proxy::net::{Setup, Taking};
use crate::topo::channels::Channels;
use crate::topo::{self, RankPlace};
use crate::transport::gpu::Stages;
use crate::transport::net::Net;
use crate::transport::node::NodeMemory;
use crate::wire::stage::StageSource;
use std::sync::Arc;

/// Channels between ranks: of those of a layout, the others lead to a network that folds.
pub(in crate::comm) fn plain_channels(settings: &Settings, channels: usize) -> usize {
    match settings.collnet_enable() {
        true => channels / 2,
        false => channels,
    }
}

/// Facts about the ranks that are known before the network is open.
pub(in crate::comm) struct Party<'a> {
    pub bootstrap: &'a dyn Bootstrap,
    pub settings: &'a Settings,
    pub places: &'a [RankPlace],
    pub node: &'a NodeMemory,
    pub nonce: u128,
    /// The network of the communicator that this one is split from.
    pub inherited: Option<Arc<dyn Net>>,
    /// Channels that the searches of all nodes found.
    pub channels: Option<Arc<Channels>>,
    /// Where the connections of devices to other nodes lie.
    pub stages: Option<Arc<Stages>>,
    /// Buffers that the program will register.
    pub registrations: Arc<Registrations>,
}

impl Party<'_> {
    /// The ranks of this rank's node, in order.
    pub fn mates(&self) -> Vec<Rank> {
        topo::local_ranks(self.bootstrap.rank(), self.places)
    }

    /// Collects the inputs of the engine that moves what `sender`, a rank of this node, sends.
    pub fn setup(&self, net: Arc<dyn Net>, sender: Rank) -> Setup {
        let layout = *self.node.layout();
        let mates = self.mates();
        let is_remote = |place: &RankPlace| mates.binary_search(&place.rank).is_err();
        Setup {
            net,
            source: Box::new(self.node.clone()),
            stages: self.stages.clone().map(|it| it as Arc<dyn StageSource>),
            bell: Box::new(self.node.clone()),
            me: sender,
            channels: layout.channels,
            nonce: self.nonce,
            is_remote: self.places.iter().map(is_remote).collect(),
            slot_bytes: layout.slot_bytes,
            slice: 1,
            taking: Taking {
                every: self.settings.proxy_append_every(),
                batch: self.settings.proxy_append_batch() as usize,
            },
            lasting: if self.settings.direct() {
                self.registrations.clone()
            } else {
                Arc::new(NoneLasting)
            },
        }
    }

    /// Returns the channels that the search found, unless devices are taken by the numbers of
    /// channels.
    pub fn searched(&self) -> Option<&Arc<Channels>> {
        let by_rule = self.settings.pxn() != config::Pxn::Never;
        self.channels.as_ref().filter(|_| !by_rule)
    }
}
