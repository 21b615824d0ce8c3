//! An all-reduce like one of those before it on its communicator.
//!
//! Problem: a model sums thousands of single numbers, and each of these calls asks the same of the
//! same type and operation: whether kolo folds them, how large an element is, whether it has gaps.
//! That takes more instructions than half of kolo's own call. Idea: a communicator keeps what was
//! found for the last two kinds of calls that kolo folded by itself. Named types and operations are
//! constants of MPI, so what was found once holds as long as the communicator.

use crate::alike::ByKolo;
use crate::arguments::Folded;
use crate::attach::take;
use crate::comms::State;
use crate::decide::{self, Collective, Size};
use crate::errors::ended;
use crate::sys::{NO_STREAM, koloAllReduce};
use crate::turn::in_place;
use std::ffi::c_int;

/// How such a call ends; `None` within it: MPI runs it. None at all: it is not like those before,
/// or there is something odd about its buffers, which others look at.
///
/// # Safety
/// As MPI_Allreduce has it, on a communicator in this state.
#[inline]
pub unsafe fn all_reduce(state: &mut State, call: &Folded, count: i64) -> Option<Option<c_int>> {
    let known = state.alike.iter().flatten();
    let mut like = known.filter(|alike| alike.is_like(call.datatype, call.op));
    let alike = *like.next()?;
    let from = if in_place(call.send) {
        call.recv.cast_const()
    } else {
        call.send
    };
    let (send, recv, count) = (
        from as usize,
        call.recv as usize,
        usize::try_from(count).ok()?,
    );
    let bytes = count.checked_mul(alike.elements.bytes)?;
    let overlap = send != recv && send.abs_diff(recv) < bytes;
    if send == 0 || recv == 0 || in_place(call.recv) || overlap {
        return None;
    }
    let size = Size::Elements(decide::Elements {
        count: count as u64,
        ..alike.elements
    });
    if take(state, Collective::Allreduce, size).is_none() {
        return Some(None);
    }
    let ByKolo { datatype, op } = alike.by_kolo;
    // SAFETY: the buffers have so many elements; the communicator is attached, for it had such a
    // call before.
    let code =
        unsafe { koloAllReduce(from, call.recv, count, datatype, op, state.kolo, NO_STREAM) };
    Some(Some(ended(state, code)))
}
