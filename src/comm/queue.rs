//! Queue of a communicator: its connections and its calls in flight, and who may touch them now.
//!
//! One thread at a time owns [`Exec`], which holds engine, tables and calls: a call of the program
//! ([`Queue::user`]), or whoever drives what is in flight. A call that cannot end stops the
//! communicator ([`Queue::fail`]), and gives the buffers of all calls back.
//!
//! Peers may read the buffers of a direct call at that moment, or write into them
//! ([`crate::wire::reading`]). A thread of this process that does so is waited for, as the caller
//! may free the memory after the error. Another process has a mapping of its own, and finds out
//! itself that what it has read does not count: it is waited for as long as a rank on a core takes,
//! and not for ever. If it may still write then, it loses the memory: private pages take its
//! place, at the same address.

use super::health::Health;
use super::identity::Identity;
use crate::base::{Code, Error, Rank, Result, caught, clock};
use crate::comm::calling::handles::MadeOp;
use crate::comm::failing::fault;
use crate::comm::flight::lock::Guard;
use crate::comm::flight::lock::OwnerLock;
use crate::comm::flight::op::Op;
use crate::comm::flight::turn;
use crate::comm::flight::turn::IdleHook;
use crate::comm::owned::Exec;
use crate::comm::start::heritage::Kin;
use crate::exec::operation;
use crate::exec::{CommDevice, Stop};
use crate::transport::registered::is_pinned;
use crate::transport::{fork, memory};
use crate::wire::reading::owner_stops;
use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long a rank whose call failed waits for other processes that touch its buffers: one that has
/// a core is done long before. A warning names who is waited for twice as long.
const LET_GO: Duration = Duration::from_secs(1);
/// The rest between two looks at a peer that has not ended at once.
const REST: Duration = Duration::from_micros(500);
/// Looks without a rest.
const LOOKS: u32 = 1000;

/// Operations that the program made.
#[derive(Default)]
pub(super) struct MadeOps {
    /// By handle.
    pub made: Mutex<HashMap<i32, MadeOp>>,
    pub next: AtomicU32,
}

/// A communicator of one rank, as every thread of the process reaches it. Ranks may be threads of
/// one process: what one of them writes in every call must not lie in a cache line of another one,
/// or of its neighbour that is fetched too.
#[repr(align(128))]
pub struct Queue {
    pub(super) health: Health,
    pub(super) exec: OwnerLock<Exec>,
    /// Operations that the program made.
    pub(super) ops: MadeOps,
    /// Buffers that the program has registered.
    pub(super) registrations: Arc<super::registrations::Registrations>,
    /// Whether this rank has ever sent a message.
    pub(super) has_sent: AtomicBool,
    /// Whether the progress thread moves calls in flight while no caller does.
    pub(super) thread_progress: bool,
    /// Facts and memory for communicators that are split from this one, if they can be made so.
    pub(super) kin: Option<Kin>,
    /// The hook of the program's MPI once more: the last that is dropped, as the end of the others
    /// may take its time.
    pub(super) _idle: Option<IdleHook>,
}

impl Deref for Queue {
    type Target = Health;

    #[inline(always)]
    fn deref(&self) -> &Health {
        &self.health
    }
}

impl Queue {
    /// Whether nothing but memory stays while somebody keeps a handle of it after its end.
    pub(in crate::comm) fn holds_memory_only(&self) -> bool {
        self.links().is_none()
            && self.device == CommDevice::Host
            && self.ops.next.load(Ordering::Relaxed) == 0
    }

    /// The owner lock for a call of the user.
    #[inline(always)]
    pub(in crate::comm) fn user(&self) -> Result<InCall<'_>> {
        let guard = match self.exec.at_once() {
            Some(guard) => guard,
            None => self.user_beside()?,
        };
        Ok(InCall {
            guard,
            queue: self,
            unwinds: usize::from(std::thread::panicking()),
        })
    }

    /// Takes the owner lock where somebody is inside: a driver, which leaves, or a call, which is a
    /// mistake.
    #[cold]
    fn user_beside(&self) -> Result<Guard<'_, Exec>> {
        if operation::inside_operation() {
            if let Ok(guard) = self.exec.user_in_operation() {
                return Ok(guard);
            }
            // Whoever is inside may be this very thread, so nothing is waited for. An operation has
            // no way to say that it failed: the communicator says it.
            let error = operation::misuse(
                "an operation of the program has called kolo on a communicator that is inside a \
                 call",
            );
            self.stop(&error);
            return Err(error);
        }
        self.exec.user().map_err(|_| {
            Error::usage(
                "another thread is inside a call of this communicator",
                "use one communicator per thread, or let one thread call at a time",
            )
        })
    }

    #[cold]
    pub(in crate::comm) fn stopped_by(
        &self,
        exec: &mut Exec,
        stop: Stop,
        number: Option<u64>,
    ) -> Error {
        let error = self.because(exec, stop, number);
        self.fail(exec, error)
    }

    #[cold]
    pub(in crate::comm) fn because(&self, exec: &Exec, stop: Stop, number: Option<u64>) -> Error {
        match stop {
            Stop::Mismatch(mismatch) => fault::mismatch(self, exec, mismatch, number),
            // A rank that has aborted may end before those who read its memory have looked.
            Stop::Error(error) if error.code == Code::RemoteError && self.node.aborted() => {
                self.stop_error()
            }
            Stop::Error(error) => error,
        }
    }

    /// Stops the communicator for this reason; every call in flight ends with it.
    #[cold]
    pub(in crate::comm) fn fail(&self, exec: &mut Exec, error: Error) -> Error {
        self.stop(&error);
        let shown = exec.in_flight.iter().any(Op::is_direct);
        let ended: Vec<Op> = exec.in_flight.drain(..).collect();
        if !fork::in_child_of_user() {
            if let Some(network) = &self.network {
                network.let_go();
            }
            if shown {
                owner_stops();
                self.await_peers(exec, &ended);
            }
        }
        for mut op in ended {
            op.finish(&Err(error.clone()));
        }
        error
    }

    /// Waits until no peer touches the buffers of direct calls: see the file's first lines.
    #[cold]
    fn await_peers(&self, exec: &Exec, ended: &[Op]) {
        let start = clock::now();
        let mates = (0..self.nranks).filter(|&rank| self.is_mate(rank));
        let (threads, others): (Vec<u32>, Vec<u32>) =
            mates.partition(|&rank| exec.engine.is_of_this_process(rank as usize));
        let is_inside = |rank: &&u32| !self.node.reading(**rank as usize).is_over();
        let mut written: Vec<(*mut u8, usize)> =
            ended.iter().flat_map(|op| op.flight.written()).collect();
        written.retain(|&(_, bytes)| bytes > 0);
        let mut looks = 0;
        let mut warned = false;
        loop {
            let thread = threads.iter().find(is_inside);
            let other = others.iter().find(is_inside);
            if thread.is_none() && other.is_some() && start.past(LET_GO) {
                let stays = |&(from, bytes): &_| {
                    // SAFETY: the buffers belong to calls that have failed, until these return:
                    // nobody of this process touches them, and their content means nothing.
                    let taken = unsafe { memory::take_back(from, bytes) };
                    if taken.is_ok() && is_pinned(from.addr(), bytes) {
                        self.warn_of_devices(from, bytes);
                    }
                    // What is no allocation any more the program has freed meanwhile.
                    taken.is_err_and(|error| error.code != Code::InvalidArgument)
                };
                written.retain(stays);
            }
            let waits = other.is_some() && (!start.past(LET_GO) || !written.is_empty());
            if thread.is_none() && !waits {
                return;
            }
            if let Some(&rank) = thread.or(other)
                && !warned
                && start.past(2 * LET_GO)
            {
                warned = true;
                self.warn_of(Rank(rank), thread.is_some());
            }
            looks += 1;
            match looks < LOOKS {
                true => std::thread::yield_now(),
                false => turn::nap(self.idle.as_ref(), REST),
            }
        }
    }

    #[cold]
    fn warn_of_devices(&self, from: *mut u8, bytes: usize) {
        tracing::warn!(
            "kolo: rank {}: the communicator has stopped, and {bytes} bytes of the receive buffer \
             at {from:p} have new pages, as another process may still write into the old ones; \
             CUDA devices use the old ones too: end its registration with CUDA \
             (cudaHostUnregister), and register it anew",
            self.rank,
        );
    }

    #[cold]
    fn warn_of(&self, rank: Rank, is_thread: bool) {
        match is_thread {
            true => tracing::warn!(
                "kolo: rank {}: the communicator has stopped, and this rank's buffers are given \
                 back when rank {rank}, a thread of this process, has ended the step in which it \
                 reads or writes them; if it never does, look at what its thread does, such as an \
                 operation of the program",
                self.rank,
            ),
            false => tracing::warn!(
                "kolo: rank {}: the communicator has stopped, and rank {rank} may still write into \
                 this rank's receive buffer, as the system puts no private pages in its place; \
                 let its process run on or end it",
                self.rank,
            ),
        }
    }

    /// After a stop: ends what is in flight, so that nobody touches its buffers any more. Waits for
    /// a driver to come out, but not for a call of the user.
    pub(in crate::comm) fn let_go(&self) {
        if fork::in_child_of_user() {
            return;
        }
        loop {
            // In an operation of the program the driver may be this very thread, and so it is not
            // waited for: the call that runs the operation lets go when it returns.
            let exec = match operation::inside_operation() {
                true => self.exec.driver_in_operation(),
                false => self.exec.driver_or_wait(),
            };
            let Some(mut exec) = exec else { break };
            let error = self.stop_error();
            self.fail(&mut exec, error);
            if exec.in_flight.is_empty() {
                break;
            }
        }
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Identity {
            name, rank, nranks, ..
        } = &self.health.identity;
        write!(f, "{name} (rank {rank} of {nranks})")
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // In a forked child a thread of the parent may hold the lock of the watch for ever.
        if !fork::in_child_of_user() {
            self.leave();
        }
    }
}

/// A call of the user. One that ends by a panic leaves a communicator of which nobody knows how far
/// it came, while others wait for this rank: it is stopped.
pub(in crate::comm) struct InCall<'a> {
    pub guard: Guard<'a, Exec>,
    pub queue: &'a Queue,
    /// Whether the thread was ending before the call, which a destructor then makes: 0 or 1, as a
    /// whole word, which is copied at once.
    pub unwinds: usize,
}

impl Deref for InCall<'_> {
    type Target = Exec;

    #[inline(always)]
    fn deref(&self) -> &Exec {
        &self.guard
    }
}

impl DerefMut for InCall<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Exec {
        &mut self.guard
    }
}

impl Drop for InCall<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if std::thread::panicking() && self.unwinds == 0 {
            self.panicked();
        }
    }
}

impl InCall<'_> {
    #[cold]
    fn panicked(&mut self) {
        let error = Error::internal(format!(
            "a check inside kolo failed on rank {}, in whose output it says which",
            self.queue.rank
        ));
        // It must not panic out of here: that would end the process.
        let _ = caught(|| self.queue.fail(&mut self.guard, error));
    }
}
