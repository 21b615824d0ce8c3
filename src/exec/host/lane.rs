//! Position of a lane, and where the data of its steps lie there.

use super::launch::Launch;
use super::scratch::Block;
use crate::plan::{Operand, Space, Step, Window};

/// How far a lane got: the slice of a step that comes next.
#[derive(Clone, Copy)]
pub struct LanePosition {
    pub lane: usize,
    pub window: Window,
    pub round: u64,
    pub step: usize,
    pub repetition: u16,
    pub slice: u32,
}

impl LanePosition {
    /// The beginning of a lane.
    pub fn new(lane: usize, window: Window) -> LanePosition {
        LanePosition {
            lane,
            window,
            round: 0,
            step: 0,
            repetition: 0,
            slice: 0,
        }
    }

    /// Goes on to the next slice, in a lane of so many steps. True if this was the last one of the
    /// step.
    #[inline]
    pub fn go_on(&mut self, step: &Step, steps: usize) -> bool {
        self.slice += 1;
        if self.slice < self.window.slices() {
            return false;
        }
        self.slice = 0;
        self.repetition += 1;
        if self.repetition >= step.tokens() {
            self.repetition = 0;
            self.step += 1;
            if self.step == steps {
                self.step = 0;
                self.round += 1;
            }
        }
        true
    }
}

/// The slice at a position of a launch.
#[derive(Clone, Copy)]
pub struct Slice<'a> {
    pub launch: &'a Launch,
    pub at: &'a LanePosition,
    /// Scratch memory of the lane; a lane without payload has none, and is never asked.
    scratch: *mut u8,
}

impl<'a> Slice<'a> {
    #[inline(always)]
    pub fn new(launch: &'a Launch, at: &'a LanePosition, scratch: &Option<Block>) -> Slice<'a> {
        let scratch = scratch.as_ref().map_or(std::ptr::null_mut(), Block::as_ptr);
        Slice {
            launch,
            at,
            scratch,
        }
    }

    /// Its elements of a chunk.
    #[inline]
    pub fn count(self, chunk: u32) -> usize {
        let LanePosition { round, slice, .. } = *self.at;
        let region = self.at.window.region(Space::Output, chunk, round, slice);
        region.count
    }

    /// The chunk of a step that is not packed.
    #[inline]
    pub fn chunk(self, step: &Step) -> u32 {
        step.chunk_at(self.at.repetition, self.launch.plan.chunks())
    }

    /// Bytes of the token: the slice of all its pieces.
    pub fn token_bytes(self, step: &Step) -> usize {
        let chunks = self.launch.plan.chunks();
        let pieces = 0..step.pieces();
        let counts = pieces.map(|it| self.count(step.piece_at(self.at.repetition, it, chunks)));
        counts.sum::<usize>() * self.launch.kernel.element_bytes
    }

    /// Slots of the slices of a kept token that come before this one: they are still there.
    #[inline(always)]
    pub fn kept_ahead(self, operand: &Operand) -> u32 {
        if operand.keep {
            self.at.slice * self.launch.geometry.slice_steps
        } else {
            0
        }
    }

    /// Where it lies in the call's own memory.
    #[inline]
    pub fn place(self, operand: &Operand, chunk: u32) -> *mut u8 {
        let base = match operand.space {
            Space::Input => self.launch.send.cast_mut(),
            Space::Scratch => return self.scratch_place(operand, chunk),
            _ => self.launch.recv,
        };
        let LanePosition { round, slice, .. } = *self.at;
        let chunk = operand.chunk(chunk, self.launch.plan.chunks());
        let region = self.at.window.region(operand.space, chunk, round, slice);
        base.wrapping_add(region.offset * self.launch.kernel.element_bytes)
    }

    fn scratch_place(self, operand: &Operand, chunk: u32) -> *mut u8 {
        let LanePosition { round, slice, .. } = *self.at;
        let place = operand.chunk(chunk, self.launch.plan.scratch());
        let region = self.at.window.scratch_region(place, chunk, round, slice);
        let offset = region.offset * self.launch.kernel.element_bytes;
        self.scratch.wrapping_add(offset)
    }
}
