//! Position of a lane, and where the data of its steps lie there.
//!
//! A slice may take several slots, and between nodes a slot is a message. So a lane with
//! connections to other nodes moves a slice in as many *parts*: each is a token there, while ranks
//! of its node hand over the whole slice.

use super::launch::Launch;
use super::scratch::Block;
use crate::plan::{Operand, Space, Step, Window, window};
use std::ops::Range;

/// How far a lane got: the slice of a step that comes next.
#[derive(Clone, Copy)]
pub struct LanePosition {
    pub lane: usize,
    pub window: Window,
    pub round: u64,
    pub step: usize,
    pub repetition: u16,
    pub slice: u32,
    /// Parts of each slice, and which of them comes next.
    pub parts: u32,
    pub part: u32,
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
            parts: 1,
            part: 0,
        }
    }

    /// Whether the part that comes next is the last one of its slice.
    #[inline(always)]
    pub fn is_last_part(&self) -> bool {
        self.part + 1 == self.parts
    }

    /// Goes on to the next part, in a lane of so many steps. True if this was the last one of the
    /// step.
    #[inline]
    pub fn go_on(&mut self, step: &Step, steps: usize) -> bool {
        if !self.is_last_part() {
            self.part += 1;
            return false;
        }
        self.part = 0;
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

/// Bytes of a slice, and of the part of it that comes next.
#[derive(Clone, Copy)]
pub struct SliceBytes {
    pub part: usize,
    pub whole: usize,
}

/// The slice at a position of a launch, or the part of it that comes next.
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

    /// The slice at another position of the lane.
    pub fn moved_to(self, at: &'a LanePosition) -> Slice<'a> {
        Slice { at, ..self }
    }

    /// Elements of the part, of a chunk.
    #[inline]
    pub fn count(self, chunk: u32) -> usize {
        self.part(chunk).len()
    }

    /// Elements of the whole slice, of a chunk.
    #[inline]
    pub fn whole_count(self, chunk: u32) -> usize {
        let LanePosition { round, slice, .. } = *self.at;
        let region = self.at.window.region(Space::Output, chunk, round, slice);
        region.count
    }

    /// The elements of the slice that are those of the part.
    #[inline]
    pub fn part(self, chunk: u32) -> Range<usize> {
        let whole = self.whole_count(chunk);
        if self.at.parts == 1 {
            return 0..whole;
        }
        let LanePosition { parts, part, .. } = *self.at;
        let most = self.launch.geometry.slot_bytes / self.launch.kernel.element_bytes;
        window::part(whole, part, parts, most)
    }

    /// Bytes of the slice before the part, which has `bytes`, and of the whole slice.
    #[inline(always)]
    pub fn in_whole(self, chunk: u32, bytes: usize) -> (usize, usize) {
        match self.at.parts {
            1 => (0, bytes),
            _ => {
                let whole = self.whole_count(chunk) * self.launch.kernel.element_bytes;
                (self.bytes_before(chunk), whole)
            }
        }
    }

    /// Bytes of the slice before the part.
    #[inline]
    pub fn bytes_before(self, chunk: u32) -> usize {
        match self.at.part {
            0 => 0,
            _ => self.part(chunk).start * self.launch.kernel.element_bytes,
        }
    }

    /// The chunk of a step that is not packed.
    #[inline]
    pub fn chunk(self, step: &Step) -> u32 {
        step.chunk_at(self.at.repetition, self.launch.plan.chunks())
    }

    /// Bytes of the token inside the node: the slice of all its pieces.
    pub fn token_bytes(self, step: &Step) -> usize {
        let chunks = self.launch.plan.chunks();
        let pieces = 0..step.pieces();
        let chunk = |piece| step.piece_at(self.at.repetition, piece, chunks);
        let counts = pieces.map(|piece| self.whole_count(chunk(piece)));
        counts.sum::<usize>() * self.launch.kernel.element_bytes
    }

    /// Slots of the token of this slice at a connection: one of each part that goes to another
    /// node.
    #[inline(always)]
    pub fn slots(self, index: usize) -> u32 {
        if self.is_by_parts(index) {
            return 1;
        }
        self.launch.geometry.slice_steps
    }

    /// Whether each part of the slice is a token of its own at this connection.
    #[inline(always)]
    pub fn is_by_parts(self, index: usize) -> bool {
        self.at.parts > 1 && self.launch.plan.is_remote[index]
    }

    /// Bytes of the token that moves now at a connection, if one does. Inside the node it is the
    /// whole slice, when the last part is done.
    #[inline(always)]
    pub fn moved(self, index: usize, bytes: SliceBytes) -> Option<usize> {
        if self.is_by_parts(index) {
            return Some(bytes.part);
        }
        self.at.is_last_part().then_some(bytes.whole)
    }

    /// Slots of a kept token that come before those of this slice: they are still there.
    #[inline(always)]
    pub fn kept_ahead(self, operand: &Operand) -> u32 {
        if !operand.keep {
            return 0;
        }
        let ahead = self.at.slice * self.launch.geometry.slice_steps;
        if self.is_by_parts(usize::from(operand.index)) {
            return ahead + self.at.part;
        }
        ahead
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
        let offset = region.offset * self.launch.kernel.element_bytes;
        base.wrapping_add(offset + self.bytes_before(chunk))
    }

    fn scratch_place(self, operand: &Operand, chunk: u32) -> *mut u8 {
        let LanePosition { round, slice, .. } = *self.at;
        let place = operand.chunk(chunk, self.launch.plan.scratch());
        let region = self.at.window.scratch_region(place, chunk, round, slice);
        let offset = region.offset * self.launch.kernel.element_bytes;
        self.scratch.wrapping_add(offset + self.bytes_before(chunk))
    }
}
