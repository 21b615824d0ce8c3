//! Packed tokens: many chunks between buffers and one slot.
//!
//! In a slot, the pieces of a token follow each other without gaps. In the buffers they lie where
//! the window says; pieces that follow each other everywhere (whole chunks of split data, a token
//! that is forwarded as it is) are folded or copied as one.

use super::lane::Slice;
use super::launch::Launch;
use super::lists::Lists;
use super::near::NearTokens;
use super::wires::Wires;
use crate::plan::{Operand, Step};

/// Folds or copies the slice of all pieces of a packed step. Returns its bytes.
///
/// # Safety
/// The buffers of the launch hold what its windows address, and nobody else touches them; tokens
/// and credits of the step are there.
pub unsafe fn fold_pieces(
    slice: Slice,
    step: &Step,
    lists: &mut Lists,
    near: &NearTokens,
    wires: &mut Wires,
) -> usize {
    let (launch, element_bytes) = (slice.launch, slice.launch.kernel.element_bytes);
    let pieces = (0..step.pieces()).map(|number| {
        let chunk = step.piece_at(0, number, launch.plan.chunks());
        (chunk, slice.count(chunk))
    });
    let total: usize = pieces.clone().map(|(_, count)| count).sum();
    if total == 0 || near.shows_all(launch.plan.list(step.dsts)) {
        return total * element_bytes;
    }
    let place = |operand: &Operand| {
        let index = operand.as_connection()?;
        if let Some(place) = near.place(index) {
            return Some(place);
        }
        let end = launch.plan.ends[index];
        let ahead = slice.kept_ahead(operand);
        Some(wires.ports.place(end, total * element_bytes, ahead))
    };
    lists.pieces.bind(operands(step, launch).map(place));
    let (mut done, mut joined) = (0, 0);
    for (chunk, count) in pieces.filter(|&(_, count)| count > 0) {
        let pieces = &mut lists.pieces;
        let user = |operand: &Operand| slice.place(operand, chunk);
        pieces.locate(operands(step, launch), done * element_bytes, user);
        if joined == 0 || !pieces.follow(joined * element_bytes) {
            // SAFETY: the places of the pieces so far hold them (window and slot sizes).
            unsafe { lists.fold_joined(step, launch, joined) };
            lists.pieces.begin();
            joined = 0;
        }
        done += count;
        joined += count;
    }
    // SAFETY: as above.
    unsafe { lists.fold_joined(step, launch, joined) };
    total * element_bytes
}

fn operands<'a>(step: &Step, launch: &'a Launch) -> impl Iterator<Item = &'a Operand> {
    let plan = &launch.plan;
    plan.list(step.srcs).iter().chain(plan.list(step.dsts))
}
