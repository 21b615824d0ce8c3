//! Small messages on the calling thread: groups of sends and receives, such as a halo exchange,
//! and the collectives that are nothing but messages: gather, scatter, all-to-all, reduce.
//!
//! No plan is interpreted and no op is made; [`crate::exec::host::messages`] moves the same tokens
//! as the plan would.

use super::call::{Checked, Collective};
use crate::base::Result;
use crate::comm::flight::wait::Waiter;
use crate::comm::owned::Exec;
use crate::comm::state::Inner;
use crate::exec::order::SmallMessage;
use crate::plan::{Direction, Placing};
use crate::tune::{Choice, route};

/// A message to or from another rank, as the engine takes it.
#[inline(always)]
fn message(checked: &Checked) -> SmallMessage {
    let call = &checked.call;
    let (direction, place) = match call.collective {
        Collective::Send => (Direction::Send, call.send.cast_mut()),
        _ => (Direction::Recv, call.recv),
    };
    SmallMessage {
        peer: call.peer as usize,
        direction,
        place,
        bytes: checked.bytes,
        signature: checked.signature,
    }
}

impl Inner {
    /// Runs a message or a small collective of messages while nothing else is in flight.
    pub(in crate::comm) fn small_messages(
        &self,
        exec: &mut Exec,
        checked: &Checked,
        number: Option<u64>,
        choice: Choice,
    ) -> Result<()> {
        let collective = checked.call.collective;
        if exec.engine.is_awaited_on_the_spot(collective) {
            return self.awaited(exec, checked, number);
        }
        let placing = exec.placing(checked, choice.algorithm, choice.channels);
        if collective == Collective::Reduce && checked.call.peer == self.rank {
            return self.small_reduce(exec, checked, number, placing);
        }
        // SAFETY: the promise of `enqueue`.
        let begun = unsafe { exec.engine.begin_exchange(&checked.small(), placing) };
        exec.counts.steps_planned += begun.map_err(|error| self.fail(exec, error))?;
        self.run_messages(exec, (collective, number))
    }

    /// The same on one node, where the call is a message or some that are alike.
    fn awaited(&self, exec: &mut Exec, checked: &Checked, number: Option<u64>) -> Result<()> {
        let mut waiter = Waiter::new(self, (checked.call.collective.name(), number));
        // SAFETY: the promise of `enqueue`.
        let ended = unsafe { exec.engine.awaited(&checked.small(), &mut waiter) };
        drop(waiter);
        match ended {
            Ok(steps) => {
                exec.counts.steps_planned += steps;
                Ok(())
            }
            Err(stop) => Err(self.stopped_by(exec, stop, number)),
        }
    }

    /// Both halves of an exchange, if nothing else is in flight, they are small, and all ranks are
    /// on this node: the most usual group, without being written down. None for any other.
    pub(in crate::comm) fn exchange_at_once(&self, halves: [&Checked; 2]) -> Option<Result<()>> {
        let mut exec = match self.user() {
            Ok(exec) => exec,
            Err(error) => return Some(Err(error)),
        };
        let is_small = |half: &Checked| {
            route::is_small_message(half.bytes) && half.call.peer != exec.members.rank
        };
        let at_once = exec.queue.is_empty()
            && halves.into_iter().all(is_small)
            && exec.engine.is_awaited_on_the_spot(Collective::Send);
        if !at_once {
            return None;
        }
        let messages = halves.map(|half| {
            self.flip_if_due(&mut exec);
            message(half)
        });
        let mut waiter = Waiter::new(self, (Collective::Send.name(), None));
        let [send, recv] = &messages;
        // SAFETY: the promise of `enqueue_exchange`.
        let ended = unsafe { exec.engine.exchange([send, recv], &mut waiter) };
        drop(waiter);
        exec.counts.steps_planned += halves.iter().filter(|half| half.bytes > 0).count() as u64;
        Some(ended.map_err(|stop| self.stopped_by(&mut exec, stop, None)))
    }

    /// Takes a message of a group down; it is not to this rank itself.
    pub(in crate::comm) fn add_message(&self, exec: &mut Exec, checked: &Checked) -> Result<()> {
        exec.engine.add_message(&message(checked))
    }

    /// Runs the messages that were taken down.
    pub(in crate::comm) fn run_messages(
        &self,
        exec: &mut Exec,
        (collective, number): (Collective, Option<u64>),
    ) -> Result<()> {
        exec.counts.steps_planned += exec.engine.messages();
        let ended = self.drive(exec, (collective.name(), number), |exec| {
            // SAFETY: the promise of `enqueue`.
            Ok(unsafe { exec.engine.pass_messages() }?.into())
        });
        ended.map_err(|error| self.fail(exec, error))
    }

    /// The root of a small reduce.
    fn small_reduce(
        &self,
        exec: &mut Exec,
        checked: &Checked,
        number: Option<u64>,
        placing: Placing,
    ) -> Result<()> {
        let call = &checked.call;
        exec.counts.steps_planned += 1;
        exec.engine.begin_reduce();
        let small = checked.small();
        let ended = self.drive(exec, (call.collective.name(), number), |exec| {
            // SAFETY: the promise of `enqueue`.
            Ok(unsafe { exec.engine.pass_reduce(&small, placing) }?.into())
        });
        ended.map_err(|error| self.fail(exec, error))
    }
}
