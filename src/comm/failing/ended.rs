//! Ranks whose process has ended with status 0 without `CommDestroy`, and nothing of them in
//! flight: they have *ended*. That is no error by itself. A call that needs such a rank fails.
//!
//! **Problem.** A program that has done its work may end without a word to kolo, and the others may
//! still work without it. But whoever counts on it must not wait for ever, and a process that
//! breaks off in the middle of something is a death.
//!
//! **Idea.** As the process exits, it asks each communicator whether anything is in flight, and
//! notes the end on the rank's board ([`crate::wire::board`]), which lookouts tell other nodes.
//! The end of its socket is no death then ([`super::deaths`]). Whoever waits for a rank looks at
//! its board: where nothing has come for [`GRACE`] since the end was seen, the call fails. (Behind
//! the note, exit handlers of the program may still make calls, and from another node data may come
//! later than the news.)

use super::fault;
use crate::base::clock::{self, Moment};
use crate::base::{Error, Rank, Result};
use crate::comm::calling::call::Call;
use crate::comm::owned::Exec;
use crate::comm::state::Inner;
use crate::exec::CommDevice;
use crate::proxy::net::Links;
use crate::proxy::progress::Pass;
use crate::proxy::service::{Alarm, EndStep};
use std::time::Duration;

/// For how long what an ended rank did before its end may still come.
const GRACE: Duration = Duration::from_millis(200);
/// How long an exit waits for what is on its way to other nodes.
const PARTING: Duration = Duration::from_secs(1);
/// How often an exit tries to get hold of what a driver may have.
const TRIES: u32 = 1000;
const PAUSE: Duration = Duration::from_micros(100);

/// A waiting call's view of the end of the rank that it waits for.
#[derive(Default)]
pub(in crate::comm) struct SeenEnd(Option<(usize, Moment)>);

impl SeenEnd {
    /// Whether the rank that is waited for has ended, and nothing comes from it any more.
    ///
    /// # Errors
    /// If so.
    pub fn look(&mut self, inner: &Inner, call: &str, peer: usize) -> Result<()> {
        let board = inner.node.board(peer);
        if !board.has_ended() || peer as u32 == inner.rank {
            self.0 = None;
            return Ok(());
        }
        // What it left on this node is there. The first look may have come behind the last pass.
        let grace = match board.has_vanished() && inner.is_mate(peer as u32) {
            true => Duration::ZERO,
            false => GRACE,
        };
        match &self.0 {
            Some((known, since)) if *known == peer => match since.past(grace) {
                true => Err(needed(inner, call, peer)),
                false => Ok(()),
            },
            _ => {
                self.0 = Some((peer, clock::now()));
                Ok(())
            }
        }
    }
}

/// That an ended rank is waited for.
fn needed(inner: &Inner, call: &str, peer: usize) -> Error {
    let gone = (
        Rank(peer as u32),
        inner.place(peer as u32),
        inner.node.board(peer),
    );
    fault::left(gone, (Rank(inner.rank), call))
}

impl Inner {
    /// The process of this rank exits with status 0: the rank leaves so, if nothing is in flight.
    pub(super) fn end(&self, step: EndStep) {
        let board = self.node.board(self.rank as usize);
        if board.has_left() || self.is_stopped() {
            return;
        }
        match step {
            EndStep::Note if !board.has_ended() && self.is_idle() => {
                board.end();
                self.node.wake_others();
            }
            EndStep::Tell if board.has_ended() => {
                if let Some(network) = &self.network {
                    network.end(PARTING);
                }
            }
            _ => {}
        }
    }

    /// Whether nothing of this rank is in flight, nor of others through it.
    fn is_idle(&self) -> bool {
        // Else a call is inside, of which nobody knows how far it is, perhaps of this very thread.
        let exec = (0..TRIES).find_map(|_| {
            let exec = self.exec.driver();
            if exec.is_none() {
                std::thread::yield_now();
            }
            exec
        });
        let Some(mut exec) = exec else { return false };
        let device = exec.device.as_deref_mut();
        let is_quiet = device.is_none_or(|on| matches!(on.engine.is_quiet(), Ok(true)));
        if !exec.queue.is_empty() || !is_quiet {
            return false;
        }
        let Some(network) = &self.network else {
            return true;
        };
        let start = clock::now();
        while self.links().is_some_and(Links::is_busy) {
            if network.links.pass() == Pass::Moved {
                continue;
            }
            if start.past(PARTING) {
                return false;
            }
            std::thread::sleep(PAUSE);
        }
        // What goes through other ranks of the node, or from them through this one, may still be on
        // its way; nobody but `CommDestroy` asks.
        network.links.proxies().is_empty() && !network.sends_for_others()
    }

    /// There are no processes of these ranks any more, which have ended.
    pub(super) fn have_vanished(&self, ranks: &[Rank]) {
        let boards = ranks.iter().map(|rank| self.node.board(rank.index()));
        boards.for_each(|board| board.vanish());
        self.node.wake_others();
        if ranks.iter().any(|rank| self.is_mate(rank.0)) {
            // The other nodes hear what this one knows.
            self.alarm(Alarm::Ask);
        }
        // Whoever is inside waits, and looks.
        if self.device != CommDevice::Host
            && let Some(mut exec) = self.exec.driver()
            && let Some(error) = self.kernels_wait(&mut exec)
        {
            self.fail(&mut exec, error);
        }
    }

    /// That calls of the device are under way which a rank has not begun that has ended: their
    /// kernels leave when the communicator stops.
    pub(in crate::comm) fn kernels_wait(&self, exec: &mut Exec) -> Option<Error> {
        let calls = exec.counts.calls;
        let is_behind = |rank: &u32| {
            let board = self.node.board(*rank as usize);
            board.has_ended() && board.calls() < calls && *rank != self.rank
        };
        let rank = (0..self.nranks).find(is_behind)?;
        let device = exec.device.as_deref_mut()?;
        match device.engine.is_quiet() {
            Ok(false) => Some(needed(
                self,
                "a call on a stream of the device",
                rank as usize,
            )),
            _ => None,
        }
    }

    /// Whether a call in flight waits for a rank of this node that has vanished: nothing comes from
    /// it any more.
    ///
    /// # Errors
    /// If so.
    #[cold]
    pub(in crate::comm) fn is_needed(&self, peer: usize) -> Result<()> {
        let has_vanished = self.node.board(peer).has_vanished();
        match has_vanished && self.is_mate(peer as u32) {
            true => Err(needed(self, "a call in flight", peer)),
            false => Ok(()),
        }
    }

    /// Refuses a call that a rank takes part in which has ended: all do but in messages.
    ///
    /// # Errors
    /// If one has.
    pub(in crate::comm) fn all_are_there(&self, call: &Call) -> Result<()> {
        let is_message = call.collective.is_point_to_point();
        let takes_part = |rank: &u32| *rank != self.rank && (!is_message || *rank == call.peer);
        let ended = |rank: &u32| self.node.board(*rank as usize).has_ended();
        let missing = (0..self.nranks).find(|rank| takes_part(rank) && ended(rank));
        missing.map_or(Ok(()), |rank| {
            Err(needed(self, call.collective.name(), rank as usize))
        })
    }
}
