//! Making a communicator: ranks meet over a bootstrap, compare what must be equal, share memory.
//!
//! It goes through the phases of [`StartPhase`], which errors and warnings name. After the ranks
//! have met:
//!
//! 1. Every rank shows its version, its place on the machine, and its plan-shaping settings, or why
//!    it cannot begin; rank 0 shows a nonce ([`super::meet`]).
//! 2. Everybody compares: a difference is an error on every rank, with names and sources.
//! 3. Rank 0 tells what choices follow from, and each node its rings and trees ([`super::orders`])
//!    how its slots are written ([`super::stores`]), and who fences before bells.
//! 4. The ranks of the node share memory under the nonce.
//! 5. Limits are bound into tables; a barrier ends the initialisation.

use super::community;
use super::device;
use super::device::card::DeviceCard;
use super::executor::{exec, reach};
use super::heritage::Kin;
use super::layout::{head_offset, homes, layout, lengths};
use super::made::{Made, put_together};
use super::meet::{GraphText, Met, meet};
use super::orders::Speech;
use super::party::Party;
use super::{by_switch, net, orders, pinning, stores, summary, tuning};
use crate::base::birth::{Birth, StartPhase};
use crate::base::record::{self, Record};
use crate::base::starts::{self, Start};
use crate::base::{Error, Rank, Result};
use crate::bootstrap::Bootstrap;
use crate::comm::CommConfig;
use crate::comm::calling::tally;
use crate::comm::failing::deaths::Deaths;
use crate::comm::flight::turn::{self, IdleHook};
use crate::comm::logging::{self, Acting};
use crate::comm::network::Network;
use crate::comm::owned::Exec;
use crate::comm::queue::Queue;
use crate::config::Settings;
use crate::plan::Nodes;
use crate::price;
use crate::proxy::service::Address;
use crate::proxy::{self, LocalGroup, Watch};
use crate::topo::channels::{ChannelLimits, Channels, merge};
use crate::topo::{self, Crowding, RankPlace};
use crate::transport::futex::lets_others_fence;
use crate::transport::net::Net;
use crate::transport::node::NodeMemory;
use crate::transport::segment::{Nonce, Segment};
use crate::tune::Inputs;
use crate::tune::measured::MOST_BYTES;
use crate::tune::stores::Stores;
use crate::wire::doorbell::Fencing;
use crate::wire::layout::Layout;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

/// Means that a communicator may use besides its bootstrap.
#[derive(Default)]
pub(in crate::comm) struct Means {
    /// Lets the program's MPI make progress.
    pub idle: Option<IdleHook>,
    /// The network of the communicator that this one is split from.
    pub net: Option<Arc<dyn Net>>,
    /// Whether it may be made of what another one has ([`super::adopted`]).
    pub adopts: bool,
}

/// The nodes that plans are made for: those that there are, or parts of them. Ranks that share no
/// memory are never one node, for their plans would use it.
fn plan_nodes(settings: &Settings, places: &[RankPlace]) -> Nodes {
    let nodes = topo::nodes(places).node_of;
    let parts = if settings.levels() {
        parts(places)
    } else {
        Vec::new()
    };
    let Some(per_node) = settings.ranks_per_node() else {
        return Nodes::of(&nodes).with_parts(&parts);
    };
    let mut numbers = HashMap::new();
    let mut number = |part: (u32, u32)| {
        let next = numbers.len() as u32;
        *numbers.entry(part).or_insert(next)
    };
    let ranks = nodes.into_iter().zip(0..);
    let names: Vec<u32> = ranks
        .map(|(node, rank)| number((node, rank / per_node)))
        .collect();
    Nodes::of(&names).with_parts(&parts)
}

/// The places of all ranks, as settings want them seen: consecutive ranks may pretend to share what
/// they do not.
fn seen_places<'p>(settings: &Settings, places: &'p [RankPlace]) -> Cow<'p, [RankPlace]> {
    let pretended = (settings.ranks_per_cache(), settings.ranks_per_socket());
    if pretended == (None, None) {
        return Cow::Borrowed(places);
    }
    let mut seen = places.to_vec();
    for ranks in topo::nodes(places).ranks {
        for (local, rank) in (0..).zip(ranks) {
            let sharing = &mut seen[rank.index()].sharing;
            let part = |per_part: Option<u32>| per_part.map(|ranks| local / ranks);
            sharing.cache = part(pretended.0).or(sharing.cache);
            sharing.socket = part(pretended.1).or(sharing.socket);
        }
    }
    Cow::Owned(seen)
}

/// The cache and the socket of every rank, if all have one.
fn parts(places: &[RankPlace]) -> Vec<Vec<u32>> {
    let shared = places.iter().map(|place| place.sharing);
    let caches: Option<Vec<u32>> = shared.clone().map(|shared| shared.cache).collect();
    let sockets: Option<Vec<u32>> = shared.map(|shared| shared.socket).collect();
    caches.into_iter().chain(sockets).collect()
}

/// Facts that a rank tells the others, once they agree on their settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Proposal {
    /// Of rank 0 only.
    facts: Option<tuning::Facts>,
    /// Whether the slots of its node are written past the cache.
    streamed: bool,
    /// Whether the threads of its process pass fences that others ask for.
    fences: bool,
    orders: Speech,
    /// The switches above its node, if it speaks for it and knows them.
    address: String,
}

impl Record for Proposal {
    const NAME: &'static str = "what a rank proposes";
    const MOST_BYTES: usize = (1 << 20) + MOST_BYTES;
}

/// Results of the second exchange, in which the ranks agree on more than their settings.
struct Agreed {
    /// Inputs of the tuner, the order of ranks and nodes in plans, and how slots are written.
    chosen: (Inputs, Nodes, Stores),
    channels: Option<Channels>,
    /// Of the ranks of this node.
    fencing: Fencing,
}

/// Exchanges proposals and agrees on them: rank 0 tells facts for the tuner, and the lowest rank of
/// every node says in which orders its node wants to be passed and how its slots are written.
fn agree(
    bootstrap: &dyn Bootstrap,
    settings: &Settings,
    places: &[RankPlace],
    graph: Option<&GraphText>,
    crowding: Crowding,
) -> Result<Agreed> {
    let me = bootstrap.rank();
    let local = topo::local_places(me, places);
    let lowest = local.first().map_or(me, |place| place.rank);
    let streamed = me == lowest && stores::decide(settings, &local, crowding) == Stores::Streamed;
    let places = &seen_places(settings, places)[..];
    let nodes = plan_nodes(settings, places);
    let (orders, problem) = orders::say(me, settings, graph, places, &nodes);
    let mine = record::encode(&Proposal {
        facts: (me == Rank(0)).then(|| tuning::seen(settings, crowding)),
        streamed,
        fences: settings.membarrier() && lets_others_fence(),
        orders,
        address: by_switch::say(me, settings, places, &nodes),
    });
    let said = bootstrap.all_gather(&mine);
    // The own error says more than that of an exchange that failed because of it.
    problem.map_or(Ok(()), Err)?;
    let said = said?.once(record::decode_all::<Proposal>)?;
    let kind = match said[lowest.index()].streamed {
        true => Stores::Streamed,
        false => Stores::Cached,
    };
    let fencing = match local.iter().all(|place| said[place.rank.index()].fences) {
        true => Fencing::Sleeper,
        false => Fencing::Publisher,
    };
    let facts = said[0].facts.as_ref().ok_or_else(|| {
        Error::internal("rank 0 did not tell the facts for the tuner").with_peer(Rank(0))
    })?;
    let inputs = tuning::heard(facts, settings, places)?;
    // Where prices see no parts, as nodes differ, plans see none either.
    let nodes = if price::parts::are_seen(&inputs.setting.machine) {
        nodes
    } else {
        nodes.with_parts(&[])
    };
    let addresses: Vec<&str> = said.iter().map(|said| said.address.as_str()).collect();
    let nodes = by_switch::heard(&addresses, places, nodes)?;
    let orders: Vec<&Speech> = said.iter().map(|said| &said.orders).collect();
    let (nodes, channels) = orders::heard(&orders, settings, places, nodes)?;
    Ok(Agreed {
        chosen: (inputs, nodes, kind),
        channels,
        fencing,
    })
}

/// Decodes `bytes` as a proposal, for `tests/fuzz`.
pub(in crate::comm) fn fuzz(bytes: &[u8]) -> (&'static str, bool) {
    if let Ok(Proposal {
        orders: Speech::Graph(graph),
        ..
    }) = record::decode(bytes)
    {
        let _ = merge(&[graph], ChannelLimits::default());
    }
    record::fuzz::<Proposal>(bytes)
}

/// The memory that the ranks of this node share, and the watch over their processes.
fn share_memory(
    bootstrap: &dyn Bootstrap,
    places: &[RankPlace],
    nonce: u128,
    (layout, fencing): (Layout, Fencing),
    deaths: &Arc<Deaths>,
) -> Result<(NodeMemory, Shared)> {
    let my_rank = bootstrap.rank();
    let group = LocalGroup {
        my_rank,
        ranks: topo::local_places(my_rank, places)
            .iter()
            .map(|place| (place.rank, place.pid))
            .collect(),
        node: places[my_rank.index()].host.clone(),
    };
    let on_death = deaths.callback("died");
    let nonce = Nonce(nonce);
    let joined = proxy::join(bootstrap, &group, nonce, lengths(&layout), on_death)?;
    joined.watch.at_end(deaths.at_end());
    let memory = (Arc::clone(&joined.segment), joined.lease);
    let (offset, me) = (head_offset(&layout), my_rank.index());
    // SAFETY: the segment has the layout's head and parts behind its confirmation lines, zeroed.
    let node = unsafe { NodeMemory::of(memory, offset, layout, me) }
        .fenced_by(fencing)
        .homed_at(homes(my_rank, places));
    let shared = Shared {
        segment: joined.segment,
        watch: joined.watch,
        services: joined.services,
    };
    Ok((node, shared))
}

/// Shared things of the ranks of this node, besides the memory that connections see.
struct Shared {
    segment: Arc<Segment>,
    watch: Watch,
    services: Vec<Address>,
}

impl Shared {
    /// Collects the facts and memory that children of the communicator are made of, where all ranks
    /// are on one node.
    fn kin(
        &self,
        (places, nodes, stores): (&[RankPlace], &Nodes, Stores),
        deaths: &Arc<Deaths>,
        devices: Option<&[DeviceCard]>,
    ) -> Kin {
        Kin {
            places: places.to_vec(),
            services: self.services.clone(),
            nodes: nodes.clone(),
            stores,
            segment: Arc::clone(&self.segment),
            first: Arc::clone(deaths),
            in_first: places.iter().map(|place| place.rank).collect(),
            devices: devices.map(<[DeviceCard]>::to_vec),
        }
    }
}

/// The network to other nodes, and what folds in it, if there are any.
fn connect(
    party: &Party,
    watch: &Watch,
    deaths: &Arc<Deaths>,
    nodes: &Nodes,
) -> Result<Option<Network>> {
    let mut network = net::meet(party, watch, deaths.callback("cannot be reached"))?;
    if let Some(network) = &mut network {
        net::fold(network, party, nodes)?;
    }
    Ok(network)
}

/// Returns when all ranks are as far as this one.
fn all_ready(bootstrap: &dyn Bootstrap, communicator: &Arc<Queue>, birth: &Birth) -> Result<()> {
    let met = || {
        birth.enter(StartPhase::Ending)?;
        community::send_for_others(communicator)?;
        bootstrap.barrier()
    };
    // Some may be through already, and would hear only that this rank has left.
    met().inspect_err(|error| communicator.stop(error))?;
    birth.end();
    Ok(())
}

/// The first parts of a process: its log, and then the bootstrap.
pub(in crate::comm) fn begin(settings: &Result<Settings>, rank: Rank) {
    if let Ok(settings) = settings {
        let host = topo::host_name();
        let host = host.split('.').next().unwrap_or(&host);
        logging::install(settings, host, rank);
    }
    starts::note(Start::Bootstrap);
}

/// All phases but the first, with the settings of this rank or why it has none.
pub(in crate::comm) fn with_settings(
    bootstrap: &dyn Bootstrap,
    settings: Result<Settings>,
    config: &CommConfig,
    means: Means,
    birth: &Birth,
) -> Result<Arc<Queue>> {
    let (rank, nranks) = (bootstrap.rank(), bootstrap.nranks());
    let (_timed, _acting) = (tally::waiting("CommInit"), Acting::rank(rank));
    begin(&settings, rank);
    birth.enter(StartPhase::Comparing)?;
    let Met {
        settings,
        graph,
        mark,
        known,
    } = meet(bootstrap, settings, config.device)?;
    let (places, nonce, devices) = (&known.places, known.nonce, known.devices.as_deref());
    logging::settle(rank, places);
    birth.enter(StartPhase::Agreeing)?;
    let local = topo::local_places(rank, places);
    let is_one_node = local.len() == places.len();
    let crowding = topo::crowding(&local);
    let agreed = agree(bootstrap, &settings, places, graph.as_ref(), crowding)?;
    let (inputs, nodes, kind) = agreed.chosen;
    let memory = (layout(&settings, nranks, is_one_node), agreed.fencing);
    birth.enter(StartPhase::Sharing)?;
    let deaths = Arc::<Deaths>::default();
    let (node, shared) = share_memory(bootstrap, places, nonce, memory, &deaths)?;
    birth.enter(StartPhase::Reaching)?;
    let party = Party {
        bootstrap,
        settings: &settings,
        places,
        node: &node,
        nonce,
        inherited: means.net,
        channels: agreed.channels.map(Arc::new),
        stages: device::stages(&settings, devices, is_one_node)?,
        registrations: Arc::default(),
    };
    let has_kin = is_one_node && nodes.count() == 1;
    let kin = has_kin.then(|| shared.kin((places, &nodes, kind), &deaths, devices));
    let direct = reach(&party, shared.services.clone(), mark, &known.marks)?;
    birth.enter(StartPhase::Connecting)?;
    let network = connect(&party, &shared.watch, &deaths, &nodes)?;
    birth.enter(StartPhase::Binding)?;
    let devices = (devices, network.as_ref());
    let device = device::make(&party, devices, &shared.services, &inputs)?;
    let made = Made {
        exec: Exec {
            device,
            ..exec(&party, (inputs, nodes, kind), direct, network.as_ref())
        },
        watch: Some(Arc::new(shared.watch)),
        crowding,
        pinning: pinning::settle(&party, &local, network.as_ref())?,
        network,
        deaths,
        kin,
        idle: means.idle.or_else(turn::known),
        name: config.name.clone(),
    };
    let communicator = put_together(&party, made);
    all_ready(bootstrap, &communicator, birth)?;
    summary::tell(&communicator, config);
    // What peers that were faster have done since is for the first call to report.
    Ok(communicator)
}
