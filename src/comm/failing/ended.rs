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
use super::stood::Stood;
use crate::base::{Error, Rank, Result};
use crate::comm::calling::call::Call;
use crate::comm::owned::Exec;
use crate::comm::state::Inner;
use crate::exec::CommDevice;
use crate::proxy::progress::Pass;
use crate::proxy::service::{Alarm, EndStep};
use std::time::Duration;

/// For how long what an ended rank did before its end may still come.
const GRACE: Duration = Duration::from_millis(200);
/// Passes over the network between two looks at the kernels, and in one look of an exit.
const PASSES: u32 = 256;
/// How often an exit tries to get hold of what a driver may have.
const TRIES: u32 = 1000;

/// Whether anything of a rank is in flight, at a look of its exit.
enum LeftToDo {
    Nothing,
    /// Only what the network has yet to take.
    OnItsWay,
    /// A call, or what others send through it.
    Inside,
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
    /// Goes on with a step, and says whether it is done.
    pub(super) fn end(&self, step: EndStep, is_last: bool) -> bool {
        let board = self.node.board(self.rank as usize);
        if board.has_left() || self.is_stopped() {
            return true;
        }
        match (step, board.has_ended()) {
            (EndStep::Note, false) => match self.left_to_do() {
                LeftToDo::Nothing => {
                    board.end();
                    self.node.wake_others();
                    true
                }
                LeftToDo::OnItsWay => false,
                LeftToDo::Inside => true,
            },
            (EndStep::Tell, true) => self.network.as_ref().is_none_or(|it| it.end(is_last)),
            _ => true,
        }
    }

    /// One look at what is in flight.
    fn left_to_do(&self) -> LeftToDo {
        // Else a call is inside, of which nobody knows how far it is, perhaps of this very thread.
        let exec = (0..TRIES).find_map(|_| {
            let exec = self.exec.driver();
            if exec.is_none() {
                std::thread::yield_now();
            }
            exec
        });
        let Some(mut exec) = exec else {
            return LeftToDo::Inside;
        };
        let device = exec.device.as_deref_mut();
        let is_quiet = device.is_none_or(|on| matches!(on.engine.is_quiet(), Ok(true)));
        if !exec.queue.is_empty() || !is_quiet {
            return LeftToDo::Inside;
        }
        let Some(network) = &self.network else {
            return LeftToDo::Nothing;
        };
        let moves = |_: &u32| network.links.is_busy() && network.links.pass() == Pass::Moved;
        (0..PASSES).take_while(moves).for_each(drop);
        match () {
            () if network.links.is_busy() => LeftToDo::OnItsWay,
            // Others count on this process for what they send.
            () if network.sends_for_others() => LeftToDo::Inside,
            () => LeftToDo::Nothing,
        }
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

    /// A call waits for a rank: whether that has ended, and nothing comes from it any more.
    ///
    /// # Errors
    /// If so.
    pub(in crate::comm) fn is_still_there(
        &self,
        seen: &mut Stood,
        call: &str,
        peer: usize,
    ) -> Result<()> {
        if !self.node.board(peer).has_ended() || peer as u32 == self.rank {
            seen.forget();
            return Ok(());
        }
        // The first look may have come behind the last pass.
        let grace = self.grace(peer as u32);
        match seen.since(peer as u32, 0) {
            Some(since) if since.past(grace) => Err(needed(self, call, peer)),
            _ => Ok(()),
        }
    }

    /// How long something may still come of a rank that has ended: what it left on this node is
    /// there.
    fn grace(&self, rank: u32) -> Duration {
        match self.node.board(rank as usize).has_vanished() && self.is_mate(rank) {
            true => Duration::ZERO,
            false => GRACE,
        }
    }

    /// That calls of the device are under way which a rank has not begun that has ended, or
    /// messages with it: their kernels leave when the communicator stops.
    pub(in crate::comm) fn kernels_wait(&self, exec: &mut Exec) -> Option<Error> {
        let calls = exec.counts.calls;
        let ended = |rank: &u32| *rank != self.rank && self.node.board(*rank as usize).has_ended();
        let ended = || (0..self.nranks).filter(ended);
        ended().next()?;
        let device = exec.device.as_deref_mut()?;
        if !matches!(device.engine.is_quiet(), Ok(false)) {
            return None;
        }
        let is_behind = |rank: &u32| self.node.board(*rank as usize).calls() < calls;
        let mut has_stalled = |rank: &u32| match device.engine.waits_for(*rank) {
            Ok(Some(count)) => {
                let since = device.stalled.since(*rank, count);
                let grace = self.grace(*rank);
                grace.is_zero() || since.is_some_and(|since| since.past(grace))
            }
            _ => false,
        };
        let missing = ended().find(is_behind);
        let rank = missing.or_else(|| ended().find(|rank| has_stalled(rank)))?;
        Some(needed(
            self,
            "a call on a stream of the device",
            rank as usize,
        ))
    }

    /// An end, for whoever passes again and again: looks only now and then.
    pub(in crate::comm) fn kernels_wait_by_now(&self, exec: &mut Exec) -> Option<Error> {
        let device = exec.device.as_deref_mut()?;
        device.passes = device.passes.wrapping_add(1);
        match device.passes.is_multiple_of(PASSES) {
            true => self.kernels_wait(exec),
            false => None,
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

#[cfg(test)]
mod tests {
    use crate::base::{Result, clock};
    use crate::bootstrap::ThreadsBootstrap;
    use crate::comm::{Call, Collective, CommConfig, Communicator, RedOp, Stream};
    use crate::dtype::DataType;
    use std::time::Duration;

    /// Two ranks, each on a node of its own.
    fn apart() -> Vec<Communicator> {
        let members = ThreadsBootstrap::group(2).into_iter().enumerate();
        std::thread::scope(|scope| {
            let join = |(rank, member): (usize, ThreadsBootstrap)| {
                scope.spawn(move || {
                    let words = [
                        ("hostid", format!("node{rank}")),
                        ("socket_ifname", "=lo".into()),
                    ];
                    let overrides = words.map(|(name, value)| (name.to_string(), value));
                    let config = CommConfig {
                        overrides: overrides.to_vec(),
                        ..CommConfig::default()
                    };
                    Communicator::init_bootstrap(Box::new(member), &config)
                })
            };
            let joining: Vec<_> = members.map(join).collect();
            let joined = joining.into_iter().map(|it| it.join().expect("no panic"));
            joined.collect::<Result<_>>().expect("communicators")
        })
    }

    /// Nothing but the news comes: no connection ends, and nobody waits in a call.
    #[test]
    fn whoever_only_asks_hears_of_an_end_elsewhere() {
        let comms = apart();
        let mut byte = [0_u8];
        let call = Call {
            collective: Collective::Recv,
            send: std::ptr::null(),
            recv: byte.as_mut_ptr(),
            count: 1,
            dtype: DataType::Uint8,
            op: RedOp::SUM,
            peer: 1,
        };
        let stream = Stream::for_one_call().unwrap();
        // SAFETY: the byte stays until the call has ended.
        unsafe { comms[0].enqueue(&call, Some(&stream)) }.unwrap();
        assert_eq!(stream.query(), Ok(false));
        // As the lookout of this node writes it down.
        comms[0].inner.node.board(1).end();
        let start = clock::now();
        let error = loop {
            match stream.query() {
                Ok(is_over) => assert!(!is_over && !start.past(Duration::from_secs(20))),
                Err(error) => break error.to_string(),
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        assert!(
            error.contains("rank 1 on ") && error.contains("has ended"),
            "{error}"
        );
    }
}
