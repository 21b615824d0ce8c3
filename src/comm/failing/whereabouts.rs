//! Where a rank is, for who asks from outside: by a signal that is about to end the process.
//!
//! **Problem.** A job that hangs ends at its time limit, and its output does not say where it hung.
//! The thread that hangs is inside a call and cannot be asked; what it works on is behind a lock
//! that it holds.
//!
//! **Idea.** Where the setting `on_signal` asks for it, each call notes what it is before it
//! begins, and a wait that takes longer notes for whom. When the signal comes, a thread of kolo's
//! ([`crate::base::last_words`]) reads these notes and the boards of the ranks, and writes one
//! sentence for each communicator and for each start under way. Without the setting nothing is
//! noted.

use super::fault;
use crate::base::birth::Birth;
use crate::base::clock::{self, Moment};
use crate::base::{Rank, Result, caught, last_words};
use crate::comm::calling::call::{Checked, describe};
use crate::comm::logging::Acting;
use crate::comm::owned::Exec;
use crate::comm::state::Inner;
use crate::config::{OnSignal, Settings};
use crate::tune::{Choice, Route};
use crate::wire::signature::Signature;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// The signals that are told of: the one by which a launcher ends a job, and the one that job
/// scripts ask for before that (`--signal=USR1@60`).
const SIGNALS: [i32; 2] = [libc::SIGTERM, libc::SIGUSR1];
/// How long the process stays after its words: the others get the signal a moment earlier or later,
/// and are to find it alive while they look.
const STAYS: Duration = Duration::from_millis(500);

/// The notes of one rank of one communicator.
#[derive(Default)]
pub(in crate::comm) struct Whereabouts {
    call: Mutex<Option<Under>>,
    wait: Mutex<Option<Wait>>,
    /// The rank that the wait is for.
    peer: AtomicU32,
}

/// A blocking call.
struct Under {
    number: Option<u64>,
    signature: Signature,
    route: Route,
    choice: Option<Choice>,
    name: &'static str,
}

/// A wait that takes longer than a few polls.
struct Wait {
    call: (&'static str, Option<u64>),
    since: Moment,
}

/// A call is under way until this is dropped.
pub(in crate::comm) struct Entered<'a>(&'a Whereabouts);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        *lock(&self.0.call) = None;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Whereabouts {
    /// Those that the settings ask for.
    pub fn wanted(settings: &Settings) -> Option<Whereabouts> {
        (settings.on_signal() == OnSignal::Report).then(Whereabouts::default)
    }

    /// A blocking call begins.
    pub fn enter(&self, exec: &Exec, checked: &Checked, number: Option<u64>) -> Entered<'_> {
        let (asked, route) = (checked.asked(), exec.route(checked));
        *lock(&self.call) = Some(Under {
            number,
            // As it was before the calls before it were mixed in.
            signature: Signature(checked.signature ^ checked.past),
            route,
            choice: route.choice(&asked, &exec.table),
            name: checked.call.collective.name(),
        });
        Entered(self)
    }

    /// A wait has begun.
    pub fn waits(&self, call: (&'static str, Option<u64>)) {
        let since = clock::now();
        *lock(&self.wait) = Some(Wait { call, since });
    }

    /// It is for this rank.
    pub fn waits_for(&self, peer: usize) {
        // Relaxed: it is read to be shown.
        self.peer.store(peer as u32, Ordering::Relaxed);
    }

    /// It is over.
    pub fn goes_on(&self) {
        *lock(&self.wait) = None;
    }

    /// In words, but for who it is.
    fn words(&self, inner: &Inner) -> String {
        let (call, wait) = (lock(&self.call), lock(&self.wait));
        let mut text = match &*call {
            Some(under) => under.words(),
            None => last_call(inner, wait.as_ref()),
        };
        let Some(wait) = &*wait else {
            text.push_str(match call.is_some() {
                true => ", phase `moving`: data pass, and nobody is waited for",
                false => ", phase `outside`: the program is not in a call that waits",
            });
            return text;
        };
        let peer = self.peer.load(Ordering::Relaxed) as usize;
        let queued = inner.blocked.call.load(Ordering::Relaxed);
        let number = wait.call.1.or((queued != 0).then_some(queued));
        let late = fault::late(inner, (wait.call.0, number), peer);
        let waited = wait.since.elapsed().as_secs_f64();
        text + &format!(", phase `waiting`: for {waited:.1} s for {late}")
    }
}

impl Under {
    fn words(&self) -> String {
        let call = match self.number {
            Some(number) => format!("in collective {number}, {}", describe(self.signature)),
            None => format!("in {}", self.name),
        };
        let collective = crate::plan::Collective::ALL
            .into_iter()
            .find(|collective| collective.name() == self.name);
        let route = collective.map(|it| self.route.words_with(it, self.choice));
        format!("{call}, route {}", route.unwrap_or_default())
    }
}

/// Where no blocking call is under way: what the rank has called, and what it waits for.
fn last_call(inner: &Inner, wait: Option<&Wait>) -> String {
    let board = inner.node.board(inner.rank as usize);
    let calls = board.calls();
    let last = board.signature(calls).filter(|_| calls > 0);
    let last = match last {
        Some(last) => format!("collective {calls}, {}", describe(Signature(last))),
        None => "no collective".into(),
    };
    match wait {
        Some(wait) => format!(
            "in {} on a stream or in a group, begun last: {last}",
            wait.call.0
        ),
        None => format!("outside of kolo, begun last: {last}"),
    }
}

static RANKS: Mutex<Vec<Weak<Inner>>> = Mutex::new(Vec::new());
static STARTS: Mutex<Vec<Weak<Birth>>> = Mutex::new(Vec::new());

/// From now on this rank is told of, if its settings ask for it.
pub(in crate::comm) fn show(inner: &Arc<Inner>) {
    if inner.whereabouts.is_some() {
        keep(&RANKS, inner);
    }
}

/// From now on this start is told of, if the settings ask for it, and the signals are caught.
pub(in crate::comm) fn show_start(birth: &Arc<Birth>, settings: &Settings) {
    if settings.on_signal() != OnSignal::Report {
        return;
    }
    keep(&STARTS, birth);
    for why in last_words::before(&SIGNALS, tell) {
        tracing::info!("KOLO_ON_SIGNAL leaves a signal alone: {why}");
    }
}

fn keep<T>(list: &Mutex<Vec<Weak<T>>>, one: &Arc<T>) {
    let mut list = lock(list);
    list.retain(|it| it.strong_count() > 0);
    list.push(Arc::downgrade(one));
}

fn alive<T>(list: &Mutex<Vec<Weak<T>>>) -> Vec<Arc<T>> {
    lock(list).iter().filter_map(Weak::upgrade).collect()
}

/// Writes where the ranks of this process are.
fn tell(signal: i32) {
    // The process ends in any case, by the signal.
    let _ = caught(|| tell_all(signal));
}

fn tell_all(signal: i32) -> Result<()> {
    let signal = last_words::name(signal);
    let ranks = alive(&RANKS);
    let starts = alive(&STARTS);
    let starts = starts.iter().filter(|birth| !birth.has_ended());
    for birth in starts {
        let (rank, phase) = (birth.rank(), birth.phase().name());
        tracing::warn!("kolo: rank {rank}: {signal}: in a start, phase `{phase}`");
    }
    for inner in &ranks {
        let is_destroyed = inner.ending.destroyed.load(Ordering::Relaxed);
        let Some(notes) = inner.whereabouts.as_ref().filter(|_| !is_destroyed) else {
            continue;
        };
        let _acting = Acting::rank(Rank(inner.rank));
        tracing::warn!(
            "kolo: rank {}: {signal}: communicator {}: {}",
            inner.rank,
            inner.name,
            notes.words(inner)
        );
    }
    if ranks.iter().any(|inner| inner.nranks > 1) {
        std::thread::sleep(STAYS);
    }
    Ok(())
}
