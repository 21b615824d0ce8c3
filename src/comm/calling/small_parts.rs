//! Calls of blocks of different sizes, where all messages of this rank are small: they move on the
//! calling thread, without a plan and without an op.
//!
//! Only this rank's blocks decide that. The tokens are those of the plan, so a rank with large
//! blocks may interpret it meanwhile.

use super::call::Checked;
use super::parts::{Deed, Part};
use super::waiting_call::WaitingCall;
use crate::base::Result;
use crate::comm::flight::wait::Waiter;
use crate::comm::owned::Exec;
use crate::comm::state::Inner;
use crate::exec::order::MessageOrder;
use crate::plan::Direction;
use crate::tune::is_small_message;

/// Whether each message of a call passes as one token, and nothing is folded.
pub(super) fn are_small(checked: &Checked, parts: &[Part]) -> bool {
    let element = checked.call.dtype.size_bytes();
    parts.iter().all(|part| match part.deed {
        Deed::Send | Deed::Recv => is_small_message(part.count * element),
        Deed::Copy => true,
        Deed::Fold => false,
    })
}

/// The message of one part of a call, if it is one.
#[inline(always)]
fn message(checked: &Checked, part: &Part) -> Option<MessageOrder> {
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
pub(super) fn at_once(inner: &Inner, checked: &mut Checked, parts: &[Part]) -> Option<Result<()>> {
    if !are_small(checked, parts) {
        return None;
    }
    let mut exec = match inner.user() {
        Ok(exec) => exec,
        Err(error) => return Some(Err(error)),
    };
    if !exec.queue.is_empty() {
        return None;
    }
    let number = inner.begin(&mut exec, checked);
    inner.relieve(&mut exec);
    Some(run(inner, &mut exec, checked, parts, number))
}

/// Runs a call whose messages are small, while nothing else is in flight.
pub(super) fn run(
    inner: &Inner,
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
    let orders = parts.iter().filter_map(|part| message(checked, part));
    if let Some(few) = FewMessages::of(exec, orders.clone()) {
        return run_few(inner, exec, &few, call);
    }
    exec.engine.clear_messages();
    for order in orders {
        let added = exec.engine.add_message(&order);
        added.map_err(|error| inner.fail(exec, error))?;
    }
    inner.run_messages(exec, call)
}

fn run_few(
    inner: &Inner,
    exec: &mut Exec,
    messages: &FewMessages,
    call: WaitingCall,
) -> Result<()> {
    let mut waiter = Waiter::new(inner, call);
    // SAFETY: the promise of `enqueue`.
    let ended = unsafe {
        match messages {
            FewMessages::One(one) => exec.engine.message(one, &mut waiter),
            FewMessages::Both { send, recv } => exec.engine.exchange([send, recv], &mut waiter),
        }
    };
    drop(waiter);
    exec.counts.steps_planned += messages.tokens();
    ended.map_err(|stop| inner.stopped_by(exec, stop, call.number))
}
