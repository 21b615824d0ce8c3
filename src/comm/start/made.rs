//! A communicator is put together: from nothing ([`super::init`]), or for a child of another one
//! ([`super::kin`]).

use super::heritage::Kin;
use super::living;
use super::party::Party;
use crate::base::Rank;
use crate::comm::CommDevice;
use crate::comm::calling::processes::Processes;
use crate::comm::calling::tally;
use crate::comm::failing::deaths::Deaths;
use crate::comm::failing::whereabouts::Whereabouts;
use crate::comm::failing::{report, shown};
use crate::comm::flight::drive;
use crate::comm::flight::relief;
use crate::comm::flight::turn::IdleHook;
use crate::comm::health::{Blocked, Ending, Health};
use crate::comm::identity::{CallsSeen, CommName, Identity, WaitSetup};
use crate::comm::network::Network;
use crate::comm::owned::Exec;
use crate::comm::queue::{MadeOps, Queue};
use crate::config::{self, Settings};
use crate::proxy::progress::{PATIENCE, Work};
use crate::proxy::{Watch, asked};
use crate::topo::{self, Crowding, RankPlace, WaitPolicy};
use crate::transport::segment::Nonce;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Parts that have been made for a communicator, before they are put together.
pub(in crate::comm) struct Made {
    pub exec: Exec,
    pub watch: Option<Arc<Watch>>,
    pub crowding: Crowding,
    pub pinning: topo::Pinning,
    pub network: Option<Network>,
    pub deaths: Arc<Deaths>,
    pub kin: Option<Kin>,
    pub idle: Option<IdleHook>,
    pub name: Option<String>,
}

/// Puts it together from what `party` knows and what was made for it.
pub(in crate::comm) fn put_together(party: &Party, mut made: Made) -> Arc<Queue> {
    let Party {
        bootstrap,
        settings,
        places,
        node,
        nonce,
        ..
    } = *party;
    let (rank, deaths) = (bootstrap.rank().0, Arc::clone(&made.deaths));
    if settings.report() {
        let (of, has_other_nodes) = ((Rank(rank), places), made.network.is_some());
        tally::begin(|| Processes::new(of, (node, Nonce(nonce)), has_other_nodes));
    }
    let carrier = made.exec.device.as_ref().and_then(|on| on.carrier.clone());
    let identity = identity(party, &mut made);
    let noting = identity.noting(node, made.network.as_ref());
    let thread_progress = thread_progress(settings, made.network.as_ref());
    let health = Health {
        identity,
        node: node.clone(),
        network: made.network,
        whereabouts: Arc::new(Whereabouts::new(noting)),
        ending: Ending::default(),
        blocked: Blocked {
            on: AtomicU32::new(rank),
            call: AtomicU64::new(0),
        },
        watch: Mutex::new(made.watch),
        _deaths: Arc::clone(&deaths),
    };
    let queue = Arc::new(Queue {
        health,
        exec: crate::comm::flight::lock::OwnerLock::new(made.exec),
        ops: MadeOps::default(),
        registrations: Arc::clone(&party.registrations),
        has_sent: AtomicBool::new(false),
        thread_progress,
        kin: made.kin,
        _idle: made.idle,
    });
    deaths.hand_over(&queue);
    relief::show(&queue);
    living::show(&queue);
    if let Some(carrier) = carrier {
        let work: Arc<dyn Work> = queue.clone();
        let bound = carrier.bind(Arc::downgrade(&work), drive::want_thread());
        // Its first call says why.
        let _ = bound.inspect_err(|error| queue.stop(error));
    }
    show(settings, &queue);
    report::show(&queue);
    shown::show(&queue.whereabouts);
    queue
}

/// Who this rank is.
fn identity(party: &Party, made: &mut Made) -> Identity {
    let Party {
        bootstrap,
        settings,
        places,
        nonce,
        ..
    } = *party;
    let rank = bootstrap.rank().0;
    let name = made.name.take().or_else(|| bootstrap.name());
    let (compared, traced, tallied) = (settings.check(), is_traced(settings), settings.report());
    let is_noted = settings.on_signal() == config::OnSignal::Report;
    Identity {
        rank,
        nranks: bootstrap.nranks(),
        name: CommName::new(name, nonce),
        settings: settings.clone(),
        device: match made.exec.device.as_deref() {
            None => CommDevice::Host,
            Some(on) => CommDevice::Cuda(on.engine.device()),
        },
        places: places.iter().map(RankPlace::to_string).collect(),
        process_mates: process_mates(rank, places),
        nonce: Nonce(nonce),
        wait: wait_setup(settings, made.crowding),
        seen: CallsSeen {
            compared,
            traced,
            tallied,
            at_all: compared || traced || tallied || is_noted,
        },
        pinning: made.pinning.clone(),
        idle: made.idle.clone(),
    }
}

fn process_mates(rank: u32, places: &[RankPlace]) -> Vec<u32> {
    let mine = &places[rank as usize];
    let others = places.iter().filter(|place| place.rank != mine.rank);
    let mates = others.filter(|place| place.shares_process(mine));
    mates.map(|place| place.rank.0).collect()
}

/// Whoever asks sees what is under way here.
fn show(settings: &Settings, queue: &Queue) {
    let Some(network) = &queue.network else {
        return;
    };
    let proxied = network.proxied.as_ref().map(Arc::downgrade);
    let links = Arc::downgrade(&network.links);
    asked::show(&queue.name, links, proxied.unwrap_or_default());
    if let Some(signal) = settings.dump_signal() {
        asked::on(signal);
    }
}

/// Whether each call is a line of the log.
fn is_traced(settings: &Settings) -> bool {
    settings.debug() == config::DebugLevel::Trace && tracing::enabled!(tracing::Level::TRACE)
}

/// Most time of the processor between the first yield and the first sleep: waking up again takes a
/// hundredth of it.
const MOST_YIELDING: Duration = Duration::from_millis(4);
/// How often the progress thread looks in vain where a rank computes on its core.
const CROWDED_LOOKS: u32 = 2;

fn wait_setup(settings: &Settings, crowding: Crowding) -> WaitSetup {
    let named = wait_policy_setting(settings);
    let policy = topo::wait_policy(crowding, named);
    let (spins, yields) = match (policy, named) {
        // Whoever names one of these wants polls, however long it takes.
        (WaitPolicy::Spin, Some(_)) => (500, WaitSetup::NO_SLEEP),
        (WaitPolicy::Yield, Some(_)) => (0, WaitSetup::NO_SLEEP),
        (WaitPolicy::Spin, None) => (500, 20_000),
        (WaitPolicy::Yield, None) => (0, 2_000),
        (WaitPolicy::Sleep, _) => (0, 10),
    };
    WaitSetup {
        policy,
        crowding,
        spins: settings.spin_count().unwrap_or(spins),
        yields: settings.yield_count().unwrap_or(yields),
        yields_for: match settings.yield_count() {
            Some(_) => Duration::MAX,
            None => MOST_YIELDING,
        },
        thread_looks: match crowding.cores > crowding.ranks {
            true => PATIENCE,
            false => CROWDED_LOOKS,
        },
        warn_after: settings.warn_after().unwrap_or_default(),
        timeout: settings.timeout().unwrap_or_default(),
    }
}

/// Whether the progress thread moves calls in flight while no caller does.
fn thread_progress(settings: &Settings, network: Option<&Network>) -> bool {
    let may = network.is_none_or(|network| network.links.net().any_thread());
    may && settings.progress() != config::Progress::Inline
}

fn wait_policy_setting(settings: &Settings) -> Option<WaitPolicy> {
    match settings.wait() {
        config::Wait::Auto => None,
        config::Wait::Spin => Some(WaitPolicy::Spin),
        config::Wait::Yield => Some(WaitPolicy::Yield),
        config::Wait::Sleep => Some(WaitPolicy::Sleep),
    }
}
