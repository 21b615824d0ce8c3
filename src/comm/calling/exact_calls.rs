//! Exact sums as calls: at once where they are few, through the queue otherwise.

use super::call::Collective;
use super::checked::Checked;
use super::exact::{Exact, decode, encode, format, in_parts, most_whole, sum_words, typed};
use crate::base::Result;
use crate::comm::flight::drive;
use crate::comm::flight::op::Op;
use crate::comm::owned::Exec;
use crate::comm::queue::Queue;
use crate::dtype::DataType;
use crate::dtype::exact::wire::Format;
use std::sync::Arc;

/// A blocking exact sum; `run` is for small ones.
pub(in crate::comm) fn exact(
    queue: &Queue,
    exec: &mut Exec,
    checked: &Checked,
    number: Option<u64>,
    run: impl FnOnce(&Queue, &mut Exec, &Checked, Option<u64>) -> Result<()>,
) -> Result<()> {
    let parts = in_parts(checked);
    let call = &parts.call;
    let format = format(call.dtype, queue.nranks);
    let fill = |words: &mut [i64]| {
        // SAFETY: the promise of `enqueue`.
        unsafe { typed!(call.dtype, encode(&format, call.send, call.count, words)) };
    };
    if call.count <= most_whole(&format)
        && exact_at_once(queue, exec, &parts, number, &format, fill, run)?
    {
        return Ok(());
    }
    exact_queued(queue, exec, checked, number, None)
}

/// The fast path: a few sums, one hand-over, no allocation. False if it cannot be taken.
pub(in crate::comm) fn exact_at_once(
    queue: &Queue,
    exec: &mut Exec,
    checked: &Checked,
    number: Option<u64>,
    format: &Format,
    fill: impl FnOnce(&mut [i64]),
    run: impl FnOnce(&Queue, &mut Exec, &Checked, Option<u64>) -> Result<()>,
) -> Result<bool> {
    let call = &checked.call;
    let count = call.count * format.words();
    let small = exec.table.is_oneshot(call.collective, 8 * count) || queue.nranks == 1;
    if !small || call.collective != Collective::AllReduce || !exec.in_flight.is_empty() {
        return Ok(false);
    }
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
    ended.map(|()| true)
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
