//! Through which ranks of its node a rank sends, and what it does for those who send through it.

use super::{Party, plain_channels};
use crate::base::{Error, Rank, Result};
use crate::comm::start::meet::machine;
use crate::comm::failing::fault;
use crate::comm::state::Inner;
use crate::config;
use crate::proxy::net::proxied::Owner;
use crate::proxy::net::{Handles, Links, ProxiedSenders, Rails, Setup};
use crate::proxy::service::{self, Alarm, ProxyRank, Watch};
use crate::topo::{self, Pxn};
use crate::transport::net::{Net, Properties};
use crate::transport::node::NodeMemory;
use crate::transport::segment::Nonce;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, Weak};

impl Party<'_> {
    /// The rank through which this one sends on each channel, if not by itself: the proxy that the
    /// search, or a graph file, names for the channel; or by the rule that the setting `pxn` names.
    pub(super) fn proxies(&self, net: &dyn Net) -> Result<Vec<Option<Rank>>> {
        let channels = plain_channels(self.settings, self.node.layout().channels);
        let rule = match self.settings.pxn() {
            config::Pxn::Never => None,
            config::Pxn::Nearer => Some(Pxn::Nearer),
            config::Pxn::Always => Some(Pxn::Always),
        };
        let hindrance = match () {
            () if self.settings.pxn_disable() => "pxn_disable is set".to_string(),
            () if !net.any_thread() => {
                let name = net.name();
                format!("only threads of the program may use network {name}")
            }
            () => String::new(),
        };
        if !hindrance.is_empty() {
            if rule.is_some() {
                tracing::info!("pxn has no effect: {hindrance}");
            }
            return Ok(vec![None; channels]);
        }
        let me = self.bootstrap.rank();
        let proxies: Vec<Option<Rank>> = match rule {
            Some(rule) => {
                let by_device = self.by_rule(net, rule)?;
                let of_channel = |channel: usize| by_device[channel % by_device.len()];
                (0..channels).map(of_channel).collect()
            }
            None => {
                let found = self.channels.as_ref();
                let of_channel = |channel: usize| found?.proxy(me, channel);
                (0..channels).map(of_channel).collect()
            }
        };
        for proxy in proxies.iter().flatten().collect::<BTreeSet<_>>() {
            tracing::info!("rank {me} sends through rank {proxy}");
        }
        Ok(proxies)
    }

    /// The rank through which this one sends over each device, if not by itself.
    fn by_rule(&self, net: &dyn Net, rule: Pxn) -> Result<Vec<Option<Rank>>> {
        let machine = machine(self.settings)?;
        let me = self.bootstrap.rank();
        let place = &self.places[me.index()];
        let near = |device: &Properties| {
            let path = device.pci_path.as_deref()?;
            topo::near_devices(machine, place, &[path], &|path| machine.told_near(path))
        };
        let near: Vec<_> = net.devices().iter().map(near).collect();
        let local = topo::local_places(me, self.places);
        Ok(topo::proxy_ranks(me, &local, &near, rule))
    }

    /// Makes the sending half of the connections of `senders`, ranks of this node that send through
    /// this rank. `None` if there are no such ranks.
    pub(super) fn proxied(
        &self,
        senders: BTreeSet<Rank>,
        (net, handles): (&Arc<dyn Net>, &Arc<[Handles]>),
        rails: Option<Arc<dyn Rails>>,
        watch: &Watch,
    ) -> Option<Arc<ProxiedSenders>> {
        if senders.is_empty() {
            return None;
        }
        let setups = senders.iter();
        let setups = setups.map(|&rank| (rank, self.setup(Arc::clone(net), rank)));
        let setups: Mutex<BTreeMap<Rank, Setup>> = Mutex::new(setups.collect());
        let handles = Arc::clone(handles);
        let make = move |from: Rank| {
            let mut setups = setups.lock().unwrap_or_else(PoisonError::into_inner);
            let links = Links::sending(setups.remove(&from)?, Arc::clone(&handles));
            Some(links.over(rails.clone()))
        };
        let proxied = Arc::new(ProxiedSenders::new(senders, Box::new(make)));
        watch.serve(Arc::clone(&proxied) as Arc<dyn ProxyRank>);
        Some(proxied)
    }
}

/// The communicator, as engines for others see it. They may outlive it here, while those others
/// still use it.
struct Community {
    inner: Weak<Inner>,
    rank: u32,
    /// Where each rank runs, for messages.
    places: Vec<String>,
    nonce: Nonce,
    node: NodeMemory,
}

impl Community {
    fn alarm(&self, why: Alarm) {
        if let Ok(service) = service::get() {
            service.alarm(self.nonce, why);
        }
    }

    /// Returns the error to tell the others when this rank has left. `None` if all know more
    /// already.
    fn after_leaving(&self, mut error: Error) -> Option<Error> {
        let place = |peer: Rank| self.places.get(peer.index());
        let peer = error.peer.filter(|&peer| place(peer).is_some());
        match fault::news(&self.node, peer, || self.alarm(Alarm::Ask)) {
            fault::News::Aborted => return None,
            fault::News::Left(peer) => {
                let waiting = error.rank.unwrap_or(Rank(self.rank));
                let gone = (
                    peer,
                    &*self.places[peer.index()],
                    self.node.board(peer.index()),
                );
                return Some(fault::left(gone, (waiting, "a call")));
            }
            fault::News::None => {}
        }
        if let Some(peer) = peer {
            let place = &self.places[peer.index()];
            error.what = format!("no data pass to rank {peer} on {place}: {}", error.what);
        }
        Some(error)
    }
}

impl Owner for Community {
    fn is_stopped(&self) -> bool {
        self.node.aborted()
    }

    fn failed(&self, error: Error) {
        let inner = self.inner.upgrade();
        let member = inner.filter(|inner| !inner.ending.destroyed.load(Ordering::Acquire));
        if let Some(inner) = member {
            if !inner.is_stopped()
                && let Some(error) = fault::of_network(&inner, error)
            {
                inner.stop(&error);
            }
            return;
        }
        // This rank has left, but those who send through it must know.
        if let Some(error) = self.after_leaving(error) {
            self.node.abort(self.rank, &error);
            self.alarm(Alarm::Abort);
        }
    }
}

impl Inner {
    /// Gets ready for what other ranks of the node send through this one, if any do.
    ///
    /// # Errors
    /// If there can be no progress thread.
    pub(in crate::comm) fn send_for_others(self: &Arc<Inner>) -> Result<()> {
        let network = self.network.as_ref();
        let Some(proxied) = network.and_then(|network| network.proxied.as_ref()) else {
            return Ok(());
        };
        proxied.belong_to(Arc::new(Community {
            inner: Arc::downgrade(self),
            rank: self.rank,
            places: self.places.clone(),
            nonce: self.nonce,
            node: self.node.clone(),
        }));
        if self.want_thread() {
            return Ok(());
        }
        Err(Error::new(
            crate::base::Code::SystemError,
            "no progress thread could be started, which would send for other ranks of the node",
            "raise the limit on processes (`ulimit -u`, or pids.max of the job's control group), \
             or set pxn to never",
        ))
    }
}
