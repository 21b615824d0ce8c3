//! How a communicator stops: everything in flight ends, and its buffers are let go.
//!
//! Peers may read the buffers of a direct call at that moment, or write into them
//! ([`crate::wire::reading`]). A thread of this process that does so is waited for, as the caller
//! may free the memory after the error. Another process has a mapping of its own, and finds out
//! itself that what it has read does not count: it is waited for as long as a rank on a core takes,
//! and not for ever. If it may still write then, it loses the memory: private pages take its
//! place, at the same address.

use super::deaths::Hears;
use super::fault;
use crate::base::{Code, Error, Rank, clock};
use crate::comm::flight::op::Op;
use crate::comm::flight::turn;
use crate::comm::owned::Exec;
use crate::comm::state::Inner;
use crate::exec::Stop;
use crate::exec::operation;
use crate::proxy::net::Links;
use crate::proxy::service::{Alarm, EndStep};
use crate::transport::registered::is_pinned;
use crate::transport::{fork, memory};
use crate::wire::reading::owner_stops;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long a rank whose call failed waits for other processes that touch its buffers: one that has
/// a core is done long before. A warning names who is waited for twice as long.
const LET_GO: Duration = Duration::from_secs(1);
/// The rest between two looks at a peer that has not ended at once.
const REST: Duration = Duration::from_micros(500);
/// Looks without a rest.
const LOOKS: u32 = 1000;

impl Hears for Inner {
    fn has_let_go(&self, rank: Rank) -> bool {
        self.network.is_none() && self.node.board(rank.index()).has_left()
    }

    fn has_ended(&self, rank: Rank) -> bool {
        self.node.board(rank.index()).has_ended()
    }

    fn have_vanished(&self, ranks: &[Rank]) {
        Inner::have_vanished(self, ranks);
    }

    fn ends(&self, step: EndStep, is_last: bool) -> bool {
        self.end(step, is_last)
    }

    fn hears(&self, error: &Error) {
        match self.node.aborted() {
            // A consequence of what the abort record tells, or nothing beside it. Whoever wrote it
            // may not have lived to tell the other nodes.
            true => self.alarm(Alarm::Abort),
            false => self.stop(error),
        }
    }
}

impl Inner {
    /// The reason, wherever it happened.
    #[cold]
    pub fn stop_error(&self) -> Error {
        if fork::in_child_of_user() {
            let error = Error::usage(
                "this process was forked from the one that made the communicator",
                "make calls only in the process that made the communicator; create communicators \
                 after fork",
            );
            return self.tells(error);
        }
        if let Some(error) = self.links().and_then(Links::failure)
            && !self.ending.stopped.load(Ordering::Acquire)
            && !self.node.aborted()
            && let Some(error) = fault::of_network(self, error)
        {
            self.stop(&error);
        }
        if !self.ending.stopped.load(Ordering::Acquire)
            && let Some(abort) = self.node.abort_reason()
        {
            let mut failure = self
                .ending
                .failure
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert(abort);
            self.ending.stopped.store(true, Ordering::Release);
        }
        self.ending.told.store(true, Ordering::Relaxed);
        self.stop_reason()
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
        let shown = exec.queue.iter().any(Op::is_direct);
        let ended: Vec<Op> = exec.queue.drain(..).collect();
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
            mates.partition(|&rank| exec.direct.is_of_this_process(rank as usize));
        let is_inside = |rank: &&u32| !self.node.reading(**rank as usize).is_over();
        let mut written: Vec<(*mut u8, usize)> = ended.iter().flat_map(Op::written).collect();
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
            if exec.queue.is_empty() {
                break;
            }
        }
    }
}
