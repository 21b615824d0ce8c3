//! A start without blocking: the call returns at once, and a thread of kolo's meets the others.
//!
//! **Problem.** The ranks of a communicator wait for each other, and a program has better things to
//! do; it may begin many communicators in one thread, even several ranks of one, and may want one
//! no more before it is there.
//!
//! **Idea.** Settings are read in the call, for the environment is the program's. Then a thread
//! runs what a blocking start runs ([`joining::over_tcp_as`]). Each start has a thread of its own:
//! starts wait for each other, so a pool with fewer threads than starts could stand still. What
//! the thread comes to lies in [`Making`], where the program asks for it. Who asks first when it is
//! there takes it, and with it goes all that the start has held: its thread and its bell. Whoever
//! ends the start before calls it off ([`Birth`]), which every wait of the thread hears, and waits
//! until the thread has ended: then nothing of it is left.

use super::joining;
use crate::base::birth::Birth;
use crate::base::{Error, Rank, Result, caught, fork, own_thread, turns};
use crate::bootstrap::UniqueId;
use crate::comm::CommConfig;
use crate::comm::failing::parting::{abort_for, called_off};
use crate::comm::queue::Queue;
use crate::proxy::service;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long the end of a start is waited for. Words to the other ranks take at most half of it; a
/// thread that is still in a call of the system then ends by itself.
const END_LIMIT: Duration = Duration::from_secs(5);

/// Name of the call that errors of a start give.
const CALL: &str = "CommInitRank";

/// Where a start has come to.
enum Becoming {
    Waiting,
    Made(Arc<Queue>),
    /// The program has it. It must not live longer for having been begun.
    Given(Weak<Queue>),
    Failed(Error),
}

impl Becoming {
    /// Tells the program how the start ended: its communicator, once, or its error. The program
    /// keeps the communicator from then on.
    fn tell(&mut self) -> Result<Option<Arc<Queue>>> {
        match self {
            Becoming::Waiting => Ok(None),
            Becoming::Made(queue) => {
                let made = Arc::clone(queue);
                *self = Becoming::Given(Arc::downgrade(&made));
                Ok(Some(made))
            }
            Becoming::Given(given) => match given.upgrade() {
                Some(queue) => Ok(Some(queue)),
                None => Err(Error::usage(
                    "the communicator was there, and the program has dropped it since",
                    "keep what the start gave, as long as it is used",
                )),
            },
            Becoming::Failed(error) => Err(error.clone()),
        }
    }
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

    /// The outcome, when there is one or it has been waited for so long.
    fn when_ended(&self, limit: Duration) -> MutexGuard<'_, Becoming> {
        let waits = |state: &mut Becoming| matches!(state, Becoming::Waiting);
        turns::wait_while((&self.state, &self.ended), self.lock(), limit, waits)
    }

    /// The thread puts down what it came to. Where nobody waits for that any more, the others must
    /// hear it.
    fn put(&self, made: Result<Arc<Queue>>, birth: &Birth) {
        birth.leave();
        let mut state = self.lock();
        if matches!(*state, Becoming::Waiting) {
            *state = made.map_or_else(Becoming::Failed, Becoming::Made);
            self.ended.notify_all();
            return;
        }
        drop(state);
        if let (Ok(made), Err(why)) = (made, birth.go_on()) {
            abort_for(&made, &why);
        }
    }
}

/// A communicator that was begun by [`begin`], and is being made meanwhile.
///
/// Dropped before it is there, it is called off as by [`BegunStart::abort`].
#[doc(hidden)]
pub struct BegunStart {
    nranks: u32,
    birth: Arc<Birth>,
    outcome: Arc<Making>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// The process it was begun in: a forked child has no thread that makes it.
    generation: u32,
}

/// Begins to join as `rank` of `nranks`.
///
/// # Errors
/// Those of [`begin`].
pub(in crate::comm) fn begin(
    nranks: u32,
    id: &UniqueId,
    rank: u32,
    config: &CommConfig,
) -> Result<BegunStart> {
    let begun = begin_as((nranks, rank), id, config);
    begun.map_err(|error| error.at(Rank(rank)).during(CALL))
}

fn begin_as((nranks, rank): (u32, u32), id: &UniqueId, config: &CommConfig) -> Result<BegunStart> {
    if rank >= nranks {
        return Err(Error::argument(
            format!("rank {rank} of {nranks} does not exist"),
            "ranks count from 0 to nranks - 1",
        ));
    }
    let id = UniqueId::from_bytes(*id.as_bytes())?;
    let settings = joining::settings(config);
    let birth = Arc::new(Birth::begun(Rank(rank), nranks, joining::held(&settings))?);
    let outcome = Arc::new(Making {
        state: Mutex::new(Becoming::Waiting),
        ended: Condvar::new(),
    });
    let (config, known, found) = (config.clone(), Arc::clone(&birth), Arc::clone(&outcome));
    let builder = std::thread::Builder::new().name("kolo start".into());
    let thread = own_thread::start(builder, move || {
        let make = || joining::over_tcp_as(CALL, (nranks, &id), settings, &config, &known);
        found.put(caught(make).and_then(|made| made), &known);
    });
    let thread = thread.map_err(|error| {
        let what = "could not start a thread in which the communicator begins";
        Error::system(what, &error, service::THREADS_SHORT)
    })?;
    Ok(BegunStart {
        nranks,
        birth,
        outcome,
        thread: Mutex::new(Some(thread)),
        generation: fork::generation(),
    })
}

impl BegunStart {
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

    /// The communicator, if it is there by now.
    ///
    /// # Errors
    /// Why there will be none.
    pub(in crate::comm) fn poll_queue(&self) -> Result<Option<Arc<Queue>>> {
        self.is_here()?;
        let told = self.outcome.lock().tell();
        if !matches!(told, Ok(None)) {
            self.clear();
        }
        told
    }

    /// Returns when it has ended, or has been waited for so long.
    pub(in crate::comm) fn when_ended(&self, limit: Duration) {
        drop(self.outcome.when_ended(limit));
    }

    /// Ends the start in whatever phase it is, and lets the other ranks know; they fail, for a
    /// communicator has all of its ranks or none. Waits until nothing is left of it, at most 5 s: a
    /// thread inside a call of the system or of a network plugin ends when that call does. A
    /// communicator that is there already is aborted. Any thread, any time.
    pub fn abort(&self) {
        self.give_up("called CommAbort");
    }

    /// Ends the start as [`BegunStart::abort`] does, where the program `did` something else than
    /// call it: the other ranks are told these words.
    #[doc(hidden)]
    pub fn give_up(&self, did: &str) {
        if self.is_inherited() {
            return;
        }
        self.birth.call_off(did);
        let mut state = self.outcome.when_ended(END_LIMIT);
        let reason = match &*state {
            Becoming::Failed(error) => error.clone(),
            Becoming::Given(_) => called_off(self.rank(), did).at(self.birth.rank()),
            Becoming::Waiting | Becoming::Made(_) => self.birth.reason(CALL),
        };
        let found = std::mem::replace(&mut *state, Becoming::Failed(reason.clone()));
        if matches!(found, Becoming::Waiting) {
            // Before another thread finds that it has ended, and waits for the thread.
            drop(self.thread().take());
        }
        drop(state);
        match found {
            Becoming::Waiting => tracing::warn!(
                "kolo: rank {}: a start that was given up in phase `{}` has not ended after {} s; \
                 its thread ends when the system lets it",
                self.rank(),
                self.phase(),
                END_LIMIT.as_secs()
            ),
            // The others have it too, and must hear of this.
            Becoming::Made(made) => abort_for(&made, &reason),
            Becoming::Given(given) => {
                if let Some(queue) = given.upgrade() {
                    abort_for(&queue, &reason);
                }
            }
            Becoming::Failed(_) => {}
        }
        self.clear();
    }

    /// Lets go of what only a start needs, once there is an outcome: the thread is in its last
    /// instructions then.
    fn clear(&self) {
        let thread = self.thread().take();
        if let Some(thread) = thread {
            // What it panicked with is in the outcome.
            let _ = thread.join();
            self.birth.close();
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

impl Drop for BegunStart {
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
            true => self.clear(),
            false => self.give_up("gave it up"),
        }
    }
}

impl std::fmt::Debug for BegunStart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (rank, nranks, phase) = (self.rank(), self.nranks, self.phase());
        write!(f, "a start of rank {rank} of {nranks} in phase `{phase}`")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Code;
    use crate::comm::Communicator;

    /// A report of where the ranks are must not say of it that it begins.
    #[test]
    fn a_start_that_has_failed_and_is_kept_is_under_way_no_more() {
        let id = Communicator::unique_id().unwrap();
        let start = Communicator::begin(2, &id, 0, &CommConfig::default()).unwrap();
        assert!(!start.birth.has_ended());
        start.abort();
        assert_eq!(start.poll().unwrap_err().code, Code::RemoteError);
        assert!(start.birth.has_ended());
    }

    /// The thread of a start that was given up too late for its last wait.
    #[test]
    fn what_comes_after_the_end_of_waiting_is_aborted() {
        let mut made = Communicator::init_all(2, &CommConfig::default()).unwrap();
        let (own, other) = (made.pop().unwrap(), made.pop().unwrap());
        let birth = Birth::begun(Rank(1), 2, None).unwrap();
        birth.call_off("called CommDestroy");
        let making = Making {
            state: Mutex::new(Becoming::Failed(birth.reason(CALL))),
            ended: Condvar::new(),
        };
        making.put(Ok(own.queue), &birth);
        let error = making.lock().tell().unwrap_err();
        assert_eq!(error.code, Code::RemoteError);
        let heard = other.async_error().unwrap_err().to_string();
        assert!(
            heard.contains("rank 1 called CommDestroy while it started"),
            "{heard}"
        );
    }
}
