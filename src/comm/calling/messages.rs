//! Calls that are messages, on the calling thread: one function for each form of them (message,
//! exchange, rooted and cast, bundle). The form is decided by [`crate::tune::form`]; here the order
//! is made for the executor that it names.
//!
//! No plan is interpreted and no op is made; [`crate::exec::host::exchange`] moves the same tokens
//! as the plan would.

use super::begin;
use super::call::Collective;
use super::checked::Checked;
use super::parts::{Deed, Part, own_blocks};
use super::placing;
use super::waiting_call::WaitingCall;
use crate::base::Result;
use crate::comm::flight::drive;
use crate::comm::flight::relief;
use crate::comm::flight::wait::Waiter;
use crate::comm::owned::{Exec, Sizes};
use crate::comm::queue::Queue;
use crate::exec::order::MessageOrder;
use crate::plan::Direction;
use crate::tune::{CallForm, Called, Choice, OwnBlocks};

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

/// Runs a message or a small collective of messages as a bundle.
pub(in crate::comm) fn bundle(
    queue: &Queue,
    exec: &mut Exec,
    checked: &Checked,
    number: Option<u64>,
    choice: Choice,
) -> Result<()> {
    let placing = placing::placing(exec, checked, choice.algorithm, choice.channels);
    // SAFETY: the promise of `enqueue`.
    let begun = unsafe { exec.engine.begin_exchange(&checked.small(), placing) };
    exec.counts.steps_planned += begun.map_err(|error| queue.fail(exec, error))?;
    run_messages(queue, exec, WaitingCall::of(checked, number))
}

/// Runs a rooted collective on one node, waiting for each of its messages; the root's goes to all
/// others if `to_all`.
pub(super) fn rooted(
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

/// Runs a message that is not in a group, waiting for each of its tokens.
pub(super) fn alone(queue: &Queue, exec: &mut Exec, checked: &Checked) -> Result<()> {
    let order = message(checked, &exec.sizes);
    let mut waiter = Waiter::new(queue, WaitingCall::of(checked, None));
    // SAFETY: the promise of `enqueue`.
    let ended = unsafe { exec.engine.message(&order, &mut waiter) };
    drop(waiter);
    exec.counts.steps_planned += order.tokens();
    ended.map_err(|stop| queue.stopped_by(exec, stop, None))
}

/// Both halves of an exchange, if that is its form: the most usual group, without being written
/// down. None for any other.
pub(in crate::comm) fn exchange_at_once(
    queue: &Queue,
    halves: [&Checked; 2],
) -> Option<Result<()>> {
    let mut exec = match queue.user() {
        Ok(exec) => exec,
        Err(error) => return Some(Err(error)),
    };
    let is_own = |half: &Checked| half.call.peer == exec.members.rank;
    if !exec.in_flight.is_empty() || halves.into_iter().any(is_own) {
        return None;
    }
    let sizes = halves.map(|half| half.bytes);
    if exec.table.forms().of_both(sizes) != CallForm::Exchange {
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

/// Runs a call of blocks that has not begun, if nothing else is in flight and its form is none that
/// a plan is interpreted for. None for any other.
pub(super) fn parts_at_once(
    queue: &Queue,
    checked: &mut Checked,
    parts: &[Part],
) -> Option<Result<()>> {
    let blocks = own_blocks(parts, checked.call.dtype.size_bytes());
    if blocks == OwnBlocks::Large {
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
    let form = exec.table.forms().of_blocks(blocks, Called::AtOnce);
    Some(run_parts(queue, &mut exec, checked, parts, number, form))
}

/// Runs a call whose messages are small, by one of the forms of messages.
pub(super) fn run_parts(
    queue: &Queue,
    exec: &mut Exec,
    checked: &Checked,
    parts: &[Part],
    number: Option<u64>,
    form: CallForm,
) -> Result<()> {
    for own in parts.iter().filter(|part| part.deed == Deed::Copy) {
        let bytes = own.count * checked.call.dtype.size_bytes();
        // SAFETY: the promise of `enqueue`; what is not the same block is apart.
        unsafe { exec.engine.copy_own(own.send, own.recv, bytes) };
        exec.counts.steps_planned += 1;
    }
    let call = WaitingCall::of(checked, number);
    let mut orders = parts.iter().filter_map(|part| part_message(checked, part));
    if matches!(form, CallForm::Message | CallForm::Exchange) {
        let one = orders.next();
        return run_few(queue, exec, one, orders.next(), call);
    }
    exec.engine.clear_messages();
    for order in orders {
        let added = exec.engine.add_message(&order);
        added.map_err(|error| queue.fail(exec, error))?;
    }
    run_messages(queue, exec, call)
}

/// Runs a message, or a send and a receive.
fn run_few(
    queue: &Queue,
    exec: &mut Exec,
    one: Option<MessageOrder>,
    other: Option<MessageOrder>,
    call: WaitingCall,
) -> Result<()> {
    let tokens = |order: &Option<MessageOrder>| order.as_ref().map_or(0, MessageOrder::tokens);
    let mut waiter = Waiter::new(queue, call);
    // SAFETY: the promise of `enqueue`.
    let ended = unsafe {
        match (&one, &other) {
            (Some(send), Some(recv)) => exec.engine.exchange([send, recv], &mut waiter),
            (Some(one), None) | (None, Some(one)) => exec.engine.message(one, &mut waiter),
            (None, None) => Ok(()),
        }
    };
    drop(waiter);
    exec.counts.steps_planned += tokens(&one) + tokens(&other);
    ended.map_err(|stop| queue.stopped_by(exec, stop, call.number))
}
