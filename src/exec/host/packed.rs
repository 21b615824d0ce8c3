//! Packed tokens: many chunks between buffers and one slot.
//!
//! In a slot, the pieces of a token follow each other without gaps. In the buffers they lie where
//! the window says; pieces that follow each other everywhere (whole chunks of split data, a token
//! that is forwarded as it is) are folded or copied as one.

use super::lane::{At, LaneRun, kept_ahead};
use super::launch::Launch;
use super::lists::Lists;
use super::wires::Wires;
use crate::plan::{Operand, Space, Step};

impl LaneRun {
    /// Folds or copies the slice at hand of all pieces of a packed step. Returns its bytes.
    ///
    /// # Safety
    /// As [`LaneRun::progress`]; tokens and credits of the step are there.
    pub(super) unsafe fn fold_pieces(
        &mut self,
        step: &Step,
        launch: &Launch,
        wires: &mut Wires,
    ) -> usize {
        let (plan, element_bytes) = (&launch.plan, launch.kernel.element_bytes);
        let at = At::new(&self.window, self.round, self.slice, &self.scratch);
        let piece = |number: u32| {
            let chunk = step.piece_at(0, number, plan.chunks());
            let region = self
                .window
                .region(Space::Output, chunk, self.round, self.slice);
            (chunk, region.count)
        };
        let total: usize = (0..step.pieces()).map(|number| piece(number).1).sum();
        if total == 0 {
            return 0;
        }
        let place = |operand: &Operand| {
            let ahead = kept_ahead(operand, self.slice, launch.geometry.slice_steps);
            let end = launch.plan.ends[operand.as_connection()?];
            Some(wires.ports.place(end, total * element_bytes, ahead))
        };
        self.lists.pieces.bind(operands(step, launch).map(place));
        let (mut done, mut joined) = (0, 0);
        for (chunk, count) in (0..step.pieces())
            .map(piece)
            .filter(|&(_, count)| count > 0)
        {
            let pieces = &mut self.lists.pieces;
            pieces.locate(operands(step, launch), done * element_bytes, |operand| {
                at.place(operand, launch, chunk)
            });
            if joined == 0 || !pieces.follow(joined * element_bytes) {
                // SAFETY: the places of the pieces so far hold them (window and slot sizes).
                unsafe { self.lists.fold_joined(step, launch, joined) };
                self.lists.pieces.begin();
                joined = 0;
            }
            done += count;
            joined += count;
        }
        // SAFETY: as above.
        unsafe { self.lists.fold_joined(step, launch, joined) };
        total * element_bytes
    }
}

fn operands<'a>(step: &Step, launch: &'a Launch) -> impl Iterator<Item = &'a Operand> {
    let plan = &launch.plan;
    plan.list(step.srcs).iter().chain(plan.list(step.dsts))
}

impl Lists {
    /// Folds or copies the pieces at hand, `count` elements.
    ///
    /// # Safety
    /// The places that [`Pieces`] has found hold them.
    unsafe fn fold_joined(&mut self, step: &Step, launch: &Launch, count: usize) {
        if count == 0 {
            return;
        }
        let places = std::mem::take(&mut self.pieces.first);
        let mut next = places.iter();
        let place = |_: &Operand| *next.next().expect("one place for each operand");
        // SAFETY: our caller's promise; the checker has shown that no piece lies on another's.
        unsafe { self.fold(step, launch, count, place) };
        self.pieces.first = places;
    }
}
