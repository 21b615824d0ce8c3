//! The interpreter of plans on host memory.
//!
//! The state of a lane is its position (round, step, repetition, slice): it can stop wherever a
//! token or a credit is missing and go on later, so one thread drives many lanes, and any thread
//! may drive a lane.

use super::direct::DirectSlice;
use super::lane::{LanePosition, Slice, SliceBytes};
use super::launch::Launch;
use super::lists::Lists;
use super::near::NearTokens;
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
    near: NearTokens,
    /// Slots of the connection of a lane that only stores, of which it was said where their payload
    /// may be received.
    said: u64,
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
            near: NearTokens::default(),
            said: 0,
        }
    }

    /// Begins anew as [`LaneRun::new`] does, in the memory of a finished run.
    pub fn restart(&mut self, lane: usize, window: Window) {
        self.at = LanePosition::new(lane, window);
        (self.ready, self.begun, self.said) = (0, false, 0);
        self.near.has_shown = false;
    }

    /// Where the lane stands, for messages: (round, step, slice).
    pub fn position(&self) -> (u64, usize, u32) {
        (self.at.round, self.at.step, self.at.slice)
    }

    /// Whether the step that comes next hands over to another node, or from one.
    #[inline]
    pub fn crosses(&self, launch: &Launch) -> bool {
        let plan = &launch.plan;
        if plan.is_remote.is_empty() {
            return false;
        }
        let step = plan.lane_steps(self.at.lane).get(self.at.step);
        step.is_some_and(|step| {
            let mut operands = plan.list(step.srcs).iter().chain(plan.list(step.dsts));
            operands.any(|it| {
                it.as_connection()
                    .is_some_and(|index| plan.is_remote[index])
            })
        })
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
        let mut shown = launch.shown(self.at.lane, self.near.has_shown).iter();
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
            let wished = launch.straight && launch.plan.is_inlet[index];
            let slots = tokens * slots;
            wires.carried.expect(launch.number, &used, slots, wished);
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
                        straight::want(slice, step, wires, index, &mut self.said);
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
        if launch.near.is_some() {
            self.near.find(slice, step, wires)?;
        }
        let near = &self.near;
        if step.is_packed() {
            // SAFETY: passed on to our caller.
            let bytes = unsafe { packed::fold_pieces(slice, step, lists, near, wires) };
            return Ok((bytes, None));
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
            Some(index) if near.is_shown(index) => std::ptr::null_mut(),
            Some(index) => {
                let ahead = slice.kept_ahead(operand);
                let (before, bytes) = if slice.is_by_parts(index) {
                    (0, bytes)
                } else {
                    slice.in_whole(chunk, bytes)
                };
                let slot = || wires.ports.place(plan.ends[index], bytes, ahead);
                near.place(index).unwrap_or_else(slot).wrapping_add(before)
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
        // SAFETY: passed on to our caller.
        let (part, sent_from) = unsafe { self.fold(step, launch, wires)? };
        let whole = match self.at.parts {
            1 => part,
            _ => Slice::new(launch, &self.at, &self.scratch).token_bytes(step),
        };
        let bytes = SliceBytes { part, whole };
        for operand in launch.plan.list(step.dsts) {
            let Some(index) = operand.as_connection() else {
                continue;
            };
            // SAFETY: as above; what is sent from elsewhere lies there.
            unsafe { self.publish(index, bytes, sent_from, launch, wires, tracer)? };
        }
        let slice = Slice::new(launch, &self.at, &self.scratch);
        for operand in launch.plan.list(step.srcs).iter().filter(|it| !it.keep) {
            let Some(index) = operand.as_connection() else {
                continue;
            };
            let Some(bytes) = slice.moved(index, bytes) else {
                continue;
            };
            let (end, slots) = (launch.plan.ends[index], slice.slots(index));
            wires.ports.release(end, slots);
            tracer.event(Event::Release {
                link: launch.plan.connections()[index].link(),
                bytes,
            });
        }
        if launch.near.is_some() {
            self.near.clear();
        }
        Ok(())
    }

    /// Publishes what a step has written for a connection, if a token of it is whole.
    ///
    /// # Safety
    /// Data that go to another node from `sent_from`, in no slot, lie there, and no step writes
    /// them any more (`straight`); the call does not end before the token was given back.
    #[inline]
    unsafe fn publish(
        &mut self,
        index: usize,
        bytes: SliceBytes,
        sent_from: Option<*mut u8>,
        launch: &Launch,
        wires: &mut Wires,
        tracer: &mut impl Tracer,
    ) -> crate::base::Result<()> {
        let (plan, signature) = (&launch.plan, launch.signature);
        let slice = Slice::new(launch, &self.at, &self.scratch);
        let Some(bytes) = slice.moved(index, bytes) else {
            return Ok(());
        };
        let end = plan.ends[index];
        match sent_from {
            Some(place) if plan.is_remote[index] => {
                let payload = (place, bytes);
                // SAFETY: our caller's promise.
                unsafe { wires.ports.publish_elsewhere(end, payload, signature) };
            }
            _ if self.near.is_shown(index) => self.near.publish(slice, index, bytes, wires)?,
            _ => {
                let in_slot = if launch.direct.is_none() { bytes } else { 0 };
                let slots = slice.slots(index);
                wires.ports.publish(end, slots, in_slot, signature);
            }
        }
        tracer.event(Event::Publish {
            link: plan.connections()[index].link(),
            bytes,
        });
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
