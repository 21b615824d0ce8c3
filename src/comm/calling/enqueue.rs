//! From a call to tokens: the blocking fast path, or ops for the queue.
//!
//! Data path of a small blocking call: [`enqueue`] checks -> the owner lock -> the
//! route ([`crate::tune::route`]) is that of small calls -> [`crate::exec::host::oneshot`] ->
//! `wire::fan`. No lock that waits, no hash, no clock, no allocation. Other routes are in
//! [`super::routed`]: small messages are as direct; everything else becomes an [`Op`] in the
//! communicator's queue, which the caller drives until its own call has ended
//! ([`crate::comm::flight::drive`]). Which executor runs a call is the form of its route.

use super::begin;
use super::call::Call;
use super::checked::{self, Checked};
use super::compared;
use super::compose;
use super::device;
use super::exact_calls;
use super::group;
use super::messages;
use super::ops;
use super::routed;
use super::tally;
use super::traced;
use crate::base::Result;
use crate::comm::flight::drive;
use crate::comm::flight::moving;
use crate::comm::flight::relief;
use crate::comm::flight::stream::Stream;
use crate::comm::flight::wait::Waiter;
use crate::comm::owned::Exec;
use crate::comm::queue::Queue;
use crate::plan::Collective;
use crate::tune::{CallForm, Called, Route};
use std::sync::Arc;

/// How a message is told of that goes with those before it on its stream.
const JOINED: &str = " on a stream, joined to those before it";

/// Runs one call, or begins it.
///
/// Without stream and outside of a group it returns when the result is in place. Inside a
/// group it only takes the call down; on a stream it begins it, in the order of the stream.
///
/// # Errors
/// `InvalidArgument` and `InvalidUsage` before anything is touched; `RemoteError` when a rank
/// died or aborted; `Timeout` after `KOLO_TIMEOUT`. After an error of the last two kinds the
/// communicator answers only abort, destroy and queries.
///
/// # Safety
/// The buffers hold what the call says, and nobody else touches them until it has ended.
#[inline(always)]
pub unsafe fn enqueue(queue: &Arc<Queue>, call: &Call, stream: Option<&Stream>) -> Result<()> {
    // Made here, from what the caller has in registers: loads wait for smaller stores before.
    enqueue_unseen(queue, &mut Checked::unseen(call), stream)
}

/// Enqueues a call that nobody has looked at.
fn enqueue_unseen(queue: &Arc<Queue>, unseen: &mut Checked, stream: Option<&Stream>) -> Result<()> {
    let run = |call: &mut Checked| {
        queue.callable()?;
        begin::look(queue, call)?;
        run_checked(queue, call, stream)
    };
    run(unseen).map_err(|error| {
        let name = unseen.call.collective.name();
        queue.tells(error).during(name)
    })
}

/// Runs a checked call, begins it, or takes it down for the end of the group.
#[inline(always)]
pub(in crate::comm) fn run_checked(
    queue: &Arc<Queue>,
    checked: &mut Checked,
    stream: Option<&Stream>,
) -> Result<()> {
    if let Some(stream) = stream {
        stream.takes_calls()?;
    }
    if group::active() {
        return group::push(queue, checked.clone(), stream);
    }
    match stream {
        None => blocking(queue, checked),
        Some(stream) => match stream.device() {
            None => on_stream(queue, checked, stream, stream.joins()),
            Some(stream) => device::on_device(queue, checked, stream),
        },
    }
}

/// Sends and receives at once, as `MPI_Sendrecv` does: neither message waits for the other.
/// The peers may be the same, different ones, this rank, or [`crate::comm::NO_RANK`].
///
/// # Errors
/// Those of [`enqueue`]; buffers that overlap.
///
/// # Safety
/// The promise of [`enqueue`], for both.
pub(in crate::comm) unsafe fn enqueue_exchange(
    queue: &Arc<Queue>,
    send: &Call,
    recv: &Call,
    stream: Option<&Stream>,
) -> Result<()> {
    let run = || {
        queue.callable()?;
        let (mut send, mut recv) = (Checked::unseen(send), Checked::unseen(recv));
        begin::look(queue, &mut send)?;
        begin::look(queue, &mut recv)?;
        checked::check_apart(&send, &recv)?;
        if let Some(stream) = stream.filter(|stream| stream.joins() && !group::active()) {
            stream.takes_calls()?;
            let mut exec = queue.user()?;
            put_on(queue, &mut exec, &mut send, stream, true)?;
            put_on(queue, &mut exec, &mut recv, stream, true)?;
            drop(exec);
            drive::set_off(queue);
            return Ok(());
        }
        let alone = stream.is_none() && !group::active() && !queue.seen.at_all;
        if alone && let Some(ended) = messages::exchange_at_once(queue, [&send, &recv]) {
            return ended;
        }
        let _timed = tally::waiting("SendRecv");
        group::start();
        let pushed = run_checked(queue, &mut send, stream)
            .and_then(|()| run_checked(queue, &mut recv, stream));
        pushed.and(group::end())
    };
    run().map_err(|error| queue.tells(error).during("SendRecv"))
}

/// Enqueues a call on a stream. A message joins the messages at the end of the queue instead of
/// waiting for them.
///
/// # Safety
/// The promise of [`enqueue`], and no two of the messages that join share memory.
pub(in crate::comm) unsafe fn enqueue_joining(
    queue: &Arc<Queue>,
    call: &Call,
    stream: &Stream,
) -> Result<()> {
    let run = || {
        queue.callable()?;
        let mut checked = begin::check(queue, call)?;
        on_stream(queue, &mut checked, stream, true)
    };
    run().map_err(|error| queue.tells(error).during(call.collective.name()))
}

#[inline]
fn blocking(queue: &Arc<Queue>, checked: &mut Checked) -> Result<()> {
    let mut exec = queue.user()?;
    let number = begin::begin(queue, &mut exec, checked);
    match queue.seen.at_all {
        false => at_once(queue, &mut exec, checked, number),
        true => observed(queue, &mut exec, checked, number),
    }
}

pub(in crate::comm) fn on_stream(
    queue: &Arc<Queue>,
    checked: &mut Checked,
    stream: &Stream,
    join: bool,
) -> Result<()> {
    let mut exec = queue.user()?;
    put_on(queue, &mut exec, checked, stream, join)?;
    drop(exec);
    drive::set_off(queue);
    Ok(())
}

/// Puts a call on a stream; whoever called sets it off.
fn put_on(
    queue: &Arc<Queue>,
    exec: &mut Exec,
    checked: &mut Checked,
    stream: &Stream,
    join: bool,
) -> Result<()> {
    let number = begin::begin(queue, exec, checked);
    let checked = &*checked;
    if checked.is_empty() && checked.call.collective.is_point_to_point() {
        return Ok(());
    }
    let joins = join
        && checked.call.collective.is_point_to_point()
        && exec
            .in_flight
            .back()
            .is_some_and(|op| op.collective.is_point_to_point());
    if joins && let Some(mut bundle) = exec.in_flight.pop_back() {
        let joined = moving::message(&mut bundle, exec, checked);
        if joined.is_ok() && stream.joins() {
            // The message is all that this stream waits for.
            stream.set_last(queue, bundle.watch_last(), bundle.collective.name());
        }
        exec.in_flight.push_back(bundle);
        joined.map_err(|error| queue.fail(exec, error))?;
        if queue.seen.at_all {
            let told = exec.told(checked, Called::Queued);
            if let Some(note) = traced::note(queue, checked, number, JOINED, told) {
                note.ended(&Ok(()));
            }
        }
    } else {
        drive::make_room(queue, exec, checked.call.collective.name())?;
        let ops = ops::ops_of(queue, exec, checked, number);
        let mut ops = ops.map_err(|error| queue.fail(exec, error))?;
        if queue.seen.at_all
            && let Some(last) = ops.last_mut()
        {
            let told = exec.told(checked, Called::Queued);
            last.note = traced::pending(queue, checked, number, told);
        }
        ops::put_on_stream(queue, exec, ops, stream);
    }
    Ok(())
}

/// Runs a call that has begun, on the calling thread.
#[inline(always)]
pub(in crate::comm) fn at_once(
    queue: &Queue,
    exec: &mut Exec,
    checked: &Checked,
    number: Option<u64>,
) -> Result<()> {
    if !exec.in_flight.is_empty() {
        return routed::behind(queue, exec, checked, number);
    }
    match exec.route(&checked.asked()) {
        Route::Nothing => Ok(()),
        Route::Small { .. } => oneshot(queue, exec, checked, number),
        Route::Alone { .. } => {
            alone(exec, checked);
            Ok(())
        }
        Route::Exact { .. } => {
            relief::relieve(queue, exec);
            exact_calls::exact(queue, exec, checked, number, short)
        }
        Route::Composed => composed(queue, exec, checked, number),
        larger => routed::larger(queue, exec, checked, number, larger),
    }
}

/// Runs a call that two plans in a row do.
fn composed(queue: &Queue, exec: &mut Exec, checked: &Checked, number: Option<u64>) -> Result<()> {
    relief::relieve(queue, exec);
    let parts = compose::parts_of(queue, exec, checked);
    let parts = parts.map_err(|error| queue.fail(exec, error))?;
    parts
        .iter()
        .try_for_each(|part| at_once(queue, exec, part, number))
}

/// A call that runs now, with checks of what it is and a line about it, as the settings ask.
#[cold]
pub(in crate::comm) fn observed(
    queue: &Queue,
    exec: &mut Exec,
    checked: &Checked,
    number: Option<u64>,
) -> Result<()> {
    let told = exec.told(checked, exec.called());
    let note = traced::note(queue, checked, number, "", told);
    let _here = queue.whereabouts.enter(checked, number, told);
    let timed = tally::blocking(checked);
    let mut ended = Ok(());
    if queue.seen.compared && number.is_some() && exec.in_flight.is_empty() {
        ended = compared::check_first(queue, exec, checked, number);
    }
    let ended = ended.and_then(|()| at_once(queue, exec, checked, number));
    drop(timed);
    if let Some(mut note) = note {
        note.settle(exec.cards_of(checked));
        note.ended(&ended);
    }
    ended
}

/// The copy of the only rank.
#[inline(always)]
fn alone(exec: &mut Exec, checked: &Checked) {
    if checked.call.collective != Collective::Barrier {
        exec.counts.steps_planned += 1;
        // SAFETY: the promise of `enqueue`.
        unsafe { exec.engine.alone(&checked.small()) };
    }
}

/// A call of one of these two forms.
pub(in crate::comm) fn short(
    form: CallForm,
    queue: &Queue,
    exec: &mut Exec,
    checked: &Checked,
    number: Option<u64>,
) -> Result<()> {
    if form == CallForm::OneShot {
        return oneshot(queue, exec, checked, number);
    }
    alone(exec, checked);
    Ok(())
}

/// A small call, without interpretation. Inline wherever it is called: a call of 8 bytes has
/// so few instructions that one more call would be seen.
#[inline(always)]
fn oneshot(queue: &Queue, exec: &mut Exec, checked: &Checked, number: Option<u64>) -> Result<()> {
    let collective = checked.call.collective;
    let small = checked.small();
    let mut waiter = Waiter::new(queue, (collective.name(), number));
    // SAFETY: the promise of `enqueue`.
    let ended = unsafe { exec.engine.small(&small, &mut waiter) };
    drop(waiter);
    exec.counts.small_calls[collective as usize] += 1;
    match ended {
        Ok(()) => Ok(()),
        Err(stop) => Err(queue.stopped_by(exec, stop, number)),
    }
}
