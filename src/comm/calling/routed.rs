//! From a route to tokens, but for the shortest ones ([`super::enqueue`]): on the calling thread at
//! once, or as ops for the queue.
//!
//! Which way a call goes and by which executor is [`Route`]'s answer. The way is the same on all
//! ranks; the executor is this rank's own affair: what passes between ranks is the same either way.

use super::checked::Checked;
use super::messages;
use super::ops;
use super::waiting_call::WaitingCall;
use crate::base::Result;
use crate::comm::flight::drive;
use crate::comm::flight::moving;
use crate::comm::flight::relief;
use crate::comm::owned::Exec;
use crate::comm::queue::Queue;
use crate::topo::WaitPolicy;
use crate::tune::{CallForm, Called, Cards, Route};
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
    let route = whole(queue, exec, checked, route);
    let ended = match (route.form(), route) {
        // First, as these are the shortest.
        (CallForm::Rooted, _) => messages::rooted(queue, exec, checked, number, false),
        (CallForm::Message | CallForm::Exchange | CallForm::Bundle, Route::Parts { .. }) => {
            let parts = checked.parts.as_deref().unwrap_or_default();
            messages::run_parts(queue, exec, checked, parts, number, route.form())
        }
        (CallForm::Message, _) => messages::alone(queue, exec, checked),
        (CallForm::Bundle, Route::Messages { choice, .. }) => {
            messages::bundle(queue, exec, checked, number, choice)
        }
        (CallForm::Cast, _) => messages::rooted(queue, exec, checked, number, true),
        _ => interpreted(queue, exec, checked, number, route),
    };
    ended?;
    let_readers_run(queue, exec, checked.bytes);
    Ok(())
}

/// The route with those facts that only some calls need: what their blocks are, and whether they
/// show cards.
#[inline(always)]
fn whole(queue: &Queue, exec: &mut Exec, checked: &Checked, route: Route) -> Route {
    match route {
        Route::Parts { .. } => exec.route(&checked.asked_all(Called::AtOnce, queue.nranks)),
        Route::MayDirect { .. } if !exec.engine.take_turn_of_cards(checked.bytes) => {
            moving::settle(queue, exec, checked.number, Cards::NotShown);
            route.after(Cards::NotShown)
        }
        route => route,
    }
}

/// Runs a call for which a plan is interpreted.
fn interpreted(
    queue: &Queue,
    exec: &mut Exec,
    checked: &Checked,
    number: Option<u64>,
    route: Route,
) -> Result<()> {
    let mut op = exec.spare_op(checked.call.collective);
    // The memory of a connection is taken when it is first used, and the others count on this
    // call from its beginning.
    let added = ops::add_to(&mut op, exec, checked, route);
    added.map_err(|error| queue.fail(exec, error))?;
    op.flight.decide_to_show();
    drive::run_alone(queue, exec, op, WaitingCall::of(checked, number))
}

/// Where ranks outnumber cores, a rank that leaves a call and computes keeps its core for a
/// whole time slice. Whoever has yet to read much of what it wrote gets the core first.
#[inline]
fn let_readers_run(queue: &Queue, exec: &mut Exec, bytes: usize) {
    /// Reading less takes no longer than some changes of thread.
    const MUCH: usize = 256 << 10;
    let is_crowded = || queue.wait.policy != WaitPolicy::Spin;
    if bytes >= MUCH && is_crowded() && exec.engine.ports().is_unread() {
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
