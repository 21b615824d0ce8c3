//! Steps on buffers that ranks reach where they lie: nothing is copied into a slot.
//!
//! A token says which buffer of its writer (send or receive) holds the data, and how many bytes
//! from its start; the reader adds the base that it knows of that buffer and *pulls*. The data stay
//! as they are until the token is released, and a lane ends only when all of its tokens have been.
//!
//! Where a step stores what is final, and all ranks let peers write into their receive buffers, it
//! is *pushed*: the writer stores it into the output of every reader too, and the token says so.
//! Its reader copies nothing but what lies on pages that it shares with other data.

use super::lane::{At, LaneRun, kept_ahead};
use super::launch::Launch;
use super::wires::Wires;
use crate::base::Result;
use crate::dtype::FoldParams;
use crate::exec::reach::{Copied, PeerBuffers};
use crate::plan::analysis::direct;
use crate::plan::{Link, Operand, POST_SCALE, Space, Step, StepOp};
use std::ops::Range;

/// Bytes of a token's payload: number of the buffer, offset.
const TOKEN_BYTES: usize = 16;
/// In the number of the buffer: it was pushed.
const PUSHED: u64 = 2;

impl LaneRun {
    /// Folds or copies one slice from where it lies, and writes the tokens.
    ///
    /// # Errors
    /// When memory of another process cannot be read.
    ///
    /// # Safety
    /// The buffers of `launch`, and of the peers in `reached`, hold what the windows address.
    pub(super) unsafe fn fold_direct(
        &mut self,
        step: &Step,
        launch: &Launch,
        wires: &mut Wires,
        (reached, chunk, count): (&PeerBuffers, u32, usize),
    ) -> Result<()> {
        let part = self.pushed_part(launch, reached, chunk, count);
        let pushes = launch.plan.may_push && direct::is_pushed(step, launch.plan.list(step.dsts));
        if part.is_empty() {
            // SAFETY: our caller's promise.
            unsafe { self.fold_part(step, launch, wires, (reached, chunk, 0..count), None)? };
        } else {
            let parts = [0..part.start, part.clone(), part.end..count];
            for one in parts.into_iter().filter(|one| !one.is_empty()) {
                let inside = (one == part).then_some(pushes);
                // SAFETY: as above; the parts make up the slice.
                unsafe { self.fold_part(step, launch, wires, (reached, chunk, one), inside)? };
            }
        }
        let pushed = pushes && !part.is_empty();
        self.write_tokens(step, launch, wires, (reached, chunk, count), pushed)
    }

    /// Which elements of the slice at hand lie where peers may write; empty for none.
    fn pushed_part(
        &self,
        launch: &Launch,
        reached: &PeerBuffers,
        chunk: u32,
        count: usize,
    ) -> Range<usize> {
        if reached.pushed.parts.is_empty() || !launch.plan.may_push {
            return 0..0;
        }
        let region = self
            .window
            .region(Space::Output, chunk, self.round, self.slice);
        let element_bytes = launch.kernel.element_bytes;
        let pushed = reached.pushed.around(region.offset * element_bytes);
        let first = pushed.start.div_ceil(element_bytes);
        let end = pushed.end / element_bytes;
        let within = |element: usize| element.saturating_sub(region.offset).min(count);
        within(first)..within(end)
    }

    /// Folds or copies a part of the slice: elements `part`. `inside` says that the part lies where
    /// peers may write, and whether this step writes there.
    ///
    /// # Errors
    /// As [`LaneRun::fold_direct`].
    ///
    /// # Safety
    /// As [`LaneRun::fold_direct`].
    unsafe fn fold_part(
        &mut self,
        step: &Step,
        launch: &Launch,
        wires: &mut Wires,
        (reached, chunk, part): (&PeerBuffers, u32, Range<usize>),
        inside: Option<bool>,
    ) -> Result<()> {
        let plan = &launch.plan;
        let ahead = part.start * launch.kernel.element_bytes;
        self.find_sources(step, launch, wires, (reached, chunk, ahead), inside);
        let mut params = launch.kernel.params;
        params.pre_scale_mask = 0;
        params.divisor = launch.kernel.divisor;
        params.divisor = params.divisor.filter(|_| step.flags & POST_SCALE != 0);
        let copies = step.op == StepOp::Copy && params.divisor.is_none();
        self.lists.dsts.clear();
        // An address of another process may equal one of this process, which means nothing.
        let source_is_here = copies && !self.lists.private.has(0);
        let at = At::new(&self.window, self.round, self.slice, &self.scratch);
        for operand in plan.list(step.dsts) {
            if operand.space == Space::Connection {
                continue;
            }
            let place = at.place(operand, launch, chunk).wrapping_add(ahead);
            if !(source_is_here && place.cast_const() == self.lists.srcs[0]) {
                self.lists.dsts.push(place);
            }
        }
        if inside == Some(true) {
            let place = at.place(&Operand::OUTPUT, launch, chunk) as usize;
            let offset = place - launch.recv as usize + ahead;
            for reader in readers(step, launch, wires) {
                self.lists
                    .dsts
                    .push(reached.bases[reader][1].at_mut(offset));
            }
        }
        params.stream_mask = match launch.trial.is_some_and(|(trial, _)| trial.streams) {
            true => u64::MAX >> (64 - self.lists.dsts.len().clamp(1, 64)),
            false => 0,
        };
        // SAFETY: our caller's promise; the places are those of the elements of the part.
        unsafe { self.move_part(launch, wires, (reached, part.len()), copies, &params) }
    }

    /// Lists where the sources of a part lie, `ahead` bytes behind the start of the slice.
    fn find_sources(
        &mut self,
        step: &Step,
        launch: &Launch,
        wires: &mut Wires,
        (reached, chunk, ahead): (&PeerBuffers, u32, usize),
        inside: Option<bool>,
    ) {
        let plan = &launch.plan;
        let at = At::new(&self.window, self.round, self.slice, &self.scratch);
        self.lists.srcs.clear();
        self.lists.private.clear();
        for operand in plan.list(step.srcs) {
            let Some(index) = operand.as_connection() else {
                let place = at.place(operand, launch, chunk).wrapping_add(ahead);
                self.lists.srcs.push(place.cast_const());
                continue;
            };
            let kept = kept_ahead(operand, self.slice, launch.geometry.slice_steps);
            let token = wires.ports.place(plan.ends[index], TOKEN_BYTES, kept);
            // SAFETY: the token has arrived, and its writer wrote both words before.
            let [buffer, offset] = unsafe { token.cast::<[u64; 2]>().read_unaligned() };
            if buffer & PUSHED != 0 && inside.is_some() {
                let place = at.place(&Operand::OUTPUT, launch, chunk);
                self.lists.srcs.push(place.wrapping_add(ahead).cast_const());
                continue;
            }
            let writer = plan.connections()[index].writer as usize;
            let buffer = (buffer & 1) as usize;
            let (private, place) = (&mut self.lists.private, self.lists.srcs.len());
            private.note(place, &reached.bases, (writer, buffer));
            let base = &reached.bases[writer][buffer];
            self.lists.srcs.push(base.at(offset as usize + ahead));
        }
    }

    /// Folds or copies `count` elements between the places that are listed.
    ///
    /// # Errors
    /// As [`LaneRun::fold_direct`].
    ///
    /// # Safety
    /// The places hold so many elements.
    unsafe fn move_part(
        &mut self,
        launch: &Launch,
        wires: &mut Wires,
        (reached, count): (&PeerBuffers, usize),
        copies: bool,
        params: &FoldParams,
    ) -> Result<()> {
        let bytes = count * launch.kernel.element_bytes;
        let (from, to) = (&self.lists.srcs, &self.lists.dsts);
        let bases = &reached.bases;
        match (to.is_empty(), copies, self.lists.private.is_empty()) {
            (true, _, _) => {}
            // SAFETY: our caller's promise; the plan's direct form was proved to be free of races.
            (_, true, true) => unsafe { (launch.kernel.copy)(from, to, bytes, params) },
            // SAFETY: as above; the elements have the kernel's type.
            (_, false, true) => unsafe { (launch.kernel.fold)(from, to, count, params) },
            // SAFETY: as above.
            (_, true, false) => unsafe { self.copy_private(launch, bases, bytes, params)? },
            // SAFETY: as above.
            (_, false, false) => unsafe {
                self.fold_private(launch, wires, (bases, count), params)?;
            },
        }
        Ok(())
    }

    /// Tells the readers where the slice lies.
    ///
    /// # Errors
    /// Where copies cannot be made of what readers cannot see.
    fn write_tokens(
        &self,
        step: &Step,
        launch: &Launch,
        wires: &mut Wires,
        (reached, chunk, count): (&PeerBuffers, u32, usize),
        pushed: bool,
    ) -> Result<()> {
        let plan = &launch.plan;
        let (srcs, dsts) = (plan.list(step.srcs), plan.list(step.dsts));
        let at = At::new(&self.window, self.round, self.slice, &self.scratch);
        let stored = dsts.contains(&Operand::OUTPUT);
        let lies = if stored { &Operand::OUTPUT } else { &srcs[0] };
        let (buffer, base) = match lies.space {
            Space::Input => (0, launch.send),
            _ => (1, launch.recv.cast_const()),
        };
        let pushed = if pushed { PUSHED } else { 0 };
        let mut copied = reached.copies.is_empty();
        for index in dsts.iter().filter_map(Operand::as_connection) {
            let place = at.place(lies, launch, chunk) as usize;
            if !copied {
                copied = true;
                let bytes = place..place + count * launch.kernel.element_bytes;
                let meets =
                    |one: &&Copied| one.bytes.start < bytes.end && bytes.start < one.bytes.end;
                let mut copies = reached.copies.iter().filter(meets);
                copies.try_for_each(|one| one.how.show(&bytes))?;
            }
            let token = wires.ports.place(plan.ends[index], TOKEN_BYTES, 0);
            let offset = place - base as usize;
            // SAFETY: a token may be written (its credit is there), and holds 16 bytes.
            unsafe {
                token
                    .cast::<[u64; 2]>()
                    .write_unaligned([buffer | pushed, offset as u64])
            };
        }
        Ok(())
    }
}

/// The ranks that read what a step publishes.
fn readers(step: &Step, launch: &Launch, wires: &Wires) -> impl Iterator<Item = usize> {
    let plan = &launch.plan;
    let (me, ranks) = (wires.me(), wires.ranks());
    let of = plan
        .list(step.dsts)
        .iter()
        .filter_map(Operand::as_connection);
    of.flat_map(move |index| match plan.connections()[index].link() {
        Link::Pair { reader, .. } => reader as usize..reader as usize + 1,
        Link::Fan { .. } | Link::Cast { .. } => 0..ranks,
    })
    .filter(move |&reader| reader != me)
}
