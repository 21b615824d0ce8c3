//! The interpreter of plans on host memory.
//!
//! The state of a lane is {round, step, repetition, slice}: it can stop wherever a token or a
//! credit is missing and go on later, so one thread drives many lanes, and any thread may
//! drive a lane.

pub mod direct;
mod packed;
mod private;
mod straight;

use super::launch::Launch;
use super::oneshot::Stop;
use super::scratch::Block;
use super::trace::{Event, Tracer};
use super::wires::{End, Mismatch, Wires};
use crate::plan::{Operand, POST_SCALE, PRE_SCALE, Protocol, Space, Step, StepOp, Window};

/// Slices that a lane moves before its driver looks up: a stop is noticed in between.
const MOST_SLICES: u32 = 64;

/// How far a lane got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Something moved, and now this rank's token or credit is missing.
    Moved(usize),
    /// Nothing moved: this rank's token or credit is missing.
    Blocked(usize),
    /// The lane is finished.
    Done,
}

/// One lane on its way.
pub struct LaneRun {
    lane: usize,
    window: Window,
    round: u64,
    step: usize,
    repetition: u16,
    slice: u32,
    /// Operands of the current step instance known to be ready.
    ready: usize,
    begun: bool,
    /// Scratch memory of this lane, while it runs.
    scratch: Option<Block>,
    lists: Lists,
}

/// The places of one fold, kept so that no step allocates.
#[derive(Default)]
struct Lists {
    srcs: Vec<*const u8>,
    dsts: Vec<*mut u8>,
    pieces: packed::Pieces,
    private: private::Private,
}

// SAFETY: the pointer lists are only scratch space within one call of `progress`.
unsafe impl Send for LaneRun {}

impl LaneRun {
    /// The lane at its beginning.
    pub fn new(lane: usize, window: Window) -> LaneRun {
        LaneRun {
            lane,
            window,
            round: 0,
            step: 0,
            repetition: 0,
            slice: 0,
            ready: 0,
            begun: false,
            scratch: None,
            lists: Lists::default(),
        }
    }

    /// The same as [`LaneRun::new`], keeping the memory of a finished run.
    pub fn restart(&mut self, lane: usize, window: Window) {
        self.lane = lane;
        self.window = window;
        self.round = 0;
        self.step = 0;
        self.repetition = 0;
        self.slice = 0;
        self.ready = 0;
        self.begun = false;
    }

    /// Where the lane stands, for messages: (round, step, slice).
    pub fn position(&self) -> (u64, usize, u32) {
        (self.round, self.step, self.slice)
    }

    /// Runs the lane as far as tokens and credits allow.
    ///
    /// # Errors
    /// A token whose signature is not that of this call, or memory of a peer that cannot be read.
    ///
    /// # Safety
    /// The buffers of `launch` hold what its windows address, and nobody else touches them.
    pub unsafe fn progress(
        &mut self,
        launch: &Launch,
        wires: &mut Wires,
        tracer: &mut impl Tracer,
    ) -> Result<Progress, Stop> {
        let steps = launch.plan.lane_steps(self.lane);
        if !self.begun {
            self.begin(launch, wires)?;
        }
        let mut moved = false;
        let mut left = MOST_SLICES;
        while self.round < self.window.rounds() {
            if left == 0 {
                return Ok(Progress::Moved(wires.me()));
            }
            left -= 1;
            let step = &steps[self.step];
            if let Some(end) = self.missing(step, launch, wires)? {
                let peer = wires.waits_for(end);
                return Ok(if moved {
                    Progress::Moved(peer)
                } else {
                    Progress::Blocked(peer)
                });
            }
            // SAFETY: passed on to our caller.
            unsafe { self.execute(step, launch, wires, tracer)? };
            self.advance(step, steps.len(), wires);
            moved = true;
        }
        let shown = match launch.direct {
            // What this rank has shown must not be touched before the peers are done with it.
            Some(_) => &launch.plan.lane_ends[self.lane],
            // What goes to other nodes is handed to the network, which nobody may drive later.
            None => &launch.plan.lane_handed[self.lane],
        };
        if !shown.is_empty() {
            let shown = shown.iter();
            if let Some(&end) = shown.into_iter().find(|&&end| !wires.drained(end)) {
                let peer = wires.waits_for(end);
                return Ok(if moved {
                    Progress::Moved(peer)
                } else {
                    Progress::Blocked(peer)
                });
            }
        }
        if let Some(block) = self.scratch.take() {
            wires.scratch.give_back(block);
        }
        Ok(Progress::Done)
    }

    fn begin(&mut self, launch: &Launch, wires: &mut Wires) -> crate::base::Result<()> {
        self.begun = true;
        if launch.direct.is_none() && launch.plan.protocol == Protocol::Simple {
            let element_bytes = launch.kernel.element_bytes * launch.plan.pieces.max(1) as usize;
            let bytes = self.window.slice_count() * element_bytes;
            let bytes = bytes.min(launch.geometry.slice_bytes());
            for &end in &launch.plan.lane_ends[self.lane] {
                wires.reserve(end, bytes)?;
            }
        }
        let scratch = self.window.scratch_stride() * launch.plan.scratch as usize;
        if scratch > 0 {
            let bytes = scratch * launch.kernel.element_bytes;
            self.scratch = Some(wires.scratch.take(bytes));
        }
        let (chunk, slice) = (launch.geometry.chunk_steps, launch.geometry.slice_steps);
        for &end in &launch.plan.lane_ends[self.lane] {
            wires.begin(end, chunk, slice);
        }
        let slots = self.window.rounds() * u64::from(self.window.slices() * slice);
        for &(index, tokens) in &launch.plan.lane_carried[self.lane] {
            wires.carried.expect(
                launch.number,
                &launch.plan.connections[index],
                tokens * slots,
            );
        }
        Ok(())
    }

    /// The first end of the step whose token or credit is missing.
    #[inline]
    fn missing(
        &mut self,
        step: &Step,
        launch: &Launch,
        wires: &mut Wires,
    ) -> Result<Option<End>, Mismatch> {
        let lists = &launch.plan.lists;
        let operands = lists.get(step.srcs).iter().chain(lists.get(step.dsts));
        for operand in operands.skip(self.ready) {
            if let Some(index) = operand.as_connection() {
                let end = launch.plan.ends[index];
                let slots = launch.geometry.slice_steps;
                let ahead = kept_ahead(operand, self.slice, slots);
                let is_ready = match end {
                    End::LinesRecv(number, _) => {
                        let token = (self.token_bytes(step, launch), launch.signature);
                        wires.has_lines(number, token, ahead)
                    }
                    _ => wires.ready(end, slots, ahead),
                };
                if !is_ready {
                    if launch.straight {
                        self.want(step, launch, wires, (index, ahead));
                    }
                    return Ok(Some(end));
                }
                wires.check(end, launch.signature, ahead)?;
            }
            self.ready += 1;
        }
        Ok(None)
    }

    /// Bytes of the token at hand: the slice of all its pieces.
    fn token_bytes(&self, step: &Step, launch: &Launch) -> usize {
        let chunks = launch.plan.chunks;
        let pieces = (0..step.pieces()).map(|piece| {
            let chunk = step.piece_at(self.repetition, piece, chunks);
            let region = self
                .window
                .region(Space::Output, chunk, self.round, self.slice);
            region.count
        });
        pieces.sum::<usize>() * launch.kernel.element_bytes
    }

    /// Folds or copies one slice, publishes and releases.
    #[inline]
    unsafe fn execute(
        &mut self,
        step: &Step,
        launch: &Launch,
        wires: &mut Wires,
        tracer: &mut impl Tracer,
    ) -> crate::base::Result<()> {
        let plan = &launch.plan;
        let (srcs, dsts) = (plan.lists.get(step.srcs), plan.lists.get(step.dsts));
        let mut bytes = 0;
        let mut sent_from = None;
        if step.is_packed() {
            // SAFETY: passed on to our caller.
            bytes = unsafe { self.fold_pieces(step, launch, wires) };
        } else if step.op != StepOp::Token {
            let chunk = step.chunk_at(self.repetition, plan.chunks);
            let count = self
                .window
                .region(Space::Output, chunk, self.round, self.slice)
                .count;
            bytes = count * launch.kernel.element_bytes;
            let at = At::new(&self.window, self.round, self.slice, &self.scratch);
            let outlet = self.outlet(launch, wires, bytes);
            sent_from = outlet.map(|from| at.place(from, launch, chunk));
            match &launch.direct {
                _ if count == 0 => {}
                // SAFETY: passed on to our caller.
                None => unsafe { self.fold(step, launch, wires, (chunk, count), sent_from) },
                // SAFETY: passed on to our caller.
                Some(bases) => unsafe {
                    self.fold_direct(step, launch, wires, (bases, chunk, count))?;
                },
            }
        }
        let slots = launch.geometry.slice_steps;
        let in_slot = if launch.direct.is_none() { bytes } else { 0 };
        for index in dsts.iter().filter_map(Operand::as_connection) {
            let end = launch.plan.ends[index];
            match sent_from {
                Some(place) if plan.is_remote[index] => {
                    // SAFETY: no step writes it any more (`straight`), and the call does not end
                    // before the token was given back.
                    unsafe { wires.publish_straight(end, (place, bytes), launch.signature) };
                }
                _ => wires.publish(end, slots, in_slot, launch.signature),
            }
            tracer.event(Event::Publish {
                link: plan.connections[index].link,
                bytes,
            });
        }
        for operand in srcs.iter().filter(|operand| !operand.keep) {
            let Some(index) = operand.as_connection() else {
                continue;
            };
            wires.release(launch.plan.ends[index], slots);
            tracer.event(Event::Release {
                link: plan.connections[index].link,
                bytes,
            });
        }
        Ok(())
    }

    #[inline]
    unsafe fn fold(
        &mut self,
        step: &Step,
        launch: &Launch,
        wires: &mut Wires,
        (chunk, count): (u32, usize),
        sent_from: Option<*mut u8>,
    ) {
        let bytes = count * launch.kernel.element_bytes;
        let at = At::new(&self.window, self.round, self.slice, &self.scratch);
        let place = |operand: &Operand| match operand.as_connection() {
            // Nothing is written where the payload is sent from elsewhere.
            Some(index)
                if sent_from.is_some()
                    && launch.plan.is_remote[index]
                    && matches!(launch.plan.ends[index], End::Send(..)) =>
            {
                std::ptr::null_mut()
            }
            Some(index) => {
                let ahead = kept_ahead(operand, self.slice, launch.geometry.slice_steps);
                wires.place(launch.plan.ends[index], bytes, ahead)
            }
            None => at.place(operand, launch, chunk),
        };
        // SAFETY: each place holds the slice (window and slot sizes), distinct or equal; or null.
        unsafe { self.lists.fold(step, launch, count, place) };
    }

    #[inline]
    fn advance(&mut self, step: &Step, steps: usize, wires: &mut Wires) {
        self.ready = 0;
        self.slice += 1;
        if self.slice < self.window.slices() {
            return;
        }
        self.slice = 0;
        wires.steps_executed += 1;
        self.repetition += 1;
        if self.repetition < step.tokens() {
            return;
        }
        self.repetition = 0;
        self.step += 1;
        if self.step == steps {
            self.step = 0;
            self.round += 1;
        }
    }
}

/// Slots of the slices of a kept token that come before slice `slice`: they are still there.
#[inline(always)]
fn kept_ahead(operand: &Operand, slice: u32, slots: u32) -> u32 {
    if operand.keep { slice * slots } else { 0 }
}

/// Which slice of which round is at hand.
#[derive(Clone, Copy)]
struct At<'a> {
    window: &'a Window,
    round: u64,
    slice: u32,
    scratch: &'a Option<Block>,
}

impl<'a> At<'a> {
    #[inline(always)]
    fn new(window: &'a Window, round: u64, slice: u32, scratch: &'a Option<Block>) -> At<'a> {
        At {
            window,
            round,
            slice,
            scratch,
        }
    }

    /// Where it lies in the call's own memory.
    #[inline]
    fn place(self, operand: &Operand, launch: &Launch, chunk: u32) -> *mut u8 {
        let base = match operand.space {
            Space::Input => launch.send.cast_mut(),
            Space::Scratch => return self.scratch_place(operand, launch, chunk),
            _ => launch.recv,
        };
        let chunk = operand.chunk(chunk, launch.plan.chunks);
        let region = self
            .window
            .region(operand.space, chunk, self.round, self.slice);
        base.wrapping_add(region.offset * launch.kernel.element_bytes)
    }

    fn scratch_place(self, operand: &Operand, launch: &Launch, chunk: u32) -> *mut u8 {
        let place = operand.chunk(chunk, launch.plan.scratch);
        let region = self
            .window
            .scratch_region(place, chunk, self.round, self.slice);
        let offset = region.offset * launch.kernel.element_bytes;
        // A lane without payload has no block, and is never asked.
        let block = self
            .scratch
            .as_ref()
            .map_or(std::ptr::null_mut(), Block::as_ptr);
        block.wrapping_add(offset)
    }
}

impl Lists {
    /// Folds or copies `count` elements between the places that `place` gives for each source and
    /// then each destination, in order. A null destination is left out.
    ///
    /// # Safety
    /// Each place holds `count` elements of the kernel's type; a destination equals a source or
    /// does not overlap it, or is null.
    #[inline]
    unsafe fn fold(
        &mut self,
        step: &Step,
        launch: &Launch,
        count: usize,
        mut place: impl FnMut(&Operand) -> *mut u8,
    ) {
        let plan = &launch.plan;
        let kernel = &launch.kernel;
        let element_bytes = kernel.element_bytes;
        let mut params = kernel.params;
        params.pre_scale_mask = 0;
        params.stream_mask = 0;
        let streams = count * element_bytes >= launch.stream_bytes
            && launch.plan.protocol == Protocol::Simple;
        self.srcs.clear();
        self.dsts.clear();
        for operand in plan.lists.get(step.srcs) {
            let place = place(operand);
            if operand.space == Space::Input && kernel.pre_scaled && step.flags & PRE_SCALE != 0 {
                params.pre_scale_mask |= 1 << self.srcs.len();
            }
            self.srcs.push(place.cast_const());
        }
        params.divisor = kernel.divisor.filter(|_| step.flags & POST_SCALE != 0);
        let scaled = params.divisor.is_some() || params.pre_scale_mask != 0;
        let copies = step.op == StepOp::Copy && !scaled;
        for operand in plan.lists.get(step.dsts) {
            let place = place(operand);
            let left_out = place.is_null() || (copies && place.cast_const() == self.srcs[0]);
            if !left_out {
                // A hint has no room for more destinations.
                if streams && self.dsts.len() < 64 && launch.plan.is_read_elsewhere(operand) {
                    params.stream_mask |= 1 << self.dsts.len();
                }
                self.dsts.push(place);
            }
        }
        if self.dsts.is_empty() {
            return;
        }
        if copies {
            // SAFETY: our caller's promise.
            unsafe { (kernel.copy)(&self.srcs, &self.dsts, count * element_bytes, &params) };
        } else {
            // SAFETY: our caller's promise.
            unsafe { (kernel.fold)(&self.srcs, &self.dsts, count, &params) };
        }
    }
}
