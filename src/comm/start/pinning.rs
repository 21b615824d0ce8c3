//! Where kolo's own threads of a process run.
//!
//! **Problem.** A process has one service thread and at most one progress thread, and perhaps
//! several ranks, each bound to processors of its own. A new thread inherits the binding of whoever
//! happened to make it.
//!
//! **Idea.** What is decided for one rank is decided for all ranks of the process, and the threads
//! may run wherever one of them would have them. Ranks that come later, with other bindings, add to
//! it; communicators of ranks that are known change nothing, so parts of a job cannot move the
//! threads to cores that only the whole job knows to be in use.

use super::meet::machine;
use super::party::Party;
use crate::base::Result;
use crate::comm::network::Network;
use crate::config;
use crate::proxy::service;
use crate::topo::{self, CpuSet, PinSetting, Pinning, RankPlace};
use crate::transport::fork;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Places of this process's threads, and the bindings from which they were decided.
struct Threads {
    /// The bindings of ranks for which it was decided.
    known: Vec<CpuSet>,
    /// Where the threads may run; empty: where they are.
    cpus: CpuSet,
    /// The progress thread, and the generation of the process that it belongs to.
    progress: Option<(u32, libc::pthread_t)>,
}

static THREADS: Mutex<Threads> = Mutex::new(Threads {
    known: Vec::new(),
    cpus: CpuSet::new(),
    progress: None,
});

fn threads() -> MutexGuard<'static, Threads> {
    THREADS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The decision for the process of a rank among the `local` ones, near the network devices that its
/// ranks use. The threads that there are move.
///
/// # Errors
/// Those of the machine.
pub(in crate::comm) fn settle(
    party: &Party,
    local: &[&RankPlace],
    network: Option<&Network>,
) -> Result<Pinning> {
    let setting = match party.settings.affinity() {
        config::Affinity::None => PinSetting::Off,
        config::Affinity::Auto => PinSetting::Auto,
        config::Affinity::Compact => PinSetting::Compact,
    };
    let machine = machine(party.settings)?;
    let me = &party.places[party.bootstrap.rank().index()];
    let rails = network.map_or_else(Vec::new, Network::rails);
    let paths = rails.iter().filter_map(|rail| rail.pci_path.as_deref());
    let paths: Vec<&str> = paths.collect();
    let decide = |rank: &RankPlace| {
        let told = |path: &str| machine.told_near(path);
        let device = topo::near_devices(machine, rank, &paths, &told);
        Pinning::decide(machine, rank, local, device.as_ref(), &setting)
    };
    let mates = local.iter().filter(|place| place.pid == me.pid);
    let mates: Vec<&RankPlace> = mates.copied().collect();
    let cpus = mates.iter().map(|rank| decide(rank).cpus);
    let pinning = Pinning {
        cpus: cpus.fold(CpuSet::new(), |all, cpus| all.union(&cpus)),
        reason: decide(me).reason,
    };
    tell(&mates, &pinning);
    Ok(pinning)
}

/// Moves the threads where ranks have come of which nothing was known.
fn tell(mates: &[&RankPlace], pinning: &Pinning) {
    let mut threads = threads();
    let is_new = |rank: &&&RankPlace| !threads.known.contains(&rank.cpus);
    let new: Vec<CpuSet> = mates
        .iter()
        .filter(is_new)
        .map(|rank| rank.cpus.clone())
        .collect();
    if new.is_empty() || pinning.cpus.is_empty() {
        return;
    }
    threads.known.extend(new);
    threads.cpus = threads.cpus.union(&pinning.cpus);
    let service = service::get().ok().and_then(service::Service::thread);
    let here = |(generation, _): &(u32, libc::pthread_t)| *generation == fork::generation();
    let progress = threads.progress.filter(here).map(|(_, thread)| thread);
    for (name, thread) in [("service", service), ("progress", progress)] {
        let Some(thread) = thread else { continue };
        match topo::pin_thread(thread, &threads.cpus) {
            Ok(()) => tracing::info!("{name} thread: PUs {}, by {pinning}", threads.cpus),
            Err(error) => tracing::warn!("the {name} thread runs unpinned: {error}"),
        }
    }
}

/// Pins the progress thread, when it begins, to where the process has its threads.
pub(in crate::comm) fn begin_progress() {
    let mut threads = threads();
    // SAFETY: takes nothing; the calling thread lives, and never ends.
    threads.progress = Some((fork::generation(), unsafe { libc::pthread_self() }));
    if threads.cpus.is_empty() {
        return;
    }
    match topo::pin_current_thread(&threads.cpus) {
        Ok(()) => tracing::info!("progress thread: PUs {}", threads.cpus),
        Err(error) => tracing::warn!("the progress thread runs unpinned: {error}"),
    }
}
