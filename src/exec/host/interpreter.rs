//! The interpreter of plans on host memory.
//!
//! The state of a lane is {round, step, repetition, slice}: it can stop wherever a token or a
//! credit is missing and go on later, so one thread drives many lanes, and any thread may
//! drive a lane.

use super::lane::{At, LaneRun, kept_ahead};
use super::launch::Launch;
use super::wires::Wires;
use crate::exec::stop::{Mismatch, Progress, Stop};
use crate::exec::trace::{Event, Tracer};
use crate::plan::{Direction, Operand, Space, Step, StepOp};
use crate::wire::ports::PortId;
use crate::wire::taken::Tokens;

/// Slices that a lane moves before its driver looks up: a stop is noticed in between.
const MOST_SLICES: u32 = 64;

impl LaneRun {
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
                let peer = wires.ports.waits_for(end);
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
        let shown = match &launch.direct {
            // Nobody reads what was pushed.
            Some(reached) if reached.pushed.is_all && launch.plan.may_push => {
                &launch.plan.lane_shown[self.lane]
            }
            // What this rank has shown must not be touched before the peers are done with it.
            Some(_) => &launch.plan.lane_ends[self.lane],
            // What goes to other nodes is handed to the network, which nobody may drive later; a
            // message that meets its receive was taken.
            None => &launch.plan.lane_handed[self.lane],
        };
        if !shown.is_empty() {
            let shown = shown.iter();
            if let Some(&end) = shown
                .into_iter()
                .find(|&&end| !wires.ports.port(end).drained())
            {
                let peer = wires.ports.waits_for(end);
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
        let scratch = self.window.scratch_stride() * launch.plan.scratch() as usize;
        if scratch > 0 {
            let bytes = scratch * launch.kernel.element_bytes;
            self.scratch = Some(wires.scratch.take(bytes));
        }
        let (chunk, slice) = (launch.geometry.chunk_steps, launch.geometry.slice_steps);
        for &end in &launch.plan.lane_ends[self.lane] {
            wires.begin(end, chunk, slice);
        }
        if launch.direct.is_none() {
            self.reserve(launch, wires)?;
        }
        let slots = self.window.rounds() * u64::from(self.window.slices() * slice);
        for &(index, tokens) in &launch.plan.lane_carried[self.lane] {
            wires.carried.expect(
                launch.number,
                &launch.plan.connections()[index].connection_use(),
                tokens * slots,
            );
        }
        Ok(())
    }

    /// Has memory behind all tokens that the lane will write, which begin where its ends stand.
    fn reserve(&self, launch: &Launch, wires: &mut Wires) -> crate::base::Result<()> {
        let element_bytes = launch.kernel.element_bytes * launch.plan.pieces().max(1) as usize;
        let bytes = self.window.largest_slice() * element_bytes;
        // Flagged lines carry the signature of a token without data too.
        let bytes = bytes.min(launch.geometry.slice_bytes()).max(1);
        let slots = launch.geometry.slice_steps;
        let slices = self.window.rounds() * u64::from(self.window.slices());
        for &(end, tokens) in &launch.plan.lane_written[self.lane] {
            let count = tokens * slices;
            wires.ports.reserve(
                end,
                Tokens {
                    bytes,
                    slots,
                    count,
                },
            )?;
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
        let operands = plan.list(step.srcs).iter().chain(plan.list(step.dsts));
        for operand in operands.skip(self.ready) {
            if let Some(index) = operand.as_connection() {
                let end = launch.plan.ends[index];
                let slots = launch.geometry.slice_steps;
                let ahead = kept_ahead(operand, self.slice, slots);
                let token = || (self.token_bytes(step, launch), launch.signature);
                if !wires.ports.ready(end, (slots, ahead), token) {
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
    pub(super) fn token_bytes(&self, step: &Step, launch: &Launch) -> usize {
        let chunks = launch.plan.chunks();
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
        let (srcs, dsts) = (plan.list(step.srcs), plan.list(step.dsts));
        let mut bytes = 0;
        let mut sent_from = None;
        if step.is_packed() {
            // SAFETY: passed on to our caller.
            bytes = unsafe { self.fold_pieces(step, launch, wires) };
        } else if step.op != StepOp::Token {
            let chunk = step.chunk_at(self.repetition, plan.chunks());
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
                Some(reached) => unsafe {
                    self.fold_direct(step, launch, wires, (reached, chunk, count))?;
                },
            }
        }
        let slots = launch.geometry.slice_steps;
        let in_slot = if launch.direct.is_none() { bytes } else { 0 };
        for index in dsts.iter().filter_map(Operand::as_connection) {
            let end = launch.plan.ends[index];
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
            let Some(index) = operand.as_connection() else {
                continue;
            };
            wires.ports.release(launch.plan.ends[index], slots);
            tracer.event(Event::Release {
                link: plan.connections()[index].link(),
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
                    && launch.plan.connections()[index].direction == Direction::Send =>
            {
                std::ptr::null_mut()
            }
            Some(index) => {
                let ahead = kept_ahead(operand, self.slice, launch.geometry.slice_steps);
                wires.ports.place(launch.plan.ends[index], bytes, ahead)
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
