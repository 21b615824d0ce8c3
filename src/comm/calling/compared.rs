//! The comparison before a call that the setting `check` asks for: all ranks show its signature in
//! a barrier.

use super::checked::Checked;
use crate::base::Result;
use crate::comm::flight::op::Op;
use crate::comm::flight::wait::Waiter;
use crate::comm::flight::{drive, moving};
use crate::comm::owned::Exec;
use crate::comm::queue::Queue;
use crate::exec::combine::Combine;
use crate::plan::{Algorithm, Collective};
use crate::tune::Choice;

/// `KOLO_CHECK`: all ranks show their signatures before the call.
#[cold]
pub(in crate::comm) fn check_first(
    queue: &Queue,
    exec: &mut Exec,
    checked: &Checked,
    number: Option<u64>,
) -> Result<()> {
    if queue.nranks == 1 {
        return Ok(());
    }
    if exec.engine.is_between_nodes() {
        let check = check_op(exec, checked);
        let check = check.map_err(|error| queue.fail(exec, error))?;
        return drive::run_alone(
            queue,
            exec,
            Box::new(check),
            (checked.call.collective.name(), number).into(),
        );
    }
    // It is this call in which others are waited for, and not the barrier that shows it.
    let shown = checked.shown().small();
    let mut waiter = Waiter::new(queue, (checked.call.collective.name(), number));
    // SAFETY: the promise of `enqueue`; nothing but the signature is exchanged.
    let ended = unsafe { exec.engine.small(&shown, &mut waiter) };
    drop(waiter);
    exec.counts.small_calls[Collective::Barrier as usize] += 1;
    ended.map_err(|stop| queue.stopped_by(exec, stop, number))
}

/// The barrier that shows a call, as an op.
///
/// # Errors
/// A connection cannot be made.
pub(in crate::comm) fn check_op(exec: &mut Exec, checked: &Checked) -> Result<Op> {
    let shown = checked.shown();
    // Fans reach the ranks of one node only.
    let algorithm = match exec.engine.is_between_nodes() {
        false => Algorithm::OneShot,
        true => Algorithm::Dissemination,
    };
    let choice = Choice::plain(Collective::Barrier, algorithm, 1);
    // The call that is compared is what it waits in.
    let mut op = Op::new(checked.call.collective);
    let copy = Combine::copy(shown.call.dtype);
    moving::collective(&mut op, exec, &shown, copy, choice)?;
    Ok(op)
}
