//! One lane on its way: how far it got, and where a step's data lie.

use super::launch::Launch;
use super::lists::Lists;
use super::scratch::Block;
use crate::plan::{Operand, Space, Window};

/// One lane on its way.
pub struct LaneRun {
    pub lane: usize,
    pub window: Window,
    pub round: u64,
    pub step: usize,
    pub repetition: u16,
    pub slice: u32,
    /// Operands of the current step instance known to be ready.
    pub ready: usize,
    pub begun: bool,
    /// Scratch memory of this lane, while it runs.
    pub scratch: Option<Block>,
    pub lists: Lists,
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

    /// Begins anew as [`LaneRun::new`] does, in the memory of a finished run.
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
}

/// Slots of the slices of a kept token that come before slice `slice`: they are still there.
#[inline(always)]
pub fn kept_ahead(operand: &Operand, slice: u32, slots: u32) -> u32 {
    if operand.keep { slice * slots } else { 0 }
}

/// Which slice of which round is at hand.
#[derive(Clone, Copy)]
pub struct At<'a> {
    pub window: &'a Window,
    pub round: u64,
    pub slice: u32,
    pub scratch: &'a Option<Block>,
}

impl<'a> At<'a> {
    #[inline(always)]
    pub fn new(window: &'a Window, round: u64, slice: u32, scratch: &'a Option<Block>) -> At<'a> {
        At {
            window,
            round,
            slice,
            scratch,
        }
    }

    /// Where it lies in the call's own memory.
    #[inline]
    pub fn place(self, operand: &Operand, launch: &Launch, chunk: u32) -> *mut u8 {
        let base = match operand.space {
            Space::Input => launch.send.cast_mut(),
            Space::Scratch => return self.scratch_place(operand, launch, chunk),
            _ => launch.recv,
        };
        let chunk = operand.chunk(chunk, launch.plan.chunks());
        let region = self
            .window
            .region(operand.space, chunk, self.round, self.slice);
        base.wrapping_add(region.offset * launch.kernel.element_bytes)
    }

    pub fn scratch_place(self, operand: &Operand, launch: &Launch, chunk: u32) -> *mut u8 {
        let place = operand.chunk(chunk, launch.plan.scratch());
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
