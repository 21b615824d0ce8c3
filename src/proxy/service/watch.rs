//! A rank's watch over its communicator.

use super::super::patience::{Late, Until, no_room, persist};
use super::super::state::{Alarm, Answer, OnAlarm, OnDeath, OnEnd, Peer, ProxyRank, Staying};
use super::super::state::{leaving, posts};
use super::{Caller, Service, exit};
use crate::base::Rank;
use crate::transport::segment::Nonce;
use std::io;
use std::sync::{Arc, PoisonError};

/// One rank's watch over its communicator. Dropping it says goodbye: the end of this process is
/// no longer a death for that communicator, and no callback begins any more (one that has already
/// begun may still be running on the service thread).
///
/// Dropping it in a forked child does nothing.
#[derive(Debug)]
pub struct Watch {
    service: &'static Service,
    nonce: Nonce,
    rank: Rank,
    id: u64,
}

impl Watch {
    /// Begins to watch a communicator for `rank` of this process: from now on other processes may
    /// introduce their ranks, and `on_death` is called for each process that ends before its ranks
    /// said goodbye. `node` is this machine's name, for messages.
    pub fn begin(
        service: &'static Service,
        nonce: Nonce,
        rank: Rank,
        node: &str,
        on_death: OnDeath,
    ) -> Watch {
        let id = service.lock().watch(nonce, rank, node, on_death);
        Watch {
            service,
            nonce,
            rank,
            id,
        }
    }

    /// Calls `on_alarm` on the service thread whenever a rank of this machine raises an alarm
    /// about the communicator. It must not block.
    pub fn heed(&self, on_alarm: OnAlarm) {
        self.service.lock().heed(self.nonce, self.id, on_alarm);
    }

    /// Has `on_end` called when this process exits with status 0: what it leaves so is no death.
    pub fn at_end(&self, on_end: OnEnd) {
        self.service.lock().at_end(self.nonce, self.id, on_end);
    }

    /// Tells all processes of this machine that take part, this one too.
    pub fn alarm(&self, why: Alarm) {
        self.service.alarm(self.nonce, why);
    }

    /// Makes sure that this process and `peer` are linked and know each other as members of the
    /// communicator, as far as it is this side's part: of two processes, the one with the larger
    /// address does it. The other must have begun to watch before.
    ///
    /// Errors and waiting are those of [`Service::fetch_until`].
    pub fn link(&self, peer: &Peer, until: Until) -> io::Result<()> {
        if self.service.address <= peer.address {
            return Ok(());
        }
        let mut late = Late::new("makes a communicator with this one", until);
        persist(&mut late, |late| {
            let (nonce, service) = (self.nonce, self.service);
            let mut state = service.lock();
            let operation = state.hello(nonce, self.rank, service.pid, peer)?;
            service.wake();
            loop {
                drop(state);
                let rest = late.rest();
                state = service.lock();
                match state.answer(operation) {
                    Some(Answer::Welcome) => return Ok(()),
                    Some(Answer::NoRoom(limit)) => {
                        service.wake();
                        return Err(no_room(limit));
                    }
                    Some(Answer::Refused | Answer::Lost) => {
                        service.wake();
                        return Err(io::ErrorKind::ConnectionReset.into());
                    }
                    None => {}
                }
                let waited = service.answers.wait_timeout(state, rest);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
                if let Err(error) = late.check() {
                    state.forget(operation);
                    service.wake();
                    return Err(error);
                }
            }
        })
    }

    /// Has the exit of this process told to those who watch it.
    pub fn tell_exit(&self) {
        exit::tell();
    }

    /// Has the exit of this process wait until other nodes know of it.
    pub fn heed_exit(&self) {
        exit::heed();
    }

    /// The rank is about to leave, but its lookout stays.
    pub fn stay(&self, keeper: Arc<dyn Staying>) {
        exit::heed();
        posts::stay(&mut self.service.lock(), self.nonce, self.id, keeper);
    }

    /// From now on the rank sends for others of its node; `proxy` is called on the service thread.
    pub fn serve(&self, proxy: Arc<dyn ProxyRank>) {
        exit::heed();
        self.service.lock().serve(self.nonce, self.id, proxy);
    }

    /// Returns a caller that calls other ranks in this rank's name, as long as the watch lives.
    pub fn caller(&self) -> Caller {
        Caller::new(self.service, self.nonce, self.rank)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if self.service.pid == std::process::id() {
            leaving::unwatch(&mut self.service.lock(), self.nonce, self.id);
            self.service.wake();
        }
    }
}
