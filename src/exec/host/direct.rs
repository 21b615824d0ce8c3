//! Steps on buffers that ranks reach where they lie: nothing is copied into a slot.
//!
//! A token says which buffer of its writer (send or receive) holds the data, and how many bytes
//! from its start; the reader adds the base that it knows of that buffer and *pulls*. The data stay
//! as they are until the token is released, and a lane ends only when all of its tokens have been.
//!
//! Where a step stores what is final, and all ranks let peers write into their receive buffers, it
//! is *pushed*: the writer stores it into the output of every reader too, and the token says so.
//! Its reader copies nothing but what lies on pages that it shares with other data.

use super::lane::Slice;
use super::launch::Launch;
use super::lists::Lists;
use super::private;
use super::scratch::Block;
use super::wires::Wires;
use crate::base::Result;
use crate::base::first_store::{self, Store};
use crate::dtype::FoldParams;
use crate::exec::reach::{Copied, PeerBuffers};
use crate::plan::analysis::direct;
use crate::plan::{Operand, POST_SCALE, Space, Step, StepOp};
use std::ops::Range;

/// Bytes of a token's payload: number of the buffer, offset.
const TOKEN_BYTES: usize = 16;
/// In the number of the buffer: it was pushed.
const PUSHED: u64 = 2;

/// Where a part of a slice lies in the output, by who writes there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PartPlace {
    /// Peers may not write there.
    Outside,
    /// Peers may write there; this step does not write there in the outputs of others.
    Inside,
    /// This step writes there in the outputs of its readers too.
    Pushed,
}

/// A slice of a step on buffers that ranks reach where they lie.
#[derive(Clone, Copy)]
pub struct DirectSlice<'a> {
    pub slice: Slice<'a>,
    pub step: &'a Step,
    pub reached: &'a PeerBuffers,
    pub chunk: u32,
    /// Its elements.
    pub count: usize,
}

impl DirectSlice<'_> {
    /// Folds or copies the slice from where it lies, and writes the tokens. `scratch` is the memory
    /// of the lane, which is taken if sources must be fetched.
    ///
    /// # Errors
    /// When memory of another process cannot be read.
    ///
    /// # Safety
    /// The buffers of the launch, and those that are reached, hold what the windows address.
    pub unsafe fn run(
        self,
        lists: &mut Lists,
        scratch: &mut Option<Block>,
        wires: &mut Wires,
    ) -> Result<()> {
        let plan = &self.slice.launch.plan;
        let part = self.pushed_part();
        let pushes = plan.may_push && direct::is_pushed(self.step, plan.list(self.step.dsts));
        let parts = [0..part.start, part.clone(), part.end..self.count];
        for one in parts.into_iter().filter(|one| !one.is_empty()) {
            let place = match (one == part, pushes) {
                (false, _) => PartPlace::Outside,
                (true, false) => PartPlace::Inside,
                (true, true) => PartPlace::Pushed,
            };
            // SAFETY: our caller's promise; the parts make up the slice.
            unsafe { self.fold_part(one, place, lists, scratch, wires)? };
        }
        self.write_tokens(pushes && !part.is_empty(), wires)
    }

    /// Which elements lie where peers may write; empty for none.
    fn pushed_part(&self) -> Range<usize> {
        let launch = self.slice.launch;
        if self.reached.pushed.parts.is_empty() || !launch.plan.may_push {
            return 0..0;
        }
        let element_bytes = launch.kernel.element_bytes;
        let offset = self.output() as usize - launch.recv as usize;
        let pushed = self.reached.pushed.around(offset);
        let first = pushed.start.div_ceil(element_bytes);
        let end = pushed.end / element_bytes;
        let offset = offset / element_bytes;
        let within = |element: usize| element.saturating_sub(offset).min(self.count);
        let part = within(first)..within(end);
        if part.is_empty() { 0..0 } else { part }
    }

    /// Where the slice lies in the own receive buffer.
    fn output(&self) -> *mut u8 {
        self.slice.place(&Operand::OUTPUT, self.chunk)
    }

    /// Folds or copies a part of the slice: elements `part`, which lie at `part_place`.
    ///
    /// # Errors
    /// As [`DirectSlice::run`].
    ///
    /// # Safety
    /// As [`DirectSlice::run`].
    unsafe fn fold_part(
        &self,
        part: Range<usize>,
        part_place: PartPlace,
        lists: &mut Lists,
        scratch: &mut Option<Block>,
        wires: &mut Wires,
    ) -> Result<()> {
        let (launch, step) = (self.slice.launch, self.step);
        let ahead = part.start * launch.kernel.element_bytes;
        self.find_sources(ahead, part_place, lists, wires);
        let mut params = launch.kernel.params;
        params.pre_scale_mask = 0;
        params.divisor = launch.kernel.divisor;
        params.divisor = params.divisor.filter(|_| step.flags & POST_SCALE != 0);
        let copies = step.op == StepOp::Copy && params.divisor.is_none();
        lists.dsts.clear();
        // An address of another process may equal one of this process, which means nothing.
        let source_is_here = copies && !lists.private.has(0);
        for operand in launch.plan.list(step.dsts) {
            if operand.space == Space::Connection {
                continue;
            }
            let place = self.slice.place(operand, self.chunk).wrapping_add(ahead);
            if !(source_is_here && place.cast_const() == lists.srcs[0]) {
                lists.dsts.push(place);
            }
        }
        if part_place == PartPlace::Pushed {
            let offset = self.output() as usize - launch.recv as usize + ahead;
            for reader in readers(step, launch, wires) {
                let place = self.reached.bases[reader][1].at_mut(offset);
                lists.dsts.push(place);
            }
        }
        if launch.trial.is_some_and(|(trial, _)| trial.streams) {
            params.stream_mask = u64::MAX >> (64 - lists.dsts.len().clamp(1, 64));
        } else {
            params.stream_mask = 0;
        }
        // SAFETY: our caller's promise; the places are those of the elements of the part.
        unsafe { self.move_part(part.len(), copies, lists, scratch, wires, &params) }
    }

    /// Lists where the sources of a part lie, `ahead` bytes behind the start of the slice.
    fn find_sources(
        &self,
        ahead: usize,
        part_place: PartPlace,
        lists: &mut Lists,
        wires: &mut Wires,
    ) {
        let (plan, bases) = (&self.slice.launch.plan, &self.reached.bases);
        lists.srcs.clear();
        lists.private.clear();
        for operand in plan.list(self.step.srcs) {
            let Some(index) = operand.as_connection() else {
                let place = self.slice.place(operand, self.chunk).wrapping_add(ahead);
                lists.srcs.push(place.cast_const());
                continue;
            };
            let kept = self.slice.kept_ahead(operand);
            let token = wires.ports.place(plan.ends[index], TOKEN_BYTES, kept);
            // SAFETY: the token has arrived, and its writer wrote both words before.
            let [buffer, offset] = unsafe { token.cast::<[u64; 2]>().read_unaligned() };
            if buffer & PUSHED != 0 && part_place != PartPlace::Outside {
                let place = self.output().wrapping_add(ahead);
                lists.srcs.push(place.cast_const());
                continue;
            }
            let writer = plan.connections()[index].writer as usize;
            let buffer = (buffer & 1) as usize;
            let place = lists.srcs.len();
            lists.private.note(place, bases, (writer, buffer));
            let base = &bases[writer][buffer];
            lists.srcs.push(base.at(offset as usize + ahead));
        }
    }

    /// Folds or copies `count` elements between the places that are listed.
    ///
    /// # Errors
    /// As [`DirectSlice::run`].
    ///
    /// # Safety
    /// The places hold so many elements.
    unsafe fn move_part(
        &self,
        count: usize,
        copies: bool,
        lists: &mut Lists,
        scratch: &mut Option<Block>,
        wires: &mut Wires,
        params: &FoldParams,
    ) -> Result<()> {
        first_store::passes(Store::Data);
        let (kernel, bases) = (&self.slice.launch.kernel, &self.reached.bases);
        let bytes = count * kernel.element_bytes;
        let (from, to) = (&lists.srcs, &lists.dsts);
        match (to.is_empty(), copies, lists.private.is_empty()) {
            (true, _, _) => {}
            // SAFETY: our caller's promise; the plan's direct form was proved to be free of races.
            (_, true, true) => unsafe { (kernel.copy)(from, to, bytes, params) },
            // SAFETY: as above; the elements have the kernel's type.
            (_, false, true) => unsafe { (kernel.fold)(from, to, count, params) },
            // SAFETY: as above.
            (_, true, false) => unsafe {
                private::copy_private(lists, kernel, bases, bytes, params)?;
            },
            (_, false, false) => {
                let room = private::scratch_bytes(bases.len());
                let block = scratch.get_or_insert_with(|| wires.scratch.take(room));
                // SAFETY: as above; a direct plan has no scratch of its own.
                unsafe { private::fold_private(lists, kernel, bases, block, count, params)? };
            }
        }
        Ok(())
    }

    /// Tells the readers where the slice lies.
    ///
    /// # Errors
    /// Where copies cannot be made of what readers cannot see.
    fn write_tokens(&self, pushed: bool, wires: &mut Wires) -> Result<()> {
        let (launch, plan) = (self.slice.launch, &self.slice.launch.plan);
        let (srcs, dsts) = (plan.list(self.step.srcs), plan.list(self.step.dsts));
        let stored = dsts.contains(&Operand::OUTPUT);
        let lies = if stored { &Operand::OUTPUT } else { &srcs[0] };
        let (buffer, base) = match lies.space {
            Space::Input => (0, launch.send),
            _ => (1, launch.recv.cast_const()),
        };
        let pushed = if pushed { PUSHED } else { 0 };
        let mut copied = self.reached.copies.is_empty();
        for index in dsts.iter().filter_map(Operand::as_connection) {
            let place = self.slice.place(lies, self.chunk) as usize;
            if !copied {
                copied = true;
                let bytes = place..place + self.count * launch.kernel.element_bytes;
                let meets =
                    |one: &&Copied| one.bytes.start < bytes.end && bytes.start < one.bytes.end;
                let mut copies = self.reached.copies.iter().filter(meets);
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
    let ranks = wires.ranks() as u32;
    let of = plan
        .list(step.dsts)
        .iter()
        .filter_map(Operand::as_connection);
    of.flat_map(move |index| plan.connections()[index].link().read_by(ranks))
        .map(|reader| reader as usize)
}
