//! Tells of the ranks of a process when a signal ends it: one sentence for each communicator, and
//! for each start under way.
//!
//! A thread of kolo's ([`last_words`]) reads the notes of each rank ([`super::whereabouts`]) and
//! the boards, which are there to be read by others.

use super::fault;
use super::kept;
use super::shown;
use super::whereabouts::{Under, Wait, Whereabouts, lock};
use crate::base::birth::Birth;
use crate::base::last_words::{self, Kept};
use crate::base::turns;
use crate::base::{Rank, Result, caught};
use crate::comm::calling::call::describe;
use crate::comm::calling::waiting_call::WaitingCall;
use crate::comm::logging::Acting;
use crate::comm::queue::Queue;
use crate::config::{OnSignal, Settings};
use crate::transport::fork;
use crate::wire::signature::Signature;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

/// The signals that are told of: the one by which a launcher ends a job, and the one that job
/// scripts ask for before that (`--signal=USR1@60`).
const SIGNALS: [i32; 2] = [libc::SIGTERM, libc::SIGUSR1];
/// How long the process stays after its words: the others get the signal a moment earlier or later,
/// and are to find it alive while they look.
const STAYS: Duration = Duration::from_millis(500);

/// Where a rank is, in words, but for who it is.
fn words(notes: &Whereabouts, queue: &Queue) -> String {
    let (call, waits) = (lock(&notes.call), lock(&notes.waits));
    let wait = waits.first();
    let mut text = match &*call {
        Some(under) => call_words(under),
        None => last_call(queue, wait),
    };
    let Some(wait) = wait else {
        text.push_str(match call.is_some() {
            true => ", phase `moving`: data pass, and nobody is waited for",
            false => ", phase `outside`: the program is not in a call that waits",
        });
        return text;
    };
    let waited = wait.since.elapsed().as_secs_f64();
    let Some(peer) = wait.peer else {
        return text + &format!(", phase `waiting`: for {waited:.1} s");
    };
    let call = WaitingCall {
        number: wait.collective(),
        ..wait.call
    };
    let late = fault::late(queue, &call, peer);
    let (who, advice) = (&late.who, late.advice());
    text + &format!(", phase `waiting`: for {waited:.1} s for {who}{advice}")
}

/// Which call it is, and its route.
fn call_words(under: &Under) -> String {
    let call = match under.number {
        Some(number) => format!("in collective {number}, {}", describe(under.signature)),
        None => format!("in {}", under.told.collective.name()),
    };
    format!("{call}, route {}", under.told.words())
}

/// Where no blocking call is under way: what the rank has called, and what it waits for.
fn last_call(queue: &Queue, wait: Option<&Wait>) -> String {
    let board = queue.node.board(queue.rank as usize);
    let calls = board.calls();
    let last = board.signature(calls).filter(|_| calls > 0);
    let last = match last {
        Some(last) => format!("collective {calls}, {}", describe(Signature(last))),
        None => "no collective".into(),
    };
    match wait {
        Some(wait) => format!(
            "in {} on a stream or in a group, begun last: {last}",
            wait.call.name
        ),
        None => format!("outside of kolo, begun last: {last}"),
    }
}

static RANKS: Mutex<Vec<Weak<Queue>>> = Mutex::new(Vec::new());

/// From now on this rank is told of, if its settings ask for it.
pub(in crate::comm) fn show(queue: &Arc<Queue>) {
    if queue.whereabouts.of.calls {
        kept::keep(&RANKS, queue);
    }
}

/// From now on this start is told of, and the signals are caught if the settings ask for it.
pub(in crate::comm) fn show_start(birth: &Arc<Birth>, settings: &Settings) {
    if !fork::in_child_of_user() {
        kept::begin(birth);
        shown::show_start(birth);
    }
    if settings.on_signal() != OnSignal::Report {
        return;
    }
    for why in last_words::before(&SIGNALS, tell) {
        tracing::info!("KOLO_ON_SIGNAL leaves a signal alone: {why}");
    }
}

/// Writes where the ranks of this process are. What it gives are these ranks: were it the last to
/// have them, dropping them would take leave of peers, which may wait, and the signal would wait
/// with it.
fn tell(signal: i32) -> Kept {
    let ranks = kept::alive(&RANKS);
    // The signal goes on in any case.
    let _ = caught(|| tell_all(signal, &ranks));
    Box::new(ranks)
}

fn tell_all(signal: i32, ranks: &[Arc<Queue>]) -> Result<()> {
    let signal = last_words::name(signal);
    for birth in kept::starts() {
        let (rank, phase) = (birth.rank(), birth.phase().name());
        tracing::warn!("kolo: rank {rank}: {signal}: in a start, phase `{phase}`");
    }
    for queue in ranks {
        let is_destroyed = queue.ending.destroyed.load(Ordering::Relaxed);
        if is_destroyed {
            continue;
        }
        let _acting = Acting::rank(Rank(queue.rank));
        tracing::warn!(
            "kolo: rank {}: {signal}: communicator {}: {}",
            queue.rank,
            queue.name,
            words(&queue.whereabouts, queue)
        );
    }
    let has_peers = ranks.iter().any(|queue| queue.nranks > 1);
    if has_peers {
        turns::sleep(STAYS);
    }
    Ok(())
}
