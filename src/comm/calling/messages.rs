//! Small messages on the calling thread: groups of sends and receives, such as a halo exchange,
//! and the collectives that are nothing but messages: gather, scatter, all-to-all, reduce.
//!
//! No plan is interpreted and no op is made; [`crate::exec::host::messages`] moves the same tokens
//! as the plan would.

use super::call::{Checked, Collective};
use super::waiting_call::WaitingCall;
use crate::base::Result;
use crate::comm::flight::wait::Waiter;
use crate::comm::owned::{Exec, Sizes};
use crate::comm::state::Inner;
use crate::exec::order::{MessageOrder, Rooted};
use crate::plan::{Algorithm, Direction, Placing, Protocol};
use crate::tune::{Choice, Route};

/// A message to or from another rank, as the engine takes it; its tokens are those of its plan.
#[inline(always)]
fn message(checked: &Checked, sizes: &Sizes) -> MessageOrder {
    let call = &checked.call;
    let (direction, place) = match call.collective {
        Collective::Send => (Direction::Send, call.send.cast_mut()),
        _ => (Direction::Recv, call.recv),
    };
    MessageOrder {
        peer: call.peer as usize,
        to_all: false,
        direction,
        place,
        bytes: checked.bytes,
        slice_bytes: sizes.slice(checked),
        signature: checked.signature,
    }
}

impl Sizes {
    /// Bytes of each token of a message of whole elements, but for the last one.
    #[inline(always)]
    fn slice(&self, checked: &Checked) -> usize {
        let (slot, element) = (self.slot(), checked.call.dtype.size_bytes());
        // No division where one token is enough.
        match checked.bytes <= slot {
            true => slot,
            false => slot / element * element,
        }
    }
}

impl Exec {
    /// How a rooted collective moves as it is waited for, if it does: its plan is one message on
    /// the first channel, and no cards are asked for.
    fn awaits_rooted(&mut self, checked: &Checked, route: Route) -> Option<Rooted> {
        use Algorithm::{Binomial, Bundle, Nvls, Ring};
        use Collective::{Broadcast, Gather, Reduce, Scatter};
        let (choice, may_be_direct) = match route {
            Route::Plan(choice) => (choice, false),
            Route::MayDirect(choice) => (choice, true),
            _ => return None,
        };
        let is_between_two = self.members.nranks == 2;
        let rooted = match (checked.call.collective, choice.algorithm) {
            (Broadcast, Nvls) => Rooted::Cast,
            (Broadcast | Reduce, Ring | Binomial) if is_between_two => Rooted::BetweenTwo,
            (Gather | Scatter, Bundle | Binomial) if is_between_two => Rooted::BetweenTwo,
            _ => return None,
        };
        let is_paired = rooted == Rooted::BetweenTwo;
        let awaits = checked.made.is_none()
            && choice.channels == 1
            && (!is_paired || choice.protocol.of_pairs() == Protocol::Simple)
            && self.engine.awaits_message(checked.bytes)
            && checked.call.dtype.size_bytes() <= self.sizes.slot()
            && (!may_be_direct || self.direct.passes(checked));
        awaits.then_some(rooted)
    }

    /// Whether a message moves as it is waited for: nothing else is in flight, it is not to this
    /// rank itself, and not too large.
    #[inline(always)]
    fn awaits_message(&self, checked: &Checked) -> bool {
        self.queue.is_empty()
            && checked.call.peer != self.members.rank
            && self.engine.awaits_message(checked.bytes)
            && checked.call.dtype.size_bytes() <= self.sizes.slot()
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
        if exec.engine.awaits(collective) {
            return self.awaited(exec, checked, number);
        }
        let placing = exec.placing(checked, choice.algorithm, choice.channels);
        if collective == Collective::Reduce && checked.call.peer == self.rank {
            return self.small_reduce(exec, checked, number, placing);
        }
        // SAFETY: the promise of `enqueue`.
        let begun = unsafe { exec.engine.begin_exchange(&checked.small(), placing) };
        exec.counts.steps_planned += begun.map_err(|error| self.fail(exec, error))?;
        self.run_messages(exec, WaitingCall::of(checked, number))
    }

    /// Waits for the messages of a call on one node, where they are alike.
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

    /// A message that is not in a group, if it moves as it is waited for.
    pub(in crate::comm) fn message_at_once(
        &self,
        exec: &mut Exec,
        checked: &Checked,
    ) -> Option<Result<()>> {
        let collective = checked.call.collective;
        if !collective.is_point_to_point() || !exec.awaits_message(checked) {
            return None;
        }
        let order = message(checked, &exec.sizes);
        let mut waiter = Waiter::new(self, WaitingCall::of(checked, None));
        // SAFETY: the promise of `enqueue`.
        let ended = unsafe { exec.engine.message(&order, &mut waiter) };
        drop(waiter);
        exec.counts.steps_planned += order.tokens();
        Some(ended.map_err(|stop| self.stopped_by(exec, stop, None)))
    }

    /// A rooted collective that is one message: its plan says no more than that.
    pub(in crate::comm) fn rooted_at_once(
        &self,
        exec: &mut Exec,
        checked: &Checked,
        number: Option<u64>,
        route: Route,
    ) -> Option<Result<()>> {
        let rooted = exec.awaits_rooted(checked, route)?;
        let slice_bytes = exec.sizes.slice(checked);
        let mut waiter = Waiter::new(self, (checked.call.collective.name(), number));
        let small = checked.small();
        // SAFETY: the promise of `enqueue`.
        let ended = unsafe { exec.engine.rooted(&small, rooted, slice_bytes, &mut waiter) };
        drop(waiter);
        Some(match ended {
            Ok(steps) => {
                exec.counts.steps_planned += steps;
                Ok(())
            }
            Err(stop) => Err(self.stopped_by(exec, stop, number)),
        })
    }

    /// Both halves of an exchange, if they move as they are waited for: the most usual group,
    /// without being written down. None for any other.
    pub(in crate::comm) fn exchange_at_once(&self, halves: [&Checked; 2]) -> Option<Result<()>> {
        let mut exec = match self.user() {
            Ok(exec) => exec,
            Err(error) => return Some(Err(error)),
        };
        if !halves.into_iter().all(|half| exec.awaits_message(half)) {
            return None;
        }
        let orders = halves.map(|half| {
            self.flip_if_due(&mut exec);
            message(half, &exec.sizes)
        });
        let mut waiter = Waiter::new(self, (Collective::Send.name(), None));
        let [send, recv] = &orders;
        // SAFETY: the promise of `enqueue_exchange`.
        let ended = unsafe { exec.engine.exchange([send, recv], &mut waiter) };
        drop(waiter);
        exec.counts.steps_planned += send.tokens() + recv.tokens();
        Some(ended.map_err(|stop| self.stopped_by(&mut exec, stop, None)))
    }

    /// Takes a message of a group down; it is not to this rank itself.
    pub(in crate::comm) fn add_message(&self, exec: &mut Exec, checked: &Checked) -> Result<()> {
        exec.engine.add_message(&message(checked, &exec.sizes))
    }

    /// Runs the messages that were taken down.
    pub(in crate::comm) fn run_messages(&self, exec: &mut Exec, call: WaitingCall) -> Result<()> {
        exec.counts.steps_planned += exec.engine.messages();
        let ended = self.drive(exec, call, |exec| {
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
        exec.counts.steps_planned += 1;
        exec.engine.begin_reduce();
        let small = checked.small();
        let ended = self.drive(exec, WaitingCall::of(checked, number), |exec| {
            // SAFETY: the promise of `enqueue`.
            Ok(unsafe { exec.engine.pass_reduce(&small, placing) }?.into())
        });
        ended.map_err(|error| self.fail(exec, error))
    }
}
