//! A collective as the plans that do it: one, or two in a row where the tuner says that two are
//! faster ([`crate::tune::parts`]).
//!
//! Plans of one communicator run in the order of issue on every rank, so the second plan of a
//! composition needs no signal from the first: its connections hold its tokens back.

use super::call::{Call, Collective};
use super::checked::Checked;
use crate::base::{Result, checked};
use crate::comm::owned::Exec;
use crate::comm::queue::Queue;
use crate::dtype::{DataType, ReduceOp};
use crate::tune::Route;

/// The rank over which composed collectives go.
const MIDDLE: u32 = 0;

/// The calls that a composed one consists of, in order.
///
/// # Errors
/// Sizes that do not fit.
#[cold]
pub(in crate::comm) fn parts_of(
    queue: &Queue,
    exec: &mut Exec,
    checked: &Checked,
) -> Result<Vec<Checked>> {
    let parts = Route::Composed.parts(checked.call.collective).iter();
    parts
        .map(|&(collective, all)| part(queue, exec, checked, collective, all))
        .collect()
}

/// One part of a composed call. What the first part leaves in the receive buffer is what the
/// second one sends.
fn part(
    queue: &Queue,
    exec: &mut Exec,
    whole: &Checked,
    collective: Collective,
    all_blocks: bool,
) -> Result<Checked> {
    let mut call = Call {
        collective,
        peer: MIDDLE,
        ..whole.call
    };
    if whole.call.collective == Collective::Barrier {
        // An all-reduce of 8 bytes, whose result nobody looks at.
        call.send = exec.scratch.barrier_word.as_ptr().cast();
        call.recv = exec.scratch.barrier_word.as_mut_ptr().cast();
        call.count = 1;
        call.dtype = DataType::Uint64;
        call.op = crate::comm::RedOp::SUM;
    }
    if collective == Collective::Broadcast {
        call.send = call.recv.cast_const();
    }
    if all_blocks {
        call.count = checked::bytes(call.count, queue.nranks as usize)?;
    }
    let op = match whole.call.collective {
        Collective::Barrier => Some(ReduceOp::Sum),
        _ => whole.op,
    };
    let op = op.filter(|_| collective.reduces());
    Ok(Checked {
        call,
        bytes: checked::bytes(call.count, call.dtype.size_bytes())?,
        signature: call.signature(op.map_or(0, |op| op as u8)).0 ^ whole.past,
        past: whole.past,
        number: whole.number,
        op,
        made: whole.made.clone().filter(|_| collective.reduces()),
        parts: None,
    })
}
