//! Calls that are messages, on the calling thread: small ones (groups such as a halo exchange;
//! gather, scatter, all-to-all, reduce; blocks of different sizes, where all of this rank are
//! small), and single ones of less than 2 MiB, also of a collective with a root.
//!
//! No plan is interpreted and no op is made; [`crate::exec::host::exchange`] moves the same tokens
//! as the plan would.

use super::begin;
use super::call::Collective;
use super::checked::Checked;
use super::parts::{Deed, Part};
use super::placing;
use super::waiting_call::WaitingCall;
use crate::base::Result;
use crate::comm::flight::drive;
use crate::comm::flight::relief;
use crate::comm::flight::wait::Waiter;
use crate::comm::owned::{Exec, Sizes};
use crate::comm::queue::Queue;
use crate::exec::order::{MessageOrder, Rooted};
use crate::plan::{Algorithm, Direction, Protocol};
use crate::tune::{Choice, Route, is_small_message};

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
        slice_bytes: slice(sizes, checked),
        signature: checked.signature,
    }
}

/// Bytes of each token of a message of whole elements, but for the last one.
#[inline(always)]
fn slice(sizes: &Sizes, checked: &Checked) -> usize {
    let (slot, element) = (sizes.slot(), checked.call.dtype.size_bytes());
    // No division where one token is enough.
    match checked.bytes <= slot {
        true => slot,
        false => slot / element * element,
    }
}

/// How a rooted collective moves as it is waited for, if it does: its plan is one message on
/// the first channel, and no cards are asked for.
fn awaits_rooted(exec: &mut Exec, checked: &Checked, route: Route) -> Option<Rooted> {
    use Algorithm::{Binomial, Bundle, Nvls, Ring};
    use Collective::{Broadcast, Gather, Reduce, Scatter};
    let (choice, may_be_direct) = match route {
        Route::Plan(choice) => (choice, false),
        Route::MayDirect(choice) => (choice, true),
        _ => return None,
    };
    let is_between_two = exec.members.nranks == 2;
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
        && exec.engine.awaits_message(checked.bytes)
        && checked.call.dtype.size_bytes() <= exec.sizes.slot()
        && (!may_be_direct || exec.direct.passes(checked));
    awaits.then_some(rooted)
}

/// Whether a message moves as it is waited for: nothing else is in flight, it is not to this
/// rank itself, and not too large.
#[inline(always)]
fn awaits_message(exec: &Exec, checked: &Checked) -> bool {
    exec.in_flight.is_empty()
        && checked.call.peer != exec.members.rank
        && exec.engine.awaits_message(checked.bytes)
        && checked.call.dtype.size_bytes() <= exec.sizes.slot()
}

/// Runs a message or a small collective of messages while nothing else is in flight.
pub(in crate::comm) fn small_messages(
    queue: &Queue,
    exec: &mut Exec,
    checked: &Checked,
    number: Option<u64>,
    choice: Choice,
) -> Result<()> {
    let collective = checked.call.collective;
    if exec.engine.awaits(collective) {
        return rooted(queue, exec, checked, number, false);
    }
    let placing = placing::placing(exec, checked, choice.algorithm, choice.channels);
    // SAFETY: the promise of `enqueue`.
    let begun = unsafe { exec.engine.begin_exchange(&checked.small(), placing) };
    exec.counts.steps_planned += begun.map_err(|error| queue.fail(exec, error))?;
    run_messages(queue, exec, WaitingCall::of(checked, number))
}

/// Runs a rooted collective on one node, waiting for each of its messages; the root's goes to all
/// others if `to_all`.
fn rooted(
    queue: &Queue,
    exec: &mut Exec,
    checked: &Checked,
    number: Option<u64>,
    to_all: bool,
) -> Result<()> {
    let (small, slice_bytes) = (checked.small(), slice(&exec.sizes, checked));
    let mut waiter = Waiter::new(queue, (checked.call.collective.name(), number));
    // SAFETY: the promise of `enqueue`.
    let ended = unsafe { exec.engine.rooted(&small, to_all, slice_bytes, &mut waiter) };
    drop(waiter);
    let steps = ended.map_err(|stop| queue.stopped_by(exec, stop, number))?;
    exec.counts.steps_planned += steps;
    Ok(())
}

/// A message that is not in a group, if it moves as it is waited for.
pub(in crate::comm) fn message_at_once(
    queue: &Queue,
    exec: &mut Exec,
    checked: &Checked,
) -> Option<Result<()>> {
    let collective = checked.call.collective;
    if !collective.is_point_to_point() || !awaits_message(exec, checked) {
        return None;
    }
    let order = message(checked, &exec.sizes);
    let mut waiter = Waiter::new(queue, WaitingCall::of(checked, None));
    // SAFETY: the promise of `enqueue`.
    let ended = unsafe { exec.engine.message(&order, &mut waiter) };
    drop(waiter);
    exec.counts.steps_planned += order.tokens();
    Some(ended.map_err(|stop| queue.stopped_by(exec, stop, None)))
}

/// A rooted collective that is one message: its plan says no more than that.
pub(in crate::comm) fn rooted_at_once(
    queue: &Queue,
    exec: &mut Exec,
    checked: &Checked,
    number: Option<u64>,
    route: Route,
) -> Option<Result<()>> {
    let rooted = awaits_rooted(exec, checked, route)?;
    Some(self::rooted(
        queue,
        exec,
        checked,
        number,
        rooted == Rooted::Cast,
    ))
}

/// Both halves of an exchange, if they move as they are waited for: the most usual group,
/// without being written down. None for any other.
pub(in crate::comm) fn exchange_at_once(
    queue: &Queue,
    halves: [&Checked; 2],
) -> Option<Result<()>> {
    let mut exec = match queue.user() {
        Ok(exec) => exec,
        Err(error) => return Some(Err(error)),
    };
    if !halves.into_iter().all(|half| awaits_message(&exec, half)) {
        return None;
    }
    let orders = halves.map(|half| {
        begin::flip_if_due(&mut exec);
        message(half, &exec.sizes)
    });
    let mut waiter = Waiter::new(queue, (Collective::Send.name(), None));
    let [send, recv] = &orders;
    // SAFETY: the promise of `enqueue_exchange`.
    let ended = unsafe { exec.engine.exchange([send, recv], &mut waiter) };
    drop(waiter);
    exec.counts.steps_planned += send.tokens() + recv.tokens();
    Some(ended.map_err(|stop| queue.stopped_by(&mut exec, stop, None)))
}

/// Takes a message of a group down; it is not to this rank itself.
pub(in crate::comm) fn add_message(exec: &mut Exec, checked: &Checked) -> Result<()> {
    exec.engine.add_message(&message(checked, &exec.sizes))
}

/// Runs the messages that were taken down.
pub(in crate::comm) fn run_messages(
    queue: &Queue,
    exec: &mut Exec,
    call: WaitingCall,
) -> Result<()> {
    exec.counts.steps_planned += exec.engine.messages();
    let ended = drive::drive(queue, exec, call, |exec| {
        // SAFETY: the promise of `enqueue`.
        Ok(unsafe { exec.engine.pass_messages() }?.into())
    });
    ended.map_err(|error| queue.fail(exec, error))
}

/// Whether each message of a call passes as one token, the own block is no longer, and nothing is
/// folded.
pub(super) fn are_small(checked: &Checked, parts: &[Part]) -> bool {
    let element = checked.call.dtype.size_bytes();
    let is_small = |part: &Part| is_small_message(part.count * element);
    parts
        .iter()
        .all(|part| part.deed != Deed::Fold && is_small(part))
}

/// The message of one part of a call, if it is one.
#[inline(always)]
fn part_message(checked: &Checked, part: &Part) -> Option<MessageOrder> {
    let (direction, place) = match part.deed {
        Deed::Send => (Direction::Send, part.send.cast_mut()),
        Deed::Recv => (Direction::Recv, part.recv),
        Deed::Copy | Deed::Fold => return None,
    };
    let bytes = part.count * checked.call.dtype.size_bytes();
    Some(MessageOrder {
        peer: part.peer as usize,
        to_all: false,
        direction,
        place,
        bytes,
        slice_bytes: bytes,
        signature: part.signature ^ checked.past,
    })
}

/// Messages that need not be written down, as there is at most one in each direction.
enum FewMessages {
    One(MessageOrder),
    Both {
        send: MessageOrder,
        recv: MessageOrder,
    },
}

impl FewMessages {
    /// These messages, where they are so few and the engine moves each as it is waited for.
    fn of(exec: &Exec, mut orders: impl Iterator<Item = MessageOrder>) -> Option<FewMessages> {
        let (first, second) = (orders.next()?, orders.next());
        let moves =
            |order: &MessageOrder| order.bytes > 0 && exec.engine.awaits_message(order.bytes);
        if orders.next().is_some() || !moves(&first) || !second.iter().all(moves) {
            return None;
        }
        match (first.direction, second) {
            (_, None) => Some(FewMessages::One(first)),
            (Direction::Send, Some(recv)) if recv.direction == Direction::Recv => {
                Some(FewMessages::Both { send: first, recv })
            }
            _ => None,
        }
    }

    fn tokens(&self) -> u64 {
        match self {
            FewMessages::One(one) => one.tokens(),
            FewMessages::Both { send, recv } => send.tokens() + recv.tokens(),
        }
    }
}

/// Runs a call that has not begun, if all of its messages are small and nothing else is in
/// flight. None for any other.
pub(super) fn parts_at_once(
    queue: &Queue,
    checked: &mut Checked,
    parts: &[Part],
) -> Option<Result<()>> {
    if !are_small(checked, parts) {
        return None;
    }
    let mut exec = match queue.user() {
        Ok(exec) => exec,
        Err(error) => return Some(Err(error)),
    };
    if !exec.in_flight.is_empty() {
        return None;
    }
    let number = begin::begin(queue, &mut exec, checked);
    relief::relieve(queue, &mut exec);
    Some(run_parts(queue, &mut exec, checked, parts, number))
}

/// Runs a call whose messages are small, while nothing else is in flight.
pub(super) fn run_parts(
    queue: &Queue,
    exec: &mut Exec,
    checked: &Checked,
    parts: &[Part],
    number: Option<u64>,
) -> Result<()> {
    for own in parts.iter().filter(|part| part.deed == Deed::Copy) {
        let bytes = own.count * checked.call.dtype.size_bytes();
        // SAFETY: the promise of `enqueue`; what is not the same block is apart.
        unsafe { exec.engine.copy_own(own.send, own.recv, bytes) };
        exec.counts.steps_planned += 1;
    }
    let call = WaitingCall::of(checked, number);
    let orders = parts.iter().filter_map(|part| part_message(checked, part));
    if let Some(few) = FewMessages::of(exec, orders.clone()) {
        return run_few(queue, exec, &few, call);
    }
    exec.engine.clear_messages();
    for order in orders {
        let added = exec.engine.add_message(&order);
        added.map_err(|error| queue.fail(exec, error))?;
    }
    run_messages(queue, exec, call)
}

fn run_few(
    queue: &Queue,
    exec: &mut Exec,
    messages: &FewMessages,
    call: WaitingCall,
) -> Result<()> {
    let mut waiter = Waiter::new(queue, call);
    // SAFETY: the promise of `enqueue`.
    let ended = unsafe {
        match messages {
            FewMessages::One(one) => exec.engine.message(one, &mut waiter),
            FewMessages::Both { send, recv } => exec.engine.exchange([send, recv], &mut waiter),
        }
    };
    drop(waiter);
    exec.counts.steps_planned += messages.tokens();
    ended.map_err(|stop| queue.stopped_by(exec, stop, call.number))
}
