//! Exact sums as calls: at once where they are few, through the queue otherwise.

use super::checked::Checked;
use super::exact::{Exact, decode, encode, in_parts, sum_words, typed};
use super::whole::format;
use crate::base::Result;
use crate::comm::flight::drive;
use crate::comm::flight::op::Op;
use crate::comm::owned::Exec;
use crate::comm::queue::Queue;
use crate::dtype::DataType;
use crate::dtype::exact::wire::Format;
use crate::tune::{CallForm, Called, Route};
use std::sync::Arc;

/// A blocking exact sum, while nothing else is in flight; `run` is for those that travel whole.
pub(in crate::comm) fn exact(
    queue: &Queue,
    exec: &mut Exec,
    checked: &Checked,
    number: Option<u64>,
    run: impl FnOnce(CallForm, &Queue, &mut Exec, &Checked, Option<u64>) -> Result<()>,
) -> Result<()> {
    let asked = checked.asked_all(Called::AtOnce, queue.nranks);
    let form = Route::exact(&asked, &exec.table).form();
    if form == CallForm::Several {
        return exact_queued(queue, exec, checked, number, None);
    }
    let parts = in_parts(checked);
    let call = &parts.call;
    let format = format(call.dtype, queue.nranks);
    let fill = |words: &mut [i64]| {
        // SAFETY: the promise of `enqueue`.
        unsafe { typed!(call.dtype, encode(&format, call.send, call.count, words)) };
    };
    let run = |queue: &Queue, exec: &mut Exec, limbs: &Checked, number| {
        run(form, queue, exec, limbs, number)
    };
    exact_at_once(queue, exec, &parts, number, &format, fill, run)
}

/// The short form: a few sums, one hand-over, no allocation.
pub(in crate::comm) fn exact_at_once(
    queue: &Queue,
    exec: &mut Exec,
    checked: &Checked,
    number: Option<u64>,
    format: &Format,
    fill: impl FnOnce(&mut [i64]),
    run: impl FnOnce(&Queue, &mut Exec, &Checked, Option<u64>) -> Result<()>,
) -> Result<()> {
    let call = &checked.call;
    let count = call.count * format.words();
    let mut words = std::mem::take(&mut exec.scratch.exact.words);
    words.resize(count, 0);
    fill(&mut words);
    let limbs = sum_words(checked, &mut words);
    let ended = run(queue, exec, &limbs, number);
    if ended.is_ok() {
        // SAFETY: the promise of `enqueue`.
        unsafe { typed!(call.dtype, decode(format, &words, call.recv)) };
    }
    exec.scratch.exact.words = words;
    ended
}

/// The way through the queue; `made` are whole sums, instead of the call's elements.
pub(in crate::comm) fn exact_queued(
    queue: &Queue,
    exec: &mut Exec,
    checked: &Checked,
    number: Option<u64>,
    made: Option<Vec<i64>>,
) -> Result<()> {
    let exact = Exact::new(checked, (queue.rank, queue.nranks), made);
    let mut op = Op::exact(exact);
    op.number = number;
    let last = Arc::clone(&op.completion);
    exec.in_flight.push_back(op);
    drive::drive_until(queue, exec, &last, (checked.call.collective.name(), number))
}
