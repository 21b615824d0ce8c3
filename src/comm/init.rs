//! Making a communicator: ranks meet over a bootstrap, compare what must be equal, share memory.
//!
//! 1. Every rank shows its version, its place on the machine, and its plan-shaping settings, or why
//!    it cannot begin; rank 0 shows a nonce ([`super::meet`]).
//! 2. Everybody compares: a difference is an error on every rank, with names and sources.
//! 3. Rank 0 tells what choices follow from, and each node its rings and trees ([`super::orders`])
//!    and how its slots are written ([`super::stores`]).
//! 4. The ranks of the node share memory under the nonce.
//! 5. Limits are bound into tables; a barrier ends the initialisation.

use super::cma::Private;
use super::deaths::Deaths;
use super::direct::Direct;
use super::kin::Kin;
use super::logging::{self, Acting, Progress};
use super::made::{Made, put_together};
use super::meet::{GraphText, Met, meet};
use super::net::Network;
use super::redop::Kernels;
use super::state::{self, Exec, IdleHook};
use super::{CommConfig, Communicator, net, orders, pinning, stores, summary, tuning};
use crate::base::float_env::FloatEnv;
use crate::base::starts::{self, Start};
use crate::base::{Error, Rank, Result};
use crate::bootstrap::{Bootstrap, Launch, NetSettings, TcpRing, ThreadsBootstrap, UniqueId};
use crate::config::Settings;
use crate::exec::Wires;
use crate::exec::launch;
use crate::exec::messages::{Contributors, Messages};
use crate::plan::{Cache, Geometry, Nodes};
use crate::proxy::service::Address;
use crate::proxy::{self, LocalGroup, Watch};
use crate::topo::channels::Channels;
use crate::topo::{self, Crowding, RankPlace};
use crate::transport::cma::Mark;
use crate::transport::net::Net;
use crate::transport::node::NodeMemory;
use crate::transport::segment::{Nonce, Segment};
use crate::tune::stores::Stores;
use crate::tune::{Inputs, Table};
use crate::wire::layout::Layout;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;

/// Bytes of an eager slot, and so the most that the one-shot path takes.
pub(super) const EAGER_BYTES: usize = 32 << 10;

/// What a communicator may use besides its bootstrap.
#[derive(Default)]
pub(super) struct Means {
    /// Lets the program's MPI make progress.
    pub idle: Option<IdleHook>,
    /// The network of the communicator that this one is split from.
    pub net: Option<Arc<dyn Net>>,
}

/// The settings of a new communicator, unless the caller has failed to say what it wants.
pub(super) fn settings(config: &CommConfig) -> Result<Settings> {
    if let Some(error) = &config.refused {
        return Err(error.clone());
    }
    Settings::load(&caller_layer(config))
}

/// The caller's layer of the settings.
fn caller_layer(config: &CommConfig) -> Vec<(String, String)> {
    let mut layer = config.overrides.clone();
    let numbers = [
        ("min_nchannels", config.min_channels),
        ("max_nchannels", config.max_channels),
    ];
    for (key, value) in numbers {
        layer.extend(value.map(|value| (key.to_string(), value.to_string())));
    }
    layer
}

/// Joins by unique id, for the caller's call.
pub(super) fn over_tcp(
    call: &'static str,
    nranks: u32,
    id: &UniqueId,
    rank: u32,
    config: &CommConfig,
) -> Result<Communicator> {
    // Estimating times is not the program's arithmetic.
    let _program = FloatEnv::hold();
    let settings = settings(config);
    // What the ranks wait for while they meet is told too.
    begin(&settings, Rank(rank));
    let join = || {
        // Without settings of its own the rank joins with those that are built in, to tell the
        // others; its own error counts whatever comes of that.
        let net = match &settings {
            Ok(settings) => NetSettings::from(settings),
            Err(error) if nranks == 1 => return Err(error.clone()),
            Err(_) => NetSettings::default(),
        };
        match (TcpRing::connect(id, rank, nranks, &net), settings) {
            (Ok(bootstrap), settings) => {
                with_settings(&bootstrap, settings, config, Means::default())
            }
            (Err(_), Err(error)) | (Err(error), Ok(_)) => Err(error),
        }
    };
    join().map_err(|error| error.at(Rank(rank)).during(call))
}

/// Joins the ranks that `find` finds this process among.
pub(super) fn launched(
    call: &'static str,
    find: impl FnOnce(&NetSettings) -> Result<Launch>,
    config: &CommConfig,
) -> Result<Communicator> {
    // With settings that are wrong here, this rank meets the others all the same, to tell them.
    let net = settings(config).map_or_else(|_| NetSettings::default(), |s| NetSettings::from(&s));
    let launch = find(&net).map_err(|error| error.during(call))?;
    match &launch.id {
        Some(id) => over_tcp(call, launch.nranks, id, launch.rank, config),
        None => over(&*launch.connect(&net)?, config, Means::default()),
    }
}

/// Joins over a bootstrap.
pub(super) fn over(
    bootstrap: &dyn Bootstrap,
    config: &CommConfig,
    means: Means,
) -> Result<Communicator> {
    let _program = FloatEnv::hold();
    let made = with_settings(bootstrap, settings(config), config, means);
    made.map_err(|error| error.at(bootstrap.rank()).during("CommInit"))
}

/// All ranks as threads of this process.
pub(super) fn all_threads(nranks: u32, config: &CommConfig) -> Result<Vec<Communicator>> {
    if nranks == 0 {
        return Err(Error::argument(
            "a communicator of 0 ranks",
            "ask for at least one rank",
        ));
    }
    let members = ThreadsBootstrap::group(nranks);
    let start = |member: ThreadsBootstrap| {
        let config = config.clone();
        let builder = std::thread::Builder::new();
        builder.spawn(move || over(&member, &config, Means::default()))
    };
    // A rank that cannot start lets go of its place, which the others hear of.
    let threads: io::Result<Vec<_>> = members.into_iter().map(start).collect();
    let threads = threads.map_err(|error| {
        let what = format!("could not start a thread for each of {nranks} ranks");
        Error::system(what, &error, crate::proxy::service::THREADS_SHORT).during("CommInitAll")
    })?;
    threads
        .into_iter()
        .map(|thread| {
            thread
                .join()
                .unwrap_or_else(|_| Err(Error::internal("initialising panicked")))
        })
        .collect()
}

/// The first parts of a process: its log, and then the bootstrap.
fn begin(settings: &Result<Settings>, rank: Rank) {
    if let Ok(settings) = settings {
        let host = topo::host_name();
        let host = host.split('.').next().unwrap_or(&host);
        logging::install(settings, host, rank);
    }
    starts::note(Start::Bootstrap);
}

pub(super) fn layout(settings: &Settings, nranks: u32, is_one_node: bool) -> Layout {
    let spare_bytes = match is_one_node {
        true => 0,
        false => proxy::net::SPARE_BYTES,
    };
    // What a network folds has connections of its own.
    let folds = match settings.collnet_enable() && !is_one_node {
        true => 2,
        false => 1,
    };
    Layout {
        ranks: nranks as usize,
        channels: settings.max_nchannels().max(1) as usize * folds,
        slot_bytes: slot_bytes(settings) + spare_bytes,
        eager_bytes: EAGER_BYTES,
    }
}

/// Where the layout begins in the memory of a node: behind the confirmation lines.
pub(super) fn head_offset(layout: &Layout) -> usize {
    Segment::user_offset(layout.ranks)
}

/// Bytes of the head of the memory of a node, and of all of it.
pub(super) fn lengths(layout: &Layout) -> (usize, usize) {
    let offset = head_offset(layout);
    (offset + layout.head(), offset + layout.total())
}

/// Bytes of a slot of a Simple connection.
pub(super) fn slot_bytes(settings: &Settings) -> usize {
    let slots = Geometry::SLOTS as usize;
    (settings.buffsize() as usize / slots).next_multiple_of(4096)
}

/// The nodes that plans are made for: those that there are, or parts of them. Ranks that share no
/// memory are never one node, for their plans would use it.
fn plan_nodes(settings: &Settings, places: &[RankPlace]) -> Nodes {
    let nodes = topo::nodes(places).node_of;
    let Some(per_node) = settings.ranks_per_node() else {
        return Nodes::of(&nodes);
    };
    let mut numbers = HashMap::new();
    let mut number = |part: (u32, u32)| {
        let next = numbers.len() as u32;
        *numbers.entry(part).or_insert(next)
    };
    let parts = nodes.into_iter().zip(0..);
    let names: Vec<u32> = parts
        .map(|(node, rank)| number((node, rank / per_node)))
        .collect();
    Nodes::of(&names)
}

/// What plans and choices follow from: rank 0 tells facts for the tuner, and the lowest rank of
/// every node in which orders it wants to be passed and how its slots are written.
fn agree(
    bootstrap: &dyn Bootstrap,
    settings: &Settings,
    places: &[RankPlace],
    graph: Option<&GraphText>,
    crowding: Crowding,
) -> Result<((Inputs, Nodes, Stores), Option<Channels>)> {
    let me = bootstrap.rank();
    let local = topo::local_places(me, places);
    let lowest = local.first().map_or(me, |place| place.rank);
    let streamed = me == lowest && stores::decide(settings, &local, crowding) == Stores::Streamed;
    let nodes = plan_nodes(settings, places);
    let (orders, problem) = orders::say(me, settings, graph, places, &nodes);
    let facts = tuning::say(me, settings, crowding);
    let mut mine = (facts.len() as u64).to_le_bytes().to_vec();
    mine.extend(facts);
    mine.push(u8::from(streamed));
    mine.extend(orders);
    let said = bootstrap.all_gather(&mine);
    // The own error says more than that of an exchange that failed because of it.
    problem.map_or(Ok(()), Err)?;
    let (mut facts, mut kind) = (Vec::new(), Stores::Streamed);
    let mut orders = Vec::with_capacity(places.len());
    for (rank, said) in (0..).map(Rank).zip(said?) {
        let parts = said.split_first_chunk::<8>();
        let parts = parts.and_then(|(length, rest)| {
            rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)
        });
        let parts = parts.and_then(|(first, rest)| Some((first, rest.split_first()?)));
        let (first, (&streamed, second)) = parts.ok_or_else(|| {
            Error::internal("a rank told about itself in a way that cannot be read").with_peer(rank)
        })?;
        if rank == Rank(0) {
            facts = first.to_vec();
        }
        if rank == lowest && streamed == 0 {
            kind = Stores::Cached;
        }
        orders.push(second.to_vec());
    }
    let inputs = tuning::heard(&facts, settings, places)?;
    let (nodes, channels) = orders::heard(&orders, settings, places, nodes)?;
    Ok(((inputs, nodes, kind), channels))
}

/// The memory that the ranks of this node share, and the watch over their processes.
fn share_memory(
    bootstrap: &dyn Bootstrap,
    places: &[RankPlace],
    nonce: u128,
    layout: Layout,
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
    let memory = (Arc::clone(&joined.segment), joined.lease);
    let (offset, me) = (head_offset(&layout), my_rank.index());
    // SAFETY: the segment has the layout's head and parts behind its confirmation lines, zeroed.
    let node = unsafe { NodeMemory::of(memory, offset, layout, me) };
    let shared = Shared {
        segment: joined.segment,
        watch: joined.watch,
        services: joined.services,
    };
    Ok((node, shared))
}

/// What the ranks of this node share besides the memory as connections see it.
struct Shared {
    segment: Arc<Segment>,
    watch: Watch,
    services: Vec<Address>,
}

/// Connections, tables and kernels of a rank.
pub(super) fn exec(
    party: &net::Party,
    (mut inputs, nodes, kind): (Inputs, Nodes, Stores),
    direct: Direct,
    network: Option<&Network>,
) -> Exec {
    if network.is_some_and(Network::is_socket) {
        tuning::over_sockets(&mut inputs);
    }
    let (settings, node, rank) = (party.settings, party.node, party.bootstrap.rank());
    let nranks = inputs.nranks;
    let layout = *node.layout();
    let wiring = (rank.index(), nranks as usize, layout.channels);
    let (source, bell) = (Box::new(node.clone()), Box::new(node.clone()));
    let mut wires = Wires::new(wiring, node.fans(), source, bell);
    wires.place_on(net::plain_channels(settings, layout.channels));
    wires.carried = network.map_or_else(Default::default, |it| net::carried(&it.links));
    let flip = settings.fault_flip().filter(|flip| flip.rank == rank.0);
    let turns = match network.is_some_and(|network| network.takes_turns) {
        true => wires.channels(),
        false => 1,
    };
    Exec {
        wires,
        folds: network.and_then(|network| network.folds),
        direct,
        stream_bytes: match kind {
            Stores::Cached => usize::MAX,
            Stores::Streamed => launch::stream_bytes(inputs.oversubscribed),
        },
        table: Table::remembered(inputs),
        // A plan whose connections take channels in turn is there once for each.
        plans: Cache::new(
            (state::PLANS + state::PLANS_PER_RANK * nranks as usize) * usize::from(turns),
        ),
        small_steps: state::small_steps(rank.0, &nodes),
        nodes,
        kernels: Kernels::new(nranks),
        messages: Messages::default(),
        contributors: Contributors::default(),
        sources: Vec::with_capacity(nranks as usize),
        exact: Default::default(),
        queue: VecDeque::new(),
        spare: None,
        latest: super::op::Latest::new(nranks as usize * layout.channels),
        calls: 0,
        past: Default::default(),
        barrier_word: vec![0],
        steps_planned: 0,
        direct_calls: 0,
        buffer_bytes: slot_bytes(settings) * Geometry::SLOTS as usize,
        eager_bytes: EAGER_BYTES,
        rank: rank.0,
        nranks,
        turns,
        flip: flip.map(|flip| (flip.call, flip.slot)),
        #[cfg(test)]
        panic_in: None,
        #[cfg(test)]
        refuses_to_bind: None,
    }
}

/// How the buffers of the other ranks are reached, where all are on one node.
fn reach(
    party: &net::Party,
    services: Vec<Address>,
    mark: Mark,
    marks: &[Vec<u8>],
) -> Result<Direct> {
    let net::Party {
        bootstrap,
        settings,
        places,
        ..
    } = *party;
    let private = match services.len() == places.len() {
        true => super::cma::agree(bootstrap, settings, places, marks, &services)?,
        false => None,
    };
    Ok(direct(party, services, mark, private))
}

pub(super) fn direct(
    party: &net::Party,
    services: Vec<Address>,
    mark: Mark,
    private: Option<Private>,
) -> Direct {
    let me = party.bootstrap.rank().index();
    Direct::new(me, Nonce(party.nonce), services, mark, private)
}

/// The network to other nodes, and what folds in it, if there are any.
fn connect(
    party: &net::Party,
    watch: &Watch,
    deaths: &Arc<Deaths>,
    nodes: &Nodes,
) -> Result<Option<Network>> {
    let mut network = party.meet(watch, deaths.callback("cannot be reached"))?;
    if let Some(network) = &mut network {
        network.fold(party, nodes)?;
    }
    Ok(network)
}

/// Returns when all ranks are as far as this one.
fn all_ready(bootstrap: &dyn Bootstrap, communicator: &Communicator) -> Result<()> {
    communicator.inner.send_for_others()?;
    // Some may be through already, and would hear only that this rank has left.
    let met = bootstrap.barrier();
    met.inspect_err(|error| communicator.inner.stop(error))
}

fn with_settings(
    bootstrap: &dyn Bootstrap,
    settings: Result<Settings>,
    config: &CommConfig,
    means: Means,
) -> Result<Communicator> {
    let (rank, nranks) = (bootstrap.rank(), bootstrap.nranks());
    let _acting = Acting::rank(rank);
    begin(&settings, rank);
    let Met {
        settings,
        places,
        nonce,
        graph,
        mark,
        marks,
    } = meet(bootstrap, settings)?;
    logging::settle(rank, &places);
    let mut progress = Progress::first();
    let local = topo::local_places(rank, &places);
    let is_one_node = local.len() == places.len();
    let crowding = topo::crowding(&local);
    let ((inputs, nodes, kind), channels) =
        agree(bootstrap, &settings, &places, graph.as_ref(), crowding)?;
    let layout = layout(&settings, nranks, is_one_node);
    progress.done();
    let deaths = Arc::<Deaths>::default();
    let (node, shared) = share_memory(bootstrap, &places, nonce, layout, &deaths)?;
    progress.done();
    let party = net::Party {
        bootstrap,
        settings: &settings,
        places: &places,
        node: &node,
        nonce,
        inherited: means.net,
        channels: channels.map(Arc::new),
    };
    let kin = (is_one_node && nodes.count() == 1).then(|| Kin {
        places: places.clone(),
        services: shared.services.clone(),
        nodes: nodes.clone(),
        stores: kind,
        segment: shared.segment,
        first: Arc::clone(&deaths),
        in_first: (0..nranks).map(Rank).collect(),
    });
    let direct = reach(&party, shared.services, mark, &marks)?;
    progress.done();
    let network = connect(&party, &shared.watch, &deaths, &nodes)?;
    progress.done();
    let made = Made {
        exec: exec(&party, (inputs, nodes, kind), direct, network.as_ref()),
        watch: Some(Arc::new(shared.watch)),
        crowding,
        pinning: pinning::settle(&party, &local, network.as_ref())?,
        network,
        deaths,
        kin,
        idle: means.idle,
        name: config.name.clone(),
    };
    let communicator = put_together(&party, made);
    all_ready(bootstrap, &communicator)?;
    progress.done();
    summary::tell(&communicator);
    // What peers that were faster have done since is for the first call to report.
    Ok(communicator)
}
