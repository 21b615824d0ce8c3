//! The beginning of every call on the host: its arguments are checked, it is counted, noted on the
//! board and signed.

use super::call::Call;
use super::checked::Checked;
use super::handles::RedOp;
use super::redop;
use crate::base::Result;
use crate::comm::owned::Exec;
use crate::comm::queue::Queue;
use crate::plan::Collective;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The call, with everything checked that one rank can see.
pub(in crate::comm) fn check(queue: &Queue, call: &Call) -> Result<Checked> {
    let mut checked = Checked::unseen(call);
    look(queue, &mut checked)?;
    Ok(checked)
}

/// Checks everything that one rank can see.
#[inline(always)]
pub(in crate::comm) fn look(queue: &Queue, checked: &mut Checked) -> Result<()> {
    checked.look(queue.rank, queue.nranks)?;
    let call = &checked.call;
    if call.collective == Collective::Send {
        queue.has_sent.store(true, Ordering::Relaxed);
    }
    if call.collective.reduces() && call.op.0 >= RedOp::FIRST_DYNAMIC {
        combine_as_made(queue, checked)?;
    }
    Ok(())
}

/// With an operation that the program made, as it is now.
#[cold]
fn combine_as_made(queue: &Queue, checked: &mut Checked) -> Result<()> {
    let call = &checked.call;
    let (combine, code) = redop::made_combine(queue, call.collective, call.op, call.dtype)?;
    checked.signature = call.signature(code).0;
    checked.made = Some(Arc::new(combine));
    Ok(())
}

/// Counts a collective, notes it on the board, and signs its tokens with what was before it.
#[inline(always)]
pub(in crate::comm) fn begin(queue: &Queue, exec: &mut Exec, checked: &mut Checked) -> Option<u64> {
    exec.may_panic("begin");
    flip_if_due(exec);
    if checked.call.collective.is_point_to_point() {
        return None;
    }
    exec.counts.calls += 1;
    queue
        .node
        .board(queue.rank as usize)
        .begin(exec.counts.calls, checked.signature);
    checked.number = exec.counts.calls;
    checked.past = exec.past.before(checked.signature);
    checked.signature ^= checked.past;
    Some(exec.counts.calls)
}

/// Flips a bit in the call for which that is set. Messages have no number: before the first
/// collective they belong to call 0, and so on.
#[inline(always)]
pub(in crate::comm) fn flip_if_due(exec: &mut Exec) {
    if let Some((call, slot)) = exec.faults.flip
        && call == exec.counts.calls
    {
        exec.faults.flip = None;
        exec.engine.ports().flip_bit_in(slot);
    }
}
