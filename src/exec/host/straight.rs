//! Data that a lane sends to other nodes, or receives from them, without a slot.

use super::lane::Slice;
use super::wires::Wires;
use crate::plan::analysis::inlets;
use crate::plan::{Operand, Step};
use crate::wire::line::LINES;
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

/// Says where the token of connection `index`, which is missing, may be received; and, in a lane
/// that does nothing but store what comes over it, those behind it, up to the slot count `said` of
/// which that was said.
///
/// Nobody else has business with the places of later tokens by then: whoever had some is done
/// before the token is sent, as the lane waits for nothing but its tokens.
#[cold]
pub fn want(slice: Slice, step: &Step, wires: &mut Wires, index: usize, said: &mut u64) {
    let plan = &slice.launch.plan;
    let Some(received) = wires.ports.received(plan.ends[index]) else {
        return;
    };
    let steps = plan.lane_steps(slice.at.lane);
    let only_stores = plan.is_inlet[index] && steps.len() == 1 && plan.list(step.dsts).len() == 1;
    if !only_stores || slice.slots(index) != 1 {
        // Tokens that are kept go nowhere, so the one that is missing is the next.
        want_one(slice, step, wires, index, 0);
        return;
    }
    let mut at = *slice.at;
    for ahead in 0..LINES as u64 {
        if at.round == at.window.rounds() {
            break;
        }
        if received + ahead >= *said {
            want_one(slice.moved_to(&at), step, wires, index, ahead as u32);
            *said = received + ahead + 1;
        }
        at.go_on(step, steps.len());
    }
}

/// Says where the token `ahead` tokens behind the next one may be received.
fn want_one(slice: Slice, step: &Step, wires: &mut Wires, index: usize, ahead: u32) {
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
