//! Data that a lane sends to other nodes, or receives from them, without a slot.

use super::lane::Slice;
use super::wires::Wires;
use crate::plan::analysis::inlets;
use crate::plan::{Operand, Step};
use crate::wire::pair::STRAIGHT_BYTES;

/// The region that is sent to other nodes straight from the caller's memory, if any is.
#[inline]
pub fn outlet<'a>(slice: Slice<'a>, wires: &Wires, bytes: usize) -> Option<&'a Operand> {
    let launch = slice.launch;
    if !launch.straight || bytes < STRAIGHT_BYTES || wires.ports.has_fault() {
        return None;
    }
    let outlets = launch.plan.outlets[usize::from(launch.in_place)].get(slice.at.lane)?;
    outlets[slice.at.step].as_ref()
}

/// Says where the token of connection `index`, which is missing, may be received.
#[cold]
pub fn want(slice: Slice, step: &Step, wires: &mut Wires, index: usize, ahead: u32) {
    let plan = &slice.launch.plan;
    let stored = inlets::place(step, plan.list(step.srcs), plan.list(step.dsts));
    let chunk = slice.chunk(step);
    let bytes = slice.count(chunk) * slice.launch.kernel.element_bytes;
    if let Some(dst) = stored.filter(|_| plan.is_remote[index])
        && bytes >= STRAIGHT_BYTES
    {
        let place = slice.place(dst, chunk);
        wires.want(plan.ends[index], ahead, place, bytes);
    } else if plan.is_inlet[index] {
        wires.want(plan.ends[index], ahead, std::ptr::null_mut(), 0);
    }
}
