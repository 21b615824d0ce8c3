//! Packed tokens: many chunks between buffers and one slot.
//!
//! In a slot, the pieces of a token follow each other without gaps. In the buffers they lie where
//! the window says; pieces that follow each other everywhere (whole chunks of split data, a token
//! that is forwarded as it is) are folded or copied as one.

use super::{At, LaneRun, Lists, kept_ahead};
use crate::exec::launch::Launch;
use crate::exec::wires::Wires;
use crate::plan::{Operand, Space, Step};

/// The lists of a packed step while its pieces are done.
#[derive(Default)]
pub(super) struct Pieces {
    /// Where the payload of each connection operand begins, sources first.
    slots: Vec<Option<*mut u8>>,
    /// Where the pieces at hand begin, for each operand.
    first: Vec<*mut u8>,
    /// Where the next piece lies.
    next: Vec<*mut u8>,
}

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
            let chunk = step.piece_at(0, number, plan.chunks);
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
            Some(wires.place(end, total * element_bytes, ahead))
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
    let lists = &launch.plan.lists;
    lists.get(step.srcs).iter().chain(lists.get(step.dsts))
}

impl Pieces {
    fn bind(&mut self, slots: impl Iterator<Item = Option<*mut u8>>) {
        self.slots.clear();
        self.slots.extend(slots);
    }

    /// Finds the places of the next piece, which begins `offset` bytes into each slot.
    fn locate<'a>(
        &mut self,
        operands: impl Iterator<Item = &'a Operand>,
        offset: usize,
        user: impl Fn(&Operand) -> *mut u8,
    ) {
        self.next.clear();
        let places = self.slots.iter().zip(operands);
        self.next.extend(places.map(|(slot, operand)| match slot {
            Some(slot) => slot.wrapping_add(offset),
            None => user(operand),
        }));
    }

    /// Whether the next piece lies `bytes` behind the beginning of those at hand, everywhere.
    fn follow(&self, bytes: usize) -> bool {
        let mut places = self.first.iter().zip(&self.next);
        places.all(|(first, &next)| std::ptr::eq(first.wrapping_add(bytes), next))
    }

    /// The next piece is the first of those at hand.
    fn begin(&mut self) {
        std::mem::swap(&mut self.first, &mut self.next);
    }
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
