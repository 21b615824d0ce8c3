//! A start without blocking: the call returns at once, and a thread of kolo's meets the others.
//!
//! **Problem.** The ranks of a communicator wait for each other, and a program has better things to
//! do; it may begin many communicators in one thread, even several ranks of one, and may want one
//! no more before it is there.
//!
//! **Idea.** Settings are read in the call, for the environment is the program's. Then a thread
//! runs what a blocking start runs ([`joining::over_tcp_as`]). Each start has a thread of its own:
//! starts wait for each other, so a pool with fewer threads than starts could stand still. What
//! the thread comes to lies in [`Making`], where the program asks for it. Whoever ends the start
//! before calls it off ([`Birth`]), which every wait of the thread hears, and waits until the
//! thread has ended: then nothing of it is left.

use super::joining;
use crate::base::birth::Birth;
use crate::base::clock::now;
use crate::base::{Error, Rank, Result, caught, fork, own_thread};
use crate::bootstrap::UniqueId;
use crate::comm::{CommConfig, Communicator};
use crate::proxy::service;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long the end of a start is waited for. Words to the other ranks take at most half of it; a
/// thread that is still in a call of the system then ends by itself.
const END_LIMIT: Duration = Duration::from_secs(5);

/// What has become of a start.
enum Becoming {
    Waiting,
    Made(Communicator),
    Failed(Error),
}

/// Where the thread puts what it has come to.
struct Making {
    state: Mutex<Becoming>,
    ended: Condvar,
}

impl Making {
    fn lock(&self) -> MutexGuard<'_, Becoming> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A communicator that was begun by [`Communicator::begin`], and is being made meanwhile.
///
/// Dropped before it is there, it is called off as by [`Starting::abort`].
pub struct Starting {
    nranks: u32,
    birth: Arc<Birth>,
    outcome: Arc<Making>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// The process it was begun in: a forked child has no thread that makes it.
    generation: u32,
}

impl Communicator {
    /// Begins to join, and returns at once: [`Starting`] tells when the communicator is there. One
    /// thread may begin many so, even several ranks of one communicator. Only a start by unique id
    /// has this form: one by MPI, by a launcher or by [`Communicator::split`] blocks.
    ///
    /// # Errors
    /// Wrong ranks, an id that is none; `SystemError` without a thread for it. Every other error of
    /// [`Communicator::init_rank`] comes from [`Starting`].
    pub fn begin(nranks: u32, id: &UniqueId, rank: u32, config: &CommConfig) -> Result<Starting> {
        let call = "CommInitRank";
        let begun = begin_as((nranks, rank), id, config, call);
        begun.map_err(|error| error.at(Rank(rank)).during(call))
    }
}

fn begin_as(
    (nranks, rank): (u32, u32),
    id: &UniqueId,
    config: &CommConfig,
    call: &'static str,
) -> Result<Starting> {
    if rank >= nranks {
        return Err(Error::argument(
            format!("rank {rank} of {nranks} does not exist"),
            "ranks count from 0 to nranks - 1",
        ));
    }
    let id = UniqueId::from_bytes(*id.as_bytes())?;
    let settings = joining::settings(config);
    let birth = Arc::new(Birth::begun(Rank(rank), joining::held(&settings))?);
    let outcome = Arc::new(Making {
        state: Mutex::new(Becoming::Waiting),
        ended: Condvar::new(),
    });
    let (config, known, found) = (config.clone(), Arc::clone(&birth), Arc::clone(&outcome));
    let builder = std::thread::Builder::new().name("kolo start".into());
    let thread = own_thread::start(builder, move || {
        let make = || joining::over_tcp_as(call, (nranks, &id), settings, &config, &known);
        let made = caught(make).and_then(|made| made);
        let state = made.map_or_else(Becoming::Failed, Becoming::Made);
        *found.lock() = state;
        found.ended.notify_all();
    });
    let thread = thread.map_err(|error| {
        let what = "could not start a thread in which the communicator begins";
        Error::system(what, &error, service::THREADS_SHORT)
    })?;
    Ok(Starting {
        nranks,
        birth,
        outcome,
        thread: Mutex::new(Some(thread)),
        generation: fork::generation(),
    })
}

impl Starting {
    /// The rank that this will be.
    pub fn rank(&self) -> u32 {
        self.birth.rank().0
    }

    /// How many ranks there will be.
    pub fn nranks(&self) -> u32 {
        self.nranks
    }

    /// The phase it is in, in a word; the last one of those that are over where it has ended.
    pub fn phase(&self) -> &'static str {
        self.birth.phase().name()
    }

    /// The communicator, if it is there by now. Does not wait.
    ///
    /// # Errors
    /// Why there will be none: as [`Communicator::init_rank`]; `RemoteError` after
    /// [`Starting::abort`]; `InvalidUsage` in a forked child.
    pub fn poll(&self) -> Result<Option<Communicator>> {
        self.is_here()?;
        match &*self.outcome.lock() {
            Becoming::Waiting => Ok(None),
            Becoming::Made(communicator) => Ok(Some(communicator.clone())),
            Becoming::Failed(error) => Err(error.clone()),
        }
    }

    /// Waits until the communicator is there.
    ///
    /// # Errors
    /// As [`Starting::poll`].
    pub fn wait(self) -> Result<Communicator> {
        loop {
            if let Some(communicator) = self.poll()? {
                return Ok(communicator);
            }
            let state = self.outcome.lock();
            let waits = |state: &mut Becoming| matches!(state, Becoming::Waiting);
            let waited = self.outcome.ended.wait_while(state, waits);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Ends the start in whatever phase it is, and lets the other ranks know; they fail, for a
    /// communicator has all of its ranks or none. Waits until nothing is left of it, at most
    /// seconds. A communicator that is there already is aborted. Any thread, any time.
    pub fn abort(&self) {
        self.give_up("called CommAbort");
    }

    /// The same; the program `did` something.
    #[doc(hidden)]
    pub fn give_up(&self, did: &str) {
        if self.is_inherited() || self.thread().is_none() {
            return;
        }
        self.birth.call_off(did);
        let begun = now();
        let mut state = self.outcome.lock();
        while matches!(*state, Becoming::Waiting) {
            let left = END_LIMIT.saturating_sub(begun.elapsed());
            if left.is_zero() {
                tracing::warn!(
                    "kolo: rank {}: a start that was given up in phase `{}` has not ended after \
                     {} s; its thread ends when the system lets it",
                    self.rank(),
                    self.phase(),
                    END_LIMIT.as_secs()
                );
                drop(state);
                self.thread().take();
                return;
            }
            let waited = self.outcome.ended.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let made = match &*state {
            Becoming::Made(communicator) => Some(communicator.clone()),
            _ => None,
        };
        drop(state);
        if let Some(made) = made {
            // The others have it too, and must hear of this.
            let _ = made.abort();
        }
        self.join();
    }

    /// Waits for the last instructions of a thread that has ended.
    fn join(&self) {
        if let Some(thread) = self.thread().take() {
            // What it panicked with is in the outcome.
            let _ = thread.join();
        }
    }

    /// Its thread, until it has ended or is waited for no more.
    fn thread(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this process was forked from the one that has begun it.
    #[doc(hidden)]
    pub fn is_inherited(&self) -> bool {
        self.generation != fork::generation()
    }

    fn is_here(&self) -> Result<()> {
        match self.is_inherited() {
            false => Ok(()),
            true => Err(Error::usage(
                "this process was forked from one that begins a communicator, and does not itself",
                "create communicators after fork, in the process that uses them",
            )),
        }
    }

    /// Whether its thread has put down what it came to.
    fn has_ended(&self) -> bool {
        !matches!(*self.outcome.lock(), Becoming::Waiting)
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        if self.is_inherited() {
            // The thread is its parent's.
            let thread = self
                .thread
                .get_mut()
                .unwrap_or_else(PoisonError::into_inner);
            std::mem::forget(thread.take());
            return;
        }
        match self.has_ended() {
            true => self.join(),
            false => self.give_up("gave it up"),
        }
    }
}

impl std::fmt::Debug for Starting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (rank, nranks, phase) = (self.rank(), self.nranks, self.phase());
        write!(f, "a start of rank {rank} of {nranks} in phase `{phase}`")
    }
}
