//! The interpreter of plans on host memory.
//!
//! The state of a lane is its position (round, step, repetition, slice): it can stop wherever a
//! token or a credit is missing and go on later, so one thread drives many lanes, and any thread
//! may drive a lane.

use super::direct::DirectSlice;
use super::lane::{LanePosition, Slice};
use super::launch::Launch;
use super::lists::Lists;
use super::scratch::Block;
use super::wires::Wires;
use super::{packed, straight};
use crate::exec::stop::{Mismatch, Progress, Stop};
use crate::exec::trace::{Event, Tracer};
use crate::plan::{Direction, Operand, Step, StepOp, Window};
use crate::wire::ports::PortId;
use crate::wire::taken::Tokens;

/// Slices that a lane moves before its driver looks up: a stop is noticed in between.
const MOST_SLICES: u32 = 64;

/// One lane on its way.
pub struct LaneRun {
    at: LanePosition,
    /// Operands of the current step instance known to be ready.
    ready: usize,
    begun: bool,
    /// Scratch memory of this lane, while it runs.
    scratch: Option<Block>,
    lists: Lists,
}

// SAFETY: the pointer lists are only scratch space within one call of `progress`.
unsafe impl Send for LaneRun {}

impl LaneRun {
    /// The lane at its beginning.
    pub fn new(lane: usize, window: Window) -> LaneRun {
        LaneRun {
            at: LanePosition::new(lane, window),
            ready: 0,
            begun: false,
            scratch: None,
            lists: Lists::default(),
        }
    }

    /// Begins anew as [`LaneRun::new`] does, in the memory of a finished run.
    pub fn restart(&mut self, lane: usize, window: Window) {
        self.at = LanePosition::new(lane, window);
        (self.ready, self.begun) = (0, false);
    }

    /// Where the lane stands, for messages: (round, step, slice).
    pub fn position(&self) -> (u64, usize, u32) {
        (self.at.round, self.at.step, self.at.slice)
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
        let steps = launch.plan.lane_steps(self.at.lane);
        if !self.begun {
            self.begin(launch, wires)?;
        }
        let mut moved = false;
        let mut left = MOST_SLICES;
        while self.at.round < self.at.window.rounds() {
            if left == 0 {
                return Ok(Progress::Moved(wires.me()));
            }
            left -= 1;
            let step = &steps[self.at.step];
            if let Some(end) = self.missing(step, launch, wires)? {
                return Ok(waits(end, moved, wires));
            }
            // SAFETY: passed on to our caller.
            unsafe { self.execute(step, launch, wires, tracer)? };
            self.ready = 0;
            wires.steps_executed += u64::from(self.at.go_on(step, steps.len()));
            moved = true;
        }
        let mut shown = launch.shown(self.at.lane).iter();
        if let Some(&end) = shown.find(|&&end| !wires.ports.port(end).drained()) {
            return Ok(waits(end, moved, wires));
        }
        if let Some(block) = self.scratch.take() {
            wires.scratch.give_back(block);
        }
        Ok(Progress::Done)
    }

    fn begin(&mut self, launch: &Launch, wires: &mut Wires) -> crate::base::Result<()> {
        self.begun = true;
        let (lane, window) = (self.at.lane, &self.at.window);
        let scratch = window.scratch_stride() * launch.plan.scratch() as usize;
        if scratch > 0 {
            let bytes = scratch * launch.kernel.element_bytes;
            self.scratch = Some(wires.scratch.take(bytes));
        }
        self.at.parts = launch.parts(lane);
        let (chunk, slice) = (launch.geometry.chunk_steps, launch.geometry.slice_steps);
        for &end in &launch.plan.lane_ends[lane] {
            wires.begin(end, chunk);
        }
        if launch.direct.is_none() {
            self.reserve(launch, wires)?;
        }
        let slots = window.rounds() * u64::from(window.slices() * slice);
        for &(index, tokens) in &launch.plan.lane_carried[lane] {
            let used = launch.plan.connections()[index].connection_use();
            wires.carried.expect(launch.number, &used, tokens * slots);
        }
        Ok(())
    }

    /// Has memory behind all tokens that the lane will write, which begin where its ends stand.
    fn reserve(&self, launch: &Launch, wires: &mut Wires) -> crate::base::Result<()> {
        let window = &self.at.window;
        let element_bytes = launch.kernel.element_bytes * launch.plan.pieces().max(1) as usize;
        let bytes = window.largest_slice() * element_bytes;
        // Flagged lines carry the signature of a token without data too.
        let bytes = bytes.min(launch.geometry.slice_bytes()).max(1);
        let slots = launch.geometry.slice_steps;
        let slices = window.rounds() * u64::from(window.slices());
        for &(end, tokens) in &launch.plan.lane_written[self.at.lane] {
            let count = tokens * slices;
            let tokens = Tokens {
                bytes,
                slots,
                count,
            };
            wires.ports.reserve(end, tokens)?;
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
    ) -> Result<Option<PortId>, Mismatch> {
        let plan = &launch.plan;
        let slice = Slice::new(launch, &self.at, &self.scratch);
        let operands = plan.list(step.srcs).iter().chain(plan.list(step.dsts));
        for operand in operands.skip(self.ready) {
            if let Some(index) = operand.as_connection()
                && (slice.at.part == 0 || slice.is_by_parts(index))
            {
                let end = plan.ends[index];
                let slots = slice.slots(index);
                let ahead = slice.kept_ahead(operand);
                let token = || (slice.token_bytes(step), launch.signature);
                if !wires.ports.ready(end, (slots, ahead), token) {
                    if launch.straight {
                        straight::want(slice, step, wires, index, ahead);
                    }
                    return Ok(Some(end));
                }
                wires.check(end, launch.signature, ahead)?;
            }
            self.ready += 1;
        }
        Ok(None)
    }

    /// Folds or copies the part of a slice. Returns its bytes, and from where they go to another
    /// node if they are in no slot.
    #[inline]
    unsafe fn fold(
        &mut self,
        step: &Step,
        launch: &Launch,
        wires: &mut Wires,
    ) -> crate::base::Result<(usize, Option<*mut u8>)> {
        let (plan, lists) = (&launch.plan, &mut self.lists);
        let slice = Slice::new(launch, &self.at, &self.scratch);
        if step.is_packed() {
            // SAFETY: passed on to our caller.
            return Ok((
                unsafe { packed::fold_pieces(slice, step, lists, wires) },
                None,
            ));
        }
        if step.op == StepOp::Token {
            return Ok((0, None));
        }
        let chunk = slice.chunk(step);
        let count = slice.count(chunk);
        let bytes = count * launch.kernel.element_bytes;
        let outlet = straight::outlet(slice, wires, bytes);
        let sent_from = outlet.map(|from| slice.place(from, chunk));
        if count == 0 {
            return Ok((bytes, sent_from));
        }
        if let Some(reached) = &launch.direct {
            let direct = DirectSlice {
                slice,
                step,
                reached,
                chunk,
                count,
            };
            // SAFETY: passed on to our caller.
            unsafe { direct.run(lists, &mut self.scratch, wires)? };
            return Ok((bytes, sent_from));
        }
        let place = |operand: &Operand| match operand.as_connection() {
            // Nothing is written where the payload is sent from elsewhere.
            Some(index)
                if sent_from.is_some()
                    && plan.is_remote[index]
                    && plan.connections()[index].direction == Direction::Send =>
            {
                std::ptr::null_mut()
            }
            Some(index) => {
                let ahead = slice.kept_ahead(operand);
                let (before, bytes) = match slice.is_by_parts(index) {
                    true => (0, bytes),
                    false => slice.in_whole(chunk, bytes),
                };
                let place = wires.ports.place(plan.ends[index], bytes, ahead);
                place.wrapping_add(before)
            }
            None => slice.place(operand, chunk),
        };
        // SAFETY: each place holds the slice (window and slot sizes), distinct or equal; or null.
        unsafe { lists.fold(step, launch, count, place) };
        Ok((bytes, sent_from))
    }

    /// Folds or copies one slice, or a part of it, publishes and releases.
    #[inline]
    unsafe fn execute(
        &mut self,
        step: &Step,
        launch: &Launch,
        wires: &mut Wires,
        tracer: &mut impl Tracer,
    ) -> crate::base::Result<()> {
        let plan = &launch.plan;
        let (srcs, dsts) = (plan.list(step.srcs), plan.list(step.dsts));
        // SAFETY: passed on to our caller.
        let (bytes, sent_from) = unsafe { self.fold(step, launch, wires)? };
        let slice = Slice::new(launch, &self.at, &self.scratch);
        let whole = match self.at.parts {
            1 => bytes,
            _ => slice.token_bytes(step),
        };
        let in_slot = if launch.direct.is_none() { whole } else { 0 };
        // Inside the node a token is the whole slice, whose last part is done.
        let is_due = |index: usize| slice.is_by_parts(index) || self.at.is_last_part();
        for index in dsts.iter().filter_map(Operand::as_connection) {
            if !is_due(index) {
                continue;
            }
            let (end, slots) = (launch.plan.ends[index], slice.slots(index));
            let (bytes, in_slot) = match slice.is_by_parts(index) {
                true => (bytes, bytes),
                false => (whole, in_slot),
            };
            match sent_from {
                Some(place) if plan.is_remote[index] => {
                    let payload = (place, bytes);
                    // SAFETY: no step writes it any more (`straight`), and the call does not end
                    // before the token was given back.
                    unsafe {
                        wires
                            .ports
                            .publish_elsewhere(end, payload, launch.signature)
                    };
                }
                _ => wires.ports.publish(end, slots, in_slot, launch.signature),
            }
            tracer.event(Event::Publish {
                link: plan.connections()[index].link(),
                bytes,
            });
        }
        for operand in srcs.iter().filter(|operand| !operand.keep) {
            let Some(index) = operand.as_connection().filter(|&index| is_due(index)) else {
                continue;
            };
            wires
                .ports
                .release(launch.plan.ends[index], slice.slots(index));
            let is_part = slice.is_by_parts(index);
            tracer.event(Event::Release {
                link: plan.connections()[index].link(),
                bytes: if is_part { bytes } else { whole },
            });
        }
        Ok(())
    }
}

/// Progress of a lane that waits for this end.
fn waits(end: PortId, moved: bool, wires: &Wires) -> Progress {
    let peer = wires.ports.waits_for(end);
    if moved {
        Progress::Moved(peer)
    } else {
        Progress::Blocked(peer)
    }
}
