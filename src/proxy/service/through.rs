//! How a rank sends through another rank of its node, and that one for it.

use super::super::net::Op;
use super::super::patience::{LATE, Late};
use super::super::state::{ProxyRank, Start};
use super::{Service, Watch};
use crate::base::Rank;
use crate::transport::segment::Nonce;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// Between two looks whether the process may exit.
const EXIT_PAUSE: Duration = Duration::from_millis(1);

/// A rank that calls others of its node.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    service: &'static Service,
    nonce: Nonce,
    rank: Rank,
}

impl Watch {
    /// From now on the rank sends for others of its node; `proxy` is called on the service thread,
    /// or by a rank of this process.
    pub fn serve(&self, proxy: Arc<dyn ProxyRank>) {
        self.service.lock().serve(self.nonce, self.id, proxy);
    }

    /// What calls other ranks in this rank's name, as long as the watch lives.
    pub fn caller(&self) -> Caller {
        Caller {
            service: self.service,
            nonce: self.nonce,
            rank: self.rank,
        }
    }
}

impl Caller {
    /// Has rank `to` of the node send what `op` says. False if it must be asked again, because that
    /// rank's process takes no messages at the moment.
    pub fn start(&self, to: Rank, op: Op) -> bool {
        let mut state = self.service.lock();
        let started = state.start(self.nonce, (self.rank, to), &op);
        drop(state);
        match started {
            Start::Own(proxy) => proxy.start(self.rank, op),
            // The service thread must look whether the socket has room again.
            Start::Queued => self.service.wake(),
            Start::NotYet => return false,
            // The death of a process stops the communicator by another way.
            Start::Posted | Start::Gone => {}
        }
        true
    }

    /// Tells rank `to` that nothing more is to be sent.
    pub fn close(&self, to: Rank) -> Elsewhere {
        let operation = self.service.lock().close(self.nonce, (self.rank, to));
        self.service.wake();
        Elsewhere {
            service: self.service,
            operation,
        }
    }
}

/// Another rank that sends the rest.
#[derive(Debug)]
pub struct Elsewhere {
    service: &'static Service,
    operation: u64,
}

impl Elsewhere {
    /// Waits until all has arrived, or the other process has ended. A process that is stopped is
    /// waited for, with a warning each minute.
    pub fn wait(self) {
        let mut late = Late::new("sends for this one");
        let mut state = self.service.lock();
        while state.answer(self.operation).is_none() {
            let waited = self.service.answers.wait_timeout(state, LATE);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            late.warn();
        }
    }
}

impl Service {
    /// Waits, at the exit of the process, until what its ranks still send for others is over. They
    /// have left their communicators, others have not.
    pub(super) fn await_senders(&self) {
        let mut late = Late::new("sends through this one, which is about to exit,");
        while self.lock().proxies().any(|proxy| proxy.is_left_open()) {
            std::thread::sleep(EXIT_PAUSE);
            late.warn();
        }
    }

    /// The service thread's part: hands over what others want sent, and answers those who wait for
    /// what has arrived meanwhile.
    pub(super) fn send_for_others(&self) {
        let mut state = self.lock();
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
        if !done.is_empty() {
            let mut state = self.lock();
            done.iter().for_each(|call| state.finish(call));
            drop(state);
            self.answers.notify_all();
        }
    }
}
