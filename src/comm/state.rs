//! Parts of a communicator.
//!
//! [`Inner`] is what every thread may see at any time: identity, settings, the shared memory of the
//! node, whether the communicator still works and why not. [`Exec`] is what only the owner of the
//! lock touches: connections, plans, kernels, calls in flight.

use crate::base::{Error, Rank, Result};
use crate::comm::start::net::Network;
use crate::comm::calling::handles::MadeOp;
use crate::comm::failing::whereabouts::Whereabouts;
use crate::comm::flight::lock::OwnerLock;
use crate::comm::owned::Exec;
use crate::config::{Errors, Settings};
use crate::exec::CommDevice;
use crate::proxy::net::Links;
use crate::proxy::service::{self, Alarm};
use crate::transport::fork;
use crate::transport::node::NodeMemory;
use crate::transport::segment::Nonce;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// How a rank waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitSetup {
    /// In short, and what it follows from.
    pub policy: crate::topo::WaitPolicy,
    pub crowding: crate::topo::Crowding,
    /// Polls before the first yield.
    pub spins: u32,
    /// Yields before the first sleep, if there is one.
    pub yields: u32,
    /// Time of the processor that they may take. Where others work on this core a yield takes a
    /// change of threads and back: as many as do no harm on an idle core take a part of theirs.
    pub yields_for: std::time::Duration,
    /// How often the progress thread looks in vain before it sleeps.
    pub thread_looks: u32,
    /// Warning about late ranks.
    pub warn_after: std::time::Duration,
    /// Limit of a wait; zero for none.
    pub timeout: std::time::Duration,
}

impl WaitSetup {
    /// Value of [`WaitSetup::yields`]: whoever waits never sleeps.
    pub const NO_SLEEP: u32 = u32::MAX;
}

/// Switches that say who observes the calls of a communicator.
pub(super) struct CallsSeen {
    /// Each call is compared with those of the other ranks first (`KOLO_CHECK`).
    pub compared: bool,
    /// Each call is a line of the log.
    pub traced: bool,
    /// Each call is counted for a report.
    pub tallied: bool,
    /// True if any flag above is on, or `whereabouts` is there. A call reads only this one when
    /// nothing is observed.
    pub at_all: bool,
}

/// The name of a communicator.
pub(super) struct CommName {
    text: String,
    /// The program has given it.
    pub is_given: bool,
}

impl CommName {
    /// The one that the program has given, or one that is made of the nonce.
    pub fn new(given: Option<String>, nonce: u128) -> CommName {
        CommName {
            is_given: given.is_some(),
            text: given.unwrap_or_else(|| format!("{:08x}", nonce as u32)),
        }
    }
}

impl std::ops::Deref for CommName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl std::fmt::Display for CommName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self)
    }
}

/// How far a communicator has come to its end.
#[derive(Default)]
pub(super) struct Ending {
    /// Calls are refused: see [`Inner::stop`].
    pub stopped: AtomicBool,
    /// Why.
    pub failure: Mutex<Option<Error>>,
    /// This rank was told why.
    pub told: AtomicBool,
    pub destroyed: AtomicBool,
    /// Only destroy, abort and queries are allowed.
    pub finalized: AtomicBool,
}

/// The rank and call that the call at the head of the queue waits for.
#[derive(Default)]
pub(super) struct Blocked {
    /// The rank.
    pub on: AtomicU32,
    /// The number of the call.
    pub call: AtomicU64,
}

/// Operations that the program made.
#[derive(Default)]
pub(super) struct MadeOps {
    /// By handle.
    pub made: Mutex<HashMap<i32, MadeOp>>,
    pub next: AtomicU32,
}

/// The state of a communicator. Ranks may be threads of one process: what one of them writes in
/// every call must not lie in a cache line of another one, or of its neighbour that is fetched too.
#[repr(align(128))]
pub(super) struct Inner {
    pub rank: u32,
    pub nranks: u32,
    pub name: CommName,
    pub settings: Settings,
    /// Device that its engine drives.
    pub device: CommDevice,
    /// Where each rank runs, `host (pid)`, for messages.
    pub places: Vec<String>,
    /// The other ranks that are threads of this process, in order.
    pub process_mates: Vec<u32>,
    pub node: NodeMemory,
    /// Connections to ranks on other nodes, if there are any.
    pub network: Option<Network>,
    /// Names the communicator on all its nodes.
    pub nonce: Nonce,
    pub wait: WaitSetup,
    /// Who observes its calls.
    pub seen: CallsSeen,
    /// Where this rank is, for who asks by a signal.
    pub whereabouts: Option<Whereabouts>,
    pub exec: OwnerLock<Exec>,
    /// How far it has come to its end, and why.
    pub ending: Ending,
    /// The rank and call that the call at the head of the queue waits for.
    pub blocked: Blocked,
    /// Operations that the program made.
    pub ops: MadeOps,
    /// Buffers that the program has registered.
    pub registrations: super::registrations::Registrations,
    /// Whether this rank has ever sent a message.
    pub has_sent: AtomicBool,
    /// Whether the progress thread moves calls in flight while no caller does.
    pub thread_progress: bool,
    /// Where kolo's own threads of this rank run.
    pub pinning: crate::topo::Pinning,
    /// Sees the death of peers; dropping it says goodbye.
    pub watch: Mutex<Option<Arc<crate::proxy::Watch>>>,
    /// Facts and memory for communicators that are split from this one, if they can be made so.
    pub kin: Option<crate::comm::start::heritage::Kin>,
    /// Where news of deaths goes; the communicator that hears of them first does not keep it.
    pub _deaths: Arc<crate::comm::failing::deaths::Deaths>,
    /// Lets the program's MPI make progress: see [`crate::comm::flight::turn`]. The last that is
    /// dropped, as the end of the others may take its time.
    pub idle: Option<crate::comm::flight::turn::IdleHook>,
}

impl Inner {
    /// An error here, with rank and name of the communicator.
    #[cold]
    pub fn named(&self, error: Error) -> Error {
        let name = self.name.is_given.then_some(&*self.name);
        error.at(Rank(self.rank)).on(name)
    }

    /// An error of the call that this thread is in, with the place of that call where it is wanted.
    /// Finding it takes milliseconds, in which nobody may wait for a lock of this thread.
    #[cold]
    pub fn tells(&self, error: Error) -> Error {
        let error = self.named(error);
        match self.settings.errors() {
            Errors::Backtrace => error.with_place(),
            Errors::Return | Errors::Abort => error,
        }
    }

    /// The communicator behind the name of a call, if the program has named it.
    pub fn on(&self) -> String {
        match self.name.is_given {
            true => format!(" on communicator {}", self.name),
            false => String::new(),
        }
    }

    /// The error that stopped the communicator; its place is that of the call which failed.
    #[cold]
    pub fn stop_reason(&self) -> Error {
        let failure = self
            .ending
            .failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let reason = failure.clone().unwrap_or_else(|| {
            Error::usage(
                "the communicator was destroyed",
                "create a new communicator",
            )
        });
        self.named(reason)
    }

    /// Refuses calls from now on, for this reason (the first one counts), and tells the others.
    /// In a forked child nobody is told: the communicator is its parent's.
    pub fn stop(&self, error: &Error) {
        self.ending.told.store(true, Ordering::Relaxed);
        {
            let mut failure = self
                .ending
                .failure
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert_with(|| self.named(error.clone()));
        }
        self.ending.stopped.store(true, Ordering::Release);
        if !fork::in_child_of_user() {
            self.node.abort(self.rank, error);
            self.alarm(Alarm::Abort);
        }
    }

    /// Has this node's lookout tell the other nodes, or ask them.
    pub fn alarm(&self, why: Alarm) {
        // Where there is no service any more, nobody is left to be told.
        if self.network.is_some()
            && let Ok(service) = service::get()
        {
            service.alarm(self.nonce, why);
        }
    }

    /// Connections to ranks on other nodes, if there are any.
    #[inline(always)]
    pub fn links(&self) -> Option<&Links> {
        self.network.as_ref().map(|network| &*network.links)
    }

    /// The watch over the processes of the ranks; `None` once this rank has left.
    pub fn watch(&self) -> Option<Arc<crate::proxy::Watch>> {
        let watch = self.watch.lock();
        watch.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether it stopped here or elsewhere, or belongs to a parent process: there the shared
    /// memory does not exist and must not be looked at.
    #[inline(always)]
    pub fn is_stopped(&self) -> bool {
        self.ending.stopped.load(Ordering::Acquire)
            || fork::in_child_of_user()
            || self.node.aborted()
            || self.links().is_some_and(Links::failed)
    }

    /// Refuses calls on a communicator that does not work any more.
    #[inline(always)]
    pub fn alive(&self) -> Result<()> {
        if self.is_stopped() {
            Err(self.tells(self.stop_error().refusing()))
        } else {
            Ok(())
        }
    }

    /// Refuses operations on a communicator that does not work any more, or was finalised.
    #[inline(always)]
    pub fn callable(&self) -> Result<()> {
        if self.ending.finalized.load(Ordering::Relaxed) && !self.is_stopped() {
            return Err(Error::usage(
                "the communicator was finalised",
                "make calls before CommFinalize; only CommDestroy is left",
            ));
        }
        self.alive()
    }

    /// Whom the queue waits for.
    pub fn blocked_on(&self) -> usize {
        self.blocked.on.load(Ordering::Relaxed) as usize
    }

    /// Says goodbye to the other ranks: from now on this process may end without harm to them.
    pub fn leave(&self) {
        let watch = self
            .watch
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        // Idempotent; a clone that is dropped without destroy leaves like any other.
        let board = self.node.board(self.rank as usize);
        board.leave(std::thread::panicking());
        let Some(network) = &self.network else {
            return;
        };
        if let Some(watch) = &watch {
            network.retire(watch);
        }
        // Between nodes nothing is split from it that would have the watch too.
        match (&network.proxied, watch.map(Arc::into_inner)) {
            // The watch lives on as long as others send through this rank.
            (Some(proxied), Some(Some(watch))) => {
                if self.node.aborted() {
                    proxied.give_up();
                }
                proxied.leave(watch);
            }
            (None, watch) => drop(watch),
            (Some(_), _) => {}
        }
        network.close();
        if let Ok(service) = service::get() {
            service.see_off(self.nonce);
        }
    }

    /// Whether a rank is another one on this node.
    pub fn is_mate(&self, rank: u32) -> bool {
        let remote = |links: &Links| links.is_remote(rank as usize);
        rank != self.rank && !self.links().is_some_and(remote)
    }

    /// Host and process of a rank, for messages.
    pub fn place(&self, rank: u32) -> &str {
        self.places.get(rank as usize).map_or("?", String::as_str)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // In a forked child a thread of the parent may hold the lock of the watch for ever.
        if !fork::in_child_of_user() {
            self.leave();
        }
    }
}
