//! How a rank sends through another rank of its node, and that one for it.

use super::super::net::Op;
use super::super::patience::END_LATE;
use super::super::state::{ByProxy, Start, proxied};
use super::super::stopped::{STOPPED_LIMIT, Stopped};
use super::Service;
use crate::base::{Rank, clock, turns};
use crate::transport::segment::Nonce;
use std::sync::PoisonError;
use std::time::Duration;

/// How long the end of a communicator sleeps at most; it is woken for the answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);

/// A rank that calls others of its node.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    service: &'static Service,
    nonce: Nonce,
    rank: Rank,
}

impl Caller {
    /// Rank `rank` of this process calls others of its node.
    pub(super) fn new(service: &'static Service, nonce: Nonce, rank: Rank) -> Caller {
        Caller {
            service,
            nonce,
            rank,
        }
    }

    /// A forked child has inherited this, and must touch neither locks nor descriptors.
    fn is_inherited(&self) -> bool {
        self.service.pid != std::process::id()
    }

    fn through(&self, to: Rank) -> ByProxy {
        ByProxy {
            nonce: self.nonce,
            from: self.rank,
            to,
        }
    }

    /// Has rank `to` of the node send what `op` says. False if it must be asked again, because that
    /// rank's process takes no messages at the moment.
    pub fn start(&self, to: Rank, op: Op) -> bool {
        if self.is_inherited() {
            return true;
        }
        let mut state = self.service.lock();
        let started = proxied::start(&mut state, self.through(to), &op);
        drop(state);
        match started {
            // The service thread hands it over, or looks whether the socket has room again.
            Start::Queued => self.service.wake(),
            Start::NotYet => return false,
            // The death of a process stops the communicator by another way.
            Start::Posted | Start::Gone => {}
        }
        true
    }

    /// Tells rank `to` that nothing more is to be sent.
    pub fn close(&self, to: Rank) -> Elsewhere {
        let operation = (!self.is_inherited()).then(|| {
            let operation = proxied::close(&mut self.service.lock(), self.through(to));
            self.service.wake();
            operation
        });
        Elsewhere {
            caller: *self,
            to,
            operation,
        }
    }
}

/// Another rank that sends the rest.
#[derive(Debug)]
pub struct Elsewhere {
    caller: Caller,
    to: Rank,
    /// `None` if there is nothing to wait for.
    operation: Option<u64>,
}

impl Elsewhere {
    /// Waits until all has arrived, or the other process has ended, or was stopped for long. The
    /// other process says who is late; that it is late itself is said here.
    pub fn wait(self) {
        self.wait_within(STOPPED_LIMIT);
    }

    /// The process exits: whether all has arrived. After the last look nobody asks any more.
    pub fn has_ended(&mut self, is_last: bool) -> bool {
        let Some(operation) = self.operation else {
            return true;
        };
        let mut state = self.caller.service.lock();
        if state.answer(operation).is_some() {
            self.operation = None;
        } else if is_last {
            state.forget(operation);
            self.operation = None;
        }
        self.operation.is_none()
    }

    /// `limit`: how long the other process may be stopped.
    pub(super) fn wait_within(self, limit: Duration) {
        let Some(operation) = self.operation else {
            return;
        };
        let (service, start) = (self.caller.service, clock::now());
        let mut warned = false;
        let mut stopped = Stopped::new(limit);
        let mut state = service.lock();
        while state.answer(operation).is_none() {
            drop(state);
            let rest = turns::some_rest();
            state = service.lock();
            let process = proxied::process_of(&state, self.caller.nonce, self.to);
            if stopped.for_too_long(&[process]) {
                state.forget(operation);
                drop(state);
                tracing::warn!(
                    "kolo: rank {}: the communicator ends though rank {}, which sends for this one \
                     (setting pxn), has not sent all: its process {process} is stopped, by a \
                     signal or a debugger, and what this rank has sent may be lost",
                    self.caller.rank,
                    self.to,
                );
                return;
            }
            let waited = service.answers.wait_timeout(state, ANSWER_LIMIT.min(rest));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            if !warned && start.past(END_LATE) {
                warned = true;
                drop(state);
                tracing::warn!(
                    "kolo: rank {}: the end of the communicator waits for rank {}, which sends for \
                     this one (setting pxn): its peers have not received all that was sent, or \
                     its process is stopped (look for a rank that is late, or for a debugger)",
                    self.caller.rank,
                    self.to,
                );
                state = service.lock();
            }
        }
    }
}

/// The service thread's part: hands over what others want sent, and answers those who wait for
/// what has arrived meanwhile. With it a turn ends.
pub(super) fn send_for_others(service: &Service) {
    let mut state = service.lock();
    let started = std::mem::take(&mut state.started);
    let gone = std::mem::take(&mut state.gone);
    let unfinished = state.unfinished.clone();
    drop(state);
    for started in started {
        started.proxy.start(started.from, started.op);
    }
    for (proxy, ranks) in gone {
        proxy.gone(&ranks);
    }
    let done: Vec<_> = unfinished
        .into_iter()
        .filter(|call| call.proxy.is_done(call.from))
        .collect();
    let mut state = service.lock();
    done.iter()
        .for_each(|call| proxied::finish(&mut state, call));
    state.turns += 1;
    drop(state);
    service.answers.notify_all();
}
