//! Through which ranks of its node a rank sends, and what it does for those who send through it.

use crate::base::{Rank, Result};
use crate::comm::start::meet::machine;
use crate::comm::start::party::{Party, plain_channels};
use crate::config;
use crate::proxy::net::{Handles, Links, ProxiedSenders, Rails, Setup};
use crate::proxy::service::{ProxyRank, Watch};
use crate::topo::{self, Pxn, ways};
use crate::transport::net::{Net, Properties};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

/// The rank through which this one sends on each channel, if not by itself: the proxy that the
/// search, or a graph file, names for the channel; or by the rule that the setting `pxn` names.
pub(super) fn proxies(party: &Party, net: &dyn Net) -> Result<Vec<Option<Rank>>> {
    let channels = plain_channels(party.settings, party.node.layout().channels);
    let rule = match party.settings.pxn() {
        config::Pxn::Never => None,
        config::Pxn::Nearer => Some(Pxn::Nearer),
        config::Pxn::Always => Some(Pxn::Always),
    };
    let hindrance = match () {
        () if party.settings.pxn_disable() => "pxn_disable is set".to_string(),
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
    let me = party.bootstrap.rank();
    let proxies: Vec<Option<Rank>> = match rule {
        Some(rule) => {
            let by_device = by_rule(party, net, rule)?;
            let of_channel = |channel: usize| by_device[channel % by_device.len()];
            (0..channels).map(of_channel).collect()
        }
        None => {
            let found = party.channels.as_ref();
            let of_channel = |channel: usize| ways::proxy(found?, me, channel);
            (0..channels).map(of_channel).collect()
        }
    };
    for proxy in proxies.iter().flatten().collect::<BTreeSet<_>>() {
        tracing::info!("rank {me} sends through rank {proxy}");
    }
    Ok(proxies)
}

/// The rank through which this one sends over each device, if not by itself.
fn by_rule(party: &Party, net: &dyn Net, rule: Pxn) -> Result<Vec<Option<Rank>>> {
    let machine = machine(party.settings)?;
    let me = party.bootstrap.rank();
    let place = &party.places[me.index()];
    let near = |device: &Properties| {
        let path = device.pci_path.as_deref()?;
        topo::near_devices(machine, place, &[path], &|path| machine.told_near(path))
    };
    let near: Vec<_> = net.devices().iter().map(near).collect();
    let local = topo::local_places(me, party.places);
    Ok(topo::proxy_ranks(me, &local, &near, rule))
}

/// Makes the sending half of the connections of `senders`, ranks of this node that send through
/// this rank. `None` if there are no such ranks.
pub(super) fn proxied(
    party: &Party,
    senders: BTreeSet<Rank>,
    (net, handles): (&Arc<dyn Net>, &Arc<[Handles]>),
    rails: Option<Arc<dyn Rails>>,
    watch: &Watch,
) -> Option<Arc<ProxiedSenders>> {
    if senders.is_empty() {
        return None;
    }
    let setups = senders.iter();
    let setups = setups.map(|&rank| (rank, party.setup(Arc::clone(net), rank)));
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
