//! From a route to tokens, but for the shortest ones ([`super::enqueue`]): on the calling thread at
//! once, or as ops for the queue.
//!
//! Which way a call goes is [`Route`]'s answer, the same on all ranks. Whether it runs at once is
//! this rank's own affair: what passes between ranks is the same either way.

use super::checked::Checked;
use super::messages;
use super::ops;
use super::waiting_call::WaitingCall;
use crate::base::Result;
use crate::comm::flight::drive;
use crate::comm::flight::relief;
use crate::comm::owned::Exec;
use crate::comm::queue::Queue;
use crate::topo::WaitPolicy;
use crate::tune::Route;
use std::sync::Arc;

/// Runs a call, which is not as short as can be, while nothing else is in flight.
///
/// # Errors
/// The communicator has stopped, but for a message to oneself.
pub(in crate::comm) fn larger(
    queue: &Queue,
    exec: &mut Exec,
    checked: &Checked,
    number: Option<u64>,
    route: Route,
) -> Result<()> {
    let is_message = checked.call.collective.is_point_to_point();
    if is_message {
        checked.refuse_own(queue.rank)?;
    }
    relief::relieve(queue, exec);
    let at_once = match route {
        _ if is_message => messages::message_at_once(queue, exec, checked),
        // First, as these are the shortest.
        Route::Messages(choice) => {
            return messages::small_messages(queue, exec, checked, number, choice);
        }
        Route::Parts => {
            let parts = checked.parts.as_deref();
            let small = parts.filter(|parts| messages::are_small(checked, parts));
            small.map(|parts| messages::run_parts(queue, exec, checked, parts, number))
        }
        // None for what has no root.
        route => messages::rooted_at_once(queue, exec, checked, number, route),
    };
    if let Some(ended) = at_once {
        let_readers_run(queue, exec, checked.bytes);
        return ended;
    }
    // A message, as all others have returned. With the check its plan waits for the receive.
    if let Route::Messages(choice) = route
        && !queue.seen.compared
    {
        return messages::small_messages(queue, exec, checked, number, choice);
    }
    let mut op = exec.spare_op(checked.call.collective);
    // The memory of a connection is taken when it is first used, and the others count on this
    // call from its beginning.
    let added = ops::add_to(&mut op, exec, checked, route);
    added.map_err(|error| queue.fail(exec, error))?;
    drive::run_alone(queue, exec, op, WaitingCall::of(checked, number))?;
    let_readers_run(queue, exec, checked.bytes);
    Ok(())
}

/// Where ranks outnumber cores, a rank that leaves a call and computes keeps its core for a
/// whole time slice. Whoever has yet to read much of what it wrote gets the core first.
#[inline]
fn let_readers_run(queue: &Queue, exec: &mut Exec, bytes: usize) {
    /// Reading less takes no longer than some changes of thread.
    const MUCH: usize = 256 << 10;
    let is_crowded = queue.wait.policy != WaitPolicy::Spin;
    if is_crowded && bytes >= MUCH && exec.engine.ports().is_unread() {
        std::thread::yield_now();
    }
}

/// Runs a call behind those that are in flight.
#[cold]
pub(in crate::comm) fn behind(
    queue: &Queue,
    exec: &mut Exec,
    checked: &Checked,
    number: Option<u64>,
) -> Result<()> {
    checked.refuse_own(queue.rank)?;
    let ops = ops::ops_of(queue, exec, checked, number);
    let ops = ops.map_err(|error| queue.fail(exec, error))?;
    let Some(last) = ops.last().map(|op| Arc::clone(&op.completion)) else {
        return Ok(());
    };
    exec.in_flight.extend(ops);
    drive::drive_until(queue, exec, &last, (checked.call.collective.name(), number))
}
