//! A call as ops for the queue of calls in flight.

use super::checked::Checked;
use super::compared;
use super::compose;
use super::exact;
use crate::base::{Error, Result};
use crate::comm::flight::op::Op;
use crate::comm::flight::stream::Stream;
use crate::comm::flight::{drive, moving, order};
use crate::comm::owned::Exec;
use crate::comm::queue::Queue;
use crate::tune::{CallForm, Called, Route};
use std::sync::Arc;

/// The ops of a call: a check of signatures if wanted, and the call itself.
///
/// # Errors
/// The communicator is not stopped yet; it must be, for others count on a call that has begun.
pub(in crate::comm) fn ops_of(
    queue: &Queue,
    exec: &mut Exec,
    checked: &Checked,
    number: Option<u64>,
) -> Result<Vec<Op>> {
    let call = &checked.call;
    let mut ops = Vec::with_capacity(2);
    // The same on all ranks, whatever is in flight here: each queued collective has its check.
    if queue.seen.compared && queue.nranks > 1 && !call.collective.is_point_to_point() {
        ops.push(compared::check_op(exec, checked)?);
    }
    push_ops(queue, exec, checked, &mut ops)?;
    for op in &mut ops {
        op.number = number;
    }
    Ok(ops)
}

/// Appends the ops of the call itself.
fn push_ops(queue: &Queue, exec: &mut Exec, checked: &Checked, ops: &mut Vec<Op>) -> Result<()> {
    match exec.route(&checked.asked().made(Called::Queued)) {
        Route::Nothing => Ok(()),
        Route::Exact { .. } => {
            let ranks = (queue.rank, queue.nranks);
            ops.push(Op::exact(exact::Exact::new(checked, ranks, None)));
            Ok(())
        }
        Route::Composed => {
            let parts = compose::parts_of(queue, exec, checked)?;
            parts
                .iter()
                .try_for_each(|part| push_ops(queue, exec, part, ops))
        }
        route => {
            let mut op = Op::new(checked.call.collective);
            add_to(&mut op, exec, checked, route)?;
            ops.push(op);
            Ok(())
        }
    }
}

/// Adds one call, which goes by one plan or as messages, to an op.
pub(in crate::comm) fn add_to(
    op: &mut Op,
    exec: &mut Exec,
    checked: &Checked,
    route: Route,
) -> Result<()> {
    let call = &checked.call;
    if call.collective.is_point_to_point() {
        return moving::message(op, exec, checked);
    }
    let combine = checked.combine();
    op.by_program |= combine.is_by_program();
    if let Some(parts) = &checked.parts {
        return parts
            .iter()
            .try_for_each(|part| moving::part(op, exec, checked, &combine, part));
    }
    if let Route::MayDirect {
        choice,
        form: CallForm::Cards,
        ..
    } = route
    {
        op.number = Some(checked.number);
        let order = order::direct_order(exec, checked, combine, choice);
        exec.engine.add_direct(&mut op.flight, order);
        return Ok(());
    }
    let choice = route.choice(&checked.asked(), &exec.table);
    let choice = choice.ok_or_else(|| Error::internal("a call of several plans has no choice"));
    moving::collective(op, exec, checked, combine, choice?)
}

/// Puts ops into the queue, behind what is on the stream already.
pub(in crate::comm) fn put_on_stream(
    queue: &Arc<Queue>,
    exec: &mut Exec,
    ops: Vec<Op>,
    stream: &Stream,
) {
    for mut op in ops {
        if stream.joins() && op.collective.is_point_to_point() {
            stream.set_last(queue, op.watch_last(), op.collective.name());
        } else {
            stream.follow(queue, &mut op);
        }
        drive::keep_caller(queue, &mut op);
        exec.in_flight.push_back(op);
    }
}
