//! Making a communicator: ranks meet over a bootstrap, compare what must be equal, share memory.
//!
//! 1. Every rank shows its version, its place on the machine, and its plan-shaping settings, or why
//!    it cannot begin; rank 0 shows a nonce ([`super::meet`]).
//! 2. Everybody compares: a difference is an error on every rank, with names and sources.
//! 3. Rank 0 tells what choices follow from, and each node its rings and trees ([`super::orders`]).
//! 4. The ranks of the node share memory under the nonce.
//! 5. Limits are bound into tables; a barrier ends the initialisation.

use super::direct::Direct;
use super::meet::{GraphText, Met, machine, meet};
use super::redop::Kernels;
use super::state::{self, Exec, IdleHook, Inner, WaitSetup};
use super::{CommConfig, Communicator, orders, tuning};
use crate::base::float_env::FloatEnv;
use crate::base::{Error, Rank, Result};
use crate::bootstrap::{Bootstrap, Launch, NetSettings, TcpRing, UniqueId};
use crate::config::{self, Settings};
use crate::exec::Wires;
use crate::exec::launch;
use crate::exec::messages::{Contributors, Messages};
use crate::plan::{Cache, Geometry, Nodes};
use crate::proxy::{self, LocalGroup, OnDeath};
use crate::topo::{self, Crowding, RankPlace, WaitPolicy};
use crate::transport::node::NodeMemory;
use crate::transport::segment::{Nonce, Segment};
use crate::tune::{Inputs, Table};
use crate::wire::layout::Layout;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, Weak};

/// Bytes of an eager slot, and so the most that the one-shot path takes.
pub(super) const EAGER_BYTES: usize = 32 << 10;

/// The settings of a new communicator, unless the caller has failed to say what it wants.
fn settings(config: &CommConfig) -> Result<Settings> {
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
    if let Ok(settings) = &settings {
        // What the ranks wait for while they meet is told too.
        let host = topo::host_name();
        super::logging::install(settings, host.split('.').next().unwrap_or(&host));
    }
    let join = || {
        // Without settings of its own the rank joins with those that are built in, to tell the
        // others; its own error counts whatever comes of that.
        let net = match &settings {
            Ok(settings) => NetSettings::from(settings),
            Err(error) if nranks == 1 => return Err(error.clone()),
            Err(_) => NetSettings::default(),
        };
        match (TcpRing::connect(id, rank, nranks, &net), settings) {
            (Ok(bootstrap), settings) => with_settings(&bootstrap, settings, config, None),
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
        None => over(&*launch.connect(&net)?, config, None),
    }
}

/// Joins over a bootstrap.
pub(super) fn over(
    bootstrap: &dyn Bootstrap,
    config: &CommConfig,
    idle: Option<IdleHook>,
) -> Result<Communicator> {
    let _program = FloatEnv::hold();
    let made = with_settings(bootstrap, settings(config), config, idle);
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
    let members = crate::bootstrap::ThreadsBootstrap::group(nranks);
    let threads: Vec<_> = members
        .into_iter()
        .map(|member| {
            let config = config.clone();
            std::thread::spawn(move || over(&member, &config, None))
        })
        .collect();
    threads
        .into_iter()
        .map(|thread| {
            thread
                .join()
                .unwrap_or_else(|_| Err(Error::internal("initialising panicked")))
        })
        .collect()
}

/// One machine only, for now: says which ranks are where.
fn require_one_node(me: Rank, places: &[RankPlace]) -> Result<()> {
    if topo::local_ranks(me, places).len() == places.len() {
        return Ok(());
    }
    let other = places
        .iter()
        .find(|p| !topo::local_ranks(me, places).contains(&p.rank));
    let (mine, other) = (&places[me.index()], other.unwrap_or(&places[0]));
    Err(Error::usage(
        format!(
            "rank {} is on {} and rank {} on {}: this version connects the ranks of one machine",
            mine.rank, mine.host, other.rank, other.host
        ),
        "split the communicator by node, or start all ranks on one node",
    ))
}

/// `KOLO_SHM_DISABLE` leaves no way between processes of one machine, for now.
fn require_transport(me: Rank, settings: &Settings, places: &[RankPlace]) -> Result<()> {
    let here = places[me.index()].pid;
    let Some(other) = places.iter().find(|place| place.pid != here) else {
        return Ok(());
    };
    if !settings.shm_disable() {
        return Ok(());
    }
    Err(Error::usage(
        format!(
            "shm_disable is set, and this version has no other transport between processes \
             (rank {} is process {}, rank {} process {})",
            me, here, other.rank, other.pid
        ),
        "unset KOLO_SHM_DISABLE (NCCL_SHM_DISABLE); `kolo info --config` says where it is set",
    )
    .with_peer(other.rank))
}

fn layout(settings: &Settings, nranks: u32) -> Layout {
    Layout {
        ranks: nranks as usize,
        channels: settings.max_nchannels().max(1) as usize,
        slot_bytes: slot_bytes(settings),
        eager_bytes: EAGER_BYTES,
    }
}

/// Bytes of a slot of a Simple connection.
pub(super) fn slot_bytes(settings: &Settings) -> usize {
    let slots = Geometry::SLOTS as usize;
    (settings.buffsize() as usize / slots).next_multiple_of(4096)
}

/// The nodes that plans are made for.
fn plan_nodes(settings: &Settings, places: &[RankPlace]) -> Nodes {
    match settings.ranks_per_node() {
        Some(per_node) => Nodes::every(places.len() as u32, per_node),
        None => Nodes::of(&topo::nodes(places).node_of),
    }
}

/// What plans and choices follow from: rank 0 tells facts for the tuner, and the lowest rank of
/// every node in which orders it wants to be passed.
fn agree(
    bootstrap: &dyn Bootstrap,
    settings: &Settings,
    places: &[RankPlace],
    graph: Option<&GraphText>,
    crowding: Crowding,
) -> Result<(Inputs, Nodes)> {
    let me = bootstrap.rank();
    let nodes = plan_nodes(settings, places);
    let (orders, problem) = orders::say(me, settings, graph, places, &nodes);
    let facts = tuning::say(me, settings, crowding);
    let mut mine = (facts.len() as u64).to_le_bytes().to_vec();
    mine.extend(facts);
    mine.extend(orders);
    let said = bootstrap.all_gather(&mine);
    // The own error says more than that of an exchange that failed because of it.
    problem.map_or(Ok(()), Err)?;
    let mut facts = Vec::new();
    let mut orders = Vec::with_capacity(places.len());
    for (rank, said) in (0..).map(Rank).zip(said?) {
        let parts = said.split_first_chunk::<8>();
        let parts = parts.and_then(|(length, rest)| {
            rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)
        });
        let (first, second) = parts.ok_or_else(|| {
            Error::internal("a rank told about itself in a way that cannot be read").with_peer(rank)
        })?;
        if rank == Rank(0) {
            facts = first.to_vec();
        }
        orders.push(second.to_vec());
    }
    let inputs = tuning::heard(&facts, settings, places)?;
    Ok((inputs, orders::heard(&orders, settings, places, nodes)?))
}

fn wait_setup(settings: &Settings, policy: WaitPolicy) -> WaitSetup {
    let (spins, yields) = match policy {
        WaitPolicy::Spin => (500, 20_000),
        WaitPolicy::Yield => (0, 2_000),
        WaitPolicy::Sleep => (0, 10),
    };
    WaitSetup {
        spins: settings.spin_count().unwrap_or(spins),
        yields: settings.yield_count().unwrap_or(yields),
        warn_after: settings.warn_after().unwrap_or_default(),
        timeout: settings.timeout().unwrap_or_default(),
    }
}

/// The memory that the ranks of this node share, and the watch over their processes.
fn share_memory(
    bootstrap: &dyn Bootstrap,
    places: &[RankPlace],
    nonce: u128,
    layout: Layout,
    cell: &Arc<Mutex<Weak<Inner>>>,
) -> Result<(NodeMemory, proxy::Joined)> {
    let my_rank = bootstrap.rank();
    let group = LocalGroup {
        my_rank,
        ranks: places.iter().map(|place| (place.rank, place.pid)).collect(),
        node: places[my_rank.index()].host.clone(),
    };
    let offset = Segment::user_offset(group.ranks.len());
    let length = offset + layout.total();
    let on_death = death_callback(Arc::clone(cell));
    let joined = proxy::join(bootstrap, &group, Nonce(nonce), length, on_death)?;
    let segment = Arc::clone(&joined.segment);
    // SAFETY: the segment has `layout.total()` zeroed bytes behind its confirmation lines, at a
    // page boundary, and stays mapped as long as the `Arc` lives.
    let node = unsafe {
        let base = segment.as_ptr().add(offset);
        NodeMemory::new(base, layout, my_rank.index(), segment)
    };
    Ok((node, joined))
}

/// Connections, tables and kernels of a rank.
fn exec(
    settings: &Settings,
    rank: Rank,
    nodes: Nodes,
    inputs: Inputs,
    node: &NodeMemory,
    direct: Direct,
) -> Exec {
    let nranks = inputs.nranks;
    let layout = *node.layout();
    let wiring = (rank.index(), nranks as usize, layout.channels);
    let wires = Wires::new(
        wiring,
        node.fans(),
        Box::new(node.clone()),
        Box::new(node.clone()),
    );
    let flip = settings.fault_flip().filter(|flip| flip.rank == rank.0);
    Exec {
        wires,
        direct,
        stream_bytes: launch::stream_bytes(inputs.oversubscribed),
        table: Table::new(inputs),
        plans: Cache::new(state::PLANS + state::PLANS_PER_RANK * nranks as usize),
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
        barrier_word: vec![0],
        steps_planned: 0,
        buffer_bytes: layout.slot_bytes * Geometry::SLOTS as usize,
        eager_bytes: EAGER_BYTES,
        rank: rank.0,
        nranks,
        flip: flip.map(|flip| (flip.call, flip.slot)),
    }
}

fn with_settings(
    bootstrap: &dyn Bootstrap,
    settings: Result<Settings>,
    config: &CommConfig,
    idle: Option<IdleHook>,
) -> Result<Communicator> {
    let (rank, nranks) = (bootstrap.rank(), bootstrap.nranks());
    let Met {
        settings,
        places,
        nonce,
        graph,
        mark,
        marks,
    } = meet(bootstrap, settings)?;
    super::logging::install(&settings, &places[rank.index()].host);
    require_one_node(rank, &places)?;
    require_transport(rank, &settings, &places)?;
    let local = topo::local_places(rank, &places);
    let crowding = topo::crowding(&local);
    let (inputs, nodes) = agree(bootstrap, &settings, &places, graph.as_ref(), crowding)?;
    let layout = layout(&settings, nranks);

    let cell: Arc<Mutex<Weak<Inner>>> = Arc::default();
    let (node, joined) = share_memory(bootstrap, &places, nonce, layout, &cell)?;
    let private = super::cma::agree(bootstrap, &settings, &places, &marks, &joined.services)?;
    let direct = Direct::new(rank.index(), Nonce(nonce), joined.services, mark, private);
    let exec = exec(&settings, rank, nodes, inputs, &node, direct);
    let policy = topo::wait_policy(crowding, wait_policy_setting(&settings));
    let spare_core = crowding.cores > crowding.ranks;
    let inner = Arc::new(Inner {
        rank: rank.0,
        nranks,
        name: config
            .name
            .clone()
            .unwrap_or_else(|| format!("{:08x}", nonce as u32)),
        places: places
            .iter()
            .map(|p| format!("{} (pid {})", p.host, p.pid))
            .collect(),
        node,
        wait: wait_setup(&settings, policy),
        check_calls: settings.check(),
        idle,
        exec: super::lock::OwnerLock::new(exec),
        stopped: AtomicBool::new(false),
        blocked_on: AtomicU32::new(rank.0),
        blocked_in: AtomicU64::new(0),
        failure: Mutex::new(None),
        destroyed: AtomicBool::new(false),
        made_ops: Mutex::new(HashMap::new()),
        finalized: AtomicBool::new(false),
        next_op: AtomicU32::new(0),
        thread_progress: match settings.progress() {
            config::Progress::Thread => true,
            config::Progress::Inline => false,
            config::Progress::Auto => spare_core,
        },
        pinning: pinning(&settings, &places[rank.index()], &local)?,
        watch: Mutex::new(Some(joined.watch)),
        settings,
    });
    *cell
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner) = Arc::downgrade(&inner);
    bootstrap.barrier()?;
    // What peers that were faster have done since is for the first call to report.
    Ok(Communicator { inner })
}

fn pinning(settings: &Settings, me: &RankPlace, local: &[&RankPlace]) -> Result<topo::Pinning> {
    let wanted = match settings.affinity() {
        config::Affinity::None => topo::PinSetting::Off,
        _ => topo::PinSetting::Auto,
    };
    Ok(topo::Pinning::decide(
        machine(settings)?,
        me,
        local,
        None,
        &wanted,
    ))
}

fn wait_policy_setting(settings: &Settings) -> Option<WaitPolicy> {
    match settings.wait() {
        config::Wait::Auto => None,
        config::Wait::Spin => Some(WaitPolicy::Spin),
        config::Wait::Yield => Some(WaitPolicy::Yield),
        config::Wait::Sleep => Some(WaitPolicy::Sleep),
    }
}

/// What the service thread calls when the process of some ranks has ended.
fn death_callback(cell: Arc<Mutex<Weak<Inner>>>) -> OnDeath {
    Arc::new(move |ranks: &[Rank], description: &str| {
        let cell = cell
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let (Some(inner), Some(first)) = (cell.upgrade(), ranks.first()) else {
            return;
        };
        let names: Vec<String> = ranks.iter().map(|rank| rank.to_string()).collect();
        let word = if ranks.len() == 1 { "rank" } else { "ranks" };
        inner.stop(&Error::remote(
            *first,
            format!("{word} {} died: {description}", names.join(", ")),
            "look for the reason in that rank's output; end the job, or make a new communicator \
             without it",
        ));
    })
}
