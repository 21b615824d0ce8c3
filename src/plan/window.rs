//! A window binds sizes to a lane at launch: which bytes chunk c of round k is, and how it is
//! sliced.
//!
//! Geometry: a Simple connection has `slots` slots of `slot_bytes`. A chunk fills at most
//! `chunk_steps` slots and is published in slices of `slice_steps` slots, so that the reader starts
//! before the writer has finished. Small chunks make small slices, but never so small that the
//! hand-over costs more than the copy.
//!
//! A packed token holds up to `pieces` chunks in one slice's worth of slots; so the largest chunk
//! shrinks by that number, and slice s of the token is slice s of every piece, empty ones included.
//!
//! Two layouts: *split*: the data of a round is divided evenly into all chunks (all-reduce);
//! *blocks*: chunk c is the same part of block c (all-gather: blocks of the output; an input of one
//! block is found because chunk numbers are taken modulo the chunks of the space).

use super::{Layout, Space};
use crate::base::checked::{div_up, round_up};
use std::mem::offset_of;
use std::ops::Range;

/// Sizes that hold for all lanes of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Slots of a connection.
    pub slots: u32,
    /// Bytes of a slot.
    pub slot_bytes: usize,
    /// Slots that a chunk fills at most.
    pub chunk_steps: u32,
    /// Slots that a slice takes.
    pub slice_steps: u32,
}

impl Geometry {
    /// Slots per Simple connection.
    pub const SLOTS: u32 = 8;

    /// Ring and Simple: chunks of half the connection, slices of a quarter.
    pub fn ring(buffer_bytes: usize) -> Geometry {
        let slots = Self::SLOTS;
        let slot_bytes = buffer_bytes / slots as usize;
        Geometry {
            slots,
            slot_bytes,
            chunk_steps: slots / 2,
            slice_steps: slots / 4,
        }
    }

    /// Point-to-point bundles: every slot is a chunk of its own.
    pub fn bundle(buffer_bytes: usize) -> Geometry {
        let slots = Self::SLOTS;
        let slot_bytes = buffer_bytes / slots as usize;
        Geometry {
            slots,
            slot_bytes,
            chunk_steps: 1,
            slice_steps: 1,
        }
    }

    /// Slices of a chunk.
    pub fn slices(&self) -> u32 {
        self.chunk_steps / self.slice_steps
    }

    /// Bytes of the largest slice.
    pub fn slice_bytes(&self) -> usize {
        self.slot_bytes * self.slice_steps as usize
    }

    /// Bytes of the largest chunk.
    pub fn chunk_bytes(&self) -> usize {
        self.slot_bytes * self.chunk_steps as usize
    }
}

/// The least elements of a split chunk, so that vectors and cache lines stay whole.
const CHUNK_ELEMENTS: usize = 64;
/// The least elements of a slice.
const SLICE_ELEMENTS: usize = 16;

/// A part of a buffer, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// From the start of the buffer.
    pub offset: usize,
    /// How many; 0 for the empty slice of a short chunk, whose token passes all the same.
    pub count: usize,
}

/// The sizes of one lane of one call. A device that runs the lane reads the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Window {
    layout: Layout,
    reserved: [u8; 3],
    /// Chunks of the plan.
    chunks: u32,
    /// Blocks of the input and of the output.
    blocks: [u32; 2],
    /// Distance of blocks, in elements.
    block_stride: usize,
    /// The lane's part of the data, or of every block.
    low: usize,
    high: usize,
    /// Elements of the largest chunk and slice.
    chunk_count: usize,
    slice_count: usize,
    rounds: u64,
    slices: u32,
    reserved_too: u32,
}

// Nothing between the fields, and the size of a `usize` is no matter of the machine.
const _: () = {
    assert!(
        size_of::<usize>() == 8,
        "kolo runs on machines with 64-bit addresses"
    );
    assert!(size_of::<Window>() == 72 && offset_of!(Window, chunks) == 4);
    assert!(offset_of!(Window, block_stride) == 16 && offset_of!(Window, low) == 24);
    assert!(offset_of!(Window, chunk_count) == 40 && offset_of!(Window, rounds) == 56);
};

/// The size of a window and where a device finds its fields.
pub const PLACES: [usize; 10] = [
    size_of::<Window>(),
    offset_of!(Window, chunks),
    offset_of!(Window, blocks),
    offset_of!(Window, block_stride),
    offset_of!(Window, low),
    offset_of!(Window, high),
    offset_of!(Window, chunk_count),
    offset_of!(Window, slice_count),
    offset_of!(Window, rounds),
    offset_of!(Window, slices),
];

/// Sizes that bind a window.
#[derive(Clone, Copy, Debug)]
pub struct Binding {
    /// Elements of the data (split) or of one block (blocks).
    pub count: usize,
    /// Bytes of one element.
    pub element_bytes: usize,
    /// Blocks of the input: 1, or the ranks.
    pub input_blocks: u32,
    /// Blocks of the output: 1, or the ranks.
    pub output_blocks: u32,
    /// Which of how many lanes share the data.
    pub lane: u32,
    /// Lanes that share the data.
    pub lanes: u32,
    /// Chunks in the largest token: `pieces` of the plan, at least 1.
    pub pieces: u32,
}

/// Elements of the largest slice of a chunk. Slices of packed tokens are cut to whole groups of
/// elements, so that pieces follow each other on good addresses.
fn slice_count(geometry: &Geometry, binding: &Binding) -> usize {
    let piece_bytes = geometry.slice_bytes() / binding.pieces.max(1) as usize;
    let fitting = (piece_bytes / binding.element_bytes).max(1);
    if binding.pieces > 1 && fitting > SLICE_ELEMENTS {
        return fitting / SLICE_ELEMENTS * SLICE_ELEMENTS;
    }
    fitting
}

impl Window {
    /// Returns the bytes that a device reads.
    pub fn as_bytes(&self) -> &[u8] {
        // SAFETY: the fields fill the structure, as is asserted above, and all are written.
        unsafe { std::slice::from_raw_parts((&raw const *self).cast(), size_of::<Window>()) }
    }

    /// Elements of the largest slice: the first one of the first chunk, as what is left over makes
    /// the later ones shorter.
    pub fn largest_slice(&self) -> usize {
        self.region(Space::Output, 0, 0, 0).count
    }

    /// The window of one lane. Lanes get contiguous parts of about equal size.
    ///
    /// One element of each piece must fit a slice: the executor refuses larger tokens.
    pub fn bind(layout: Layout, chunks: u32, geometry: &Geometry, binding: &Binding) -> Window {
        let share = round_up(
            div_up(binding.count, binding.lanes as usize),
            CHUNK_ELEMENTS,
        );
        let low = (share * binding.lane as usize).min(binding.count);
        let high = (low + share).min(binding.count);
        let slice_count = slice_count(geometry, binding);
        let chunk_count = slice_count * geometry.slices() as usize;
        let per_round = match layout {
            Layout::Split => chunk_count * chunks.max(1) as usize,
            Layout::Blocks => chunk_count,
        };
        Window {
            layout,
            reserved: [0; 3],
            chunks,
            blocks: [binding.input_blocks, binding.output_blocks],
            block_stride: binding.count,
            low,
            high,
            chunk_count,
            slice_count,
            rounds: div_up(high - low, per_round).max(1) as u64,
            slices: geometry.slices(),
            reserved_too: 0,
        }
    }

    /// Moves the part behind `elements` elements, for a buffer that begins so much earlier.
    pub fn shifted(self, elements: usize) -> Window {
        Window {
            low: self.low + elements,
            high: self.high + elements,
            ..self
        }
    }

    /// Adds so many rounds, whose tokens are empty.
    pub fn and_empty_rounds(self, rounds: u64) -> Window {
        Window {
            rounds: self.rounds + rounds,
            ..self
        }
    }

    /// Passes of the plan, at least 1: an empty lane passes its tokens too.
    pub fn rounds(&self) -> u64 {
        self.rounds
    }

    /// Slices of a chunk.
    pub fn slices(&self) -> u32 {
        self.slices
    }

    /// Where slice `slice` of chunk `chunk` lies in `space` in round `round`. A connection carries
    /// the slice of the step's own chunk: its region's offset has no meaning. For scratch see
    /// [`Window::scratch_region`].
    #[inline]
    pub fn region(&self, space: Space, chunk: u32, round: u64, slice: u32) -> Region {
        let (start, count) = self.chunk(space, chunk, round as usize);
        let per_slice = self.slice_elements(count);
        let first = (per_slice * slice as usize).min(count);
        Region {
            offset: start + first,
            count: per_slice.min(count - first),
        }
    }

    /// Elements from one chunk of scratch to the next: room for the largest chunk, so that each
    /// begins a cache line.
    pub fn scratch_stride(&self) -> usize {
        let data = self.high - self.low;
        let largest = match self.layout {
            Layout::Split => div_up(data, self.chunks.max(1) as usize),
            Layout::Blocks => data,
        };
        round_up(largest.min(self.chunk_count), CHUNK_ELEMENTS)
    }

    /// Where slice `slice` of chunk `chunk` lies in round `round` if it was put into chunk `place`
    /// of the scratch memory.
    #[inline]
    pub fn scratch_region(&self, place: u32, chunk: u32, round: u64, slice: u32) -> Region {
        let (_, count) = self.chunk(Space::Output, chunk, round as usize);
        let per_slice = self.slice_elements(count);
        let first = (per_slice * slice as usize).min(count);
        Region {
            offset: place as usize * self.scratch_stride() + first,
            count: per_slice.min(count - first),
        }
    }

    /// Start and length of a chunk.
    fn chunk(&self, space: Space, chunk: u32, round: usize) -> (usize, usize) {
        match self.layout {
            Layout::Split => {
                let round_start = self.low + round * self.chunk_count * self.chunks as usize;
                let rest = self.high.saturating_sub(round_start);
                let even = round_up(div_up(rest, self.chunks as usize), CHUNK_ELEMENTS);
                let length = even.min(self.chunk_count);
                let start = (round_start + length * chunk as usize).min(self.high);
                (start, length.min(self.high - start))
            }
            Layout::Blocks => {
                let blocks = self.blocks[usize::from(space != Space::Input)];
                let block = (chunk % blocks.max(1)) as usize;
                let start = (self.low + round * self.chunk_count).min(self.high);
                let length = self.chunk_count.min(self.high - start);
                (block * self.block_stride + start, length)
            }
        }
    }

    /// Elements of a slice of a chunk of `count`: an even share in whole groups of 16, but at
    /// least a thirty-second of the largest slice.
    fn slice_elements(&self, count: usize) -> usize {
        let share = div_up(count, SLICE_ELEMENTS * self.slices as usize) * SLICE_ELEMENTS;
        share.max(self.slice_count / 32).min(self.slice_count)
    }
}

/// The elements of a part, `part` of `parts`, of a slice of `count` elements: an even share in
/// whole groups of 16, but at least a thirty-second of the most that a slot holds.
#[inline]
pub fn part(count: usize, part: u32, parts: u32, most: usize) -> Range<usize> {
    let share = div_up(count, SLICE_ELEMENTS * parts as usize) * SLICE_ELEMENTS;
    let share = share.max(most / 32).min(most);
    let at = |part: u32| (share * part as usize).min(count);
    at(part)..at(part + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binding(count: usize, lane: u32, lanes: u32) -> Binding {
        Binding {
            count,
            element_bytes: 4,
            input_blocks: 1,
            output_blocks: 3,
            lane,
            lanes,
            pieces: 1,
        }
    }

    /// Every element is covered exactly once by (lane, round, chunk, slice).
    fn covered(layout: Layout, count: usize, chunks: u32, lanes: u32, geometry: &Geometry) {
        for (pieces, element_bytes) in [(1, 4), (2, 4), (3, 4), (7, 4), (1, 12), (5, 16)] {
            let sizes = |lane| Binding {
                element_bytes,
                pieces,
                ..binding(count, lane, lanes)
            };
            covered_by(layout, count, chunks, geometry, (lanes, &sizes));
        }
    }

    fn covered_by(
        layout: Layout,
        count: usize,
        chunks: u32,
        geometry: &Geometry,
        (lanes, sizes): (u32, &dyn Fn(u32) -> Binding),
    ) {
        let blocks = if layout == Layout::Blocks { 3 } else { 1 };
        let mut seen = vec![0u8; count * blocks];
        for lane in 0..lanes {
            let sizes = sizes(lane);
            let window = Window::bind(layout, chunks, geometry, &sizes);
            for round in 0..window.rounds() {
                for chunk in 0..chunks {
                    for slice in 0..window.slices() {
                        let r = window.region(Space::Output, chunk, round, slice);
                        let token = r.count * sizes.element_bytes * sizes.pieces as usize;
                        assert!(token <= geometry.slice_bytes(), "tokens fit their slots");
                        assert!(r.count <= window.largest_slice(), "of none is it larger");
                        seen[r.offset..r.offset + r.count]
                            .iter_mut()
                            .for_each(|s| *s += 1);
                    }
                }
            }
        }
        assert!(
            seen.iter().all(|&s| s == 1),
            "{layout:?} {count} {chunks} {lanes}"
        );
    }

    #[test]
    fn every_element_exactly_once() {
        let geometry = Geometry {
            slots: 8,
            slot_bytes: 1024,
            chunk_steps: 4,
            slice_steps: 2,
        };
        for count in [0, 1, 15, 16, 17, 63, 64, 65, 1000, 4096, 5000, 12_345] {
            for lanes in 1..4 {
                for chunks in [1, 2, 3, 5, 8] {
                    covered(Layout::Split, count, chunks, lanes, &geometry);
                }
                covered(Layout::Blocks, count, 3, lanes, &geometry);
            }
        }
    }

    /// Chunks of scratch hold any chunk of any round, and do not overlap.
    #[test]
    fn scratch_holds_the_largest_chunk() {
        let geometry = Geometry::ring(64 << 10);
        for layout in [Layout::Split, Layout::Blocks] {
            for count in [0, 1, 63, 100, 5000, 123_456] {
                let window = Window::bind(layout, 3, &geometry, &binding(count, 0, 1));
                let stride = window.scratch_stride();
                assert_eq!(stride % 64, 0);
                for (round, chunk) in (0..window.rounds()).flat_map(|r| [(r, 0), (r, 2)]) {
                    for slice in 0..window.slices() {
                        let there = window.scratch_region(5, chunk, round, slice);
                        let here = window.region(Space::Output, chunk, round, slice);
                        assert_eq!(there.count, here.count);
                        assert!(there.offset >= 5 * stride);
                        assert!(there.offset + there.count <= 6 * stride);
                    }
                }
            }
        }
    }

    #[test]
    fn checklist_geometry() {
        let geometry = Geometry::ring(4 << 20);
        assert_eq!(geometry.slot_bytes, 512 << 10);
        assert_eq!(geometry.chunk_bytes(), 2 << 20);
        assert_eq!(geometry.slice_bytes(), 1 << 20);
        assert_eq!(geometry.slices(), 2);
    }

    /// A hand-over costs more than to copy a few elements: a small chunk is one slice.
    #[test]
    fn slices_are_no_smaller_than_they_must_be() {
        let geometry = Geometry::ring(4 << 20);
        let counts = |count| {
            let window = Window::bind(Layout::Split, 1, &geometry, &binding(count, 0, 1));
            [0, 1].map(|slice| window.region(Space::Output, 0, 0, slice).count)
        };
        let least = geometry.slice_bytes() / 4 / 32;
        assert_eq!(counts(100), [100, 0]);
        assert_eq!(counts(least + 64), [least, 64]);
        assert_eq!(counts(4 * least), [2 * least; 2]);
    }

    #[test]
    fn rounds_follow_the_loop_formula() {
        let geometry = Geometry::ring(64 << 10);
        for (count, chunks) in [(1usize << 20, 4u32), (12_345_678, 7), (1, 2), (0, 3)] {
            let window = Window::bind(Layout::Split, chunks, &geometry, &binding(count, 0, 1));
            let loops = div_up(count * 4, chunks as usize * geometry.chunk_bytes());
            assert_eq!(window.rounds(), loops.max(1) as u64);
        }
    }

    #[test]
    fn input_of_one_block_repeats() {
        let geometry = Geometry::ring(64 << 10);
        let window = Window::bind(Layout::Blocks, 3, &geometry, &binding(100, 0, 1));
        let first = window.region(Space::Input, 0, 0, 0);
        assert_eq!(window.region(Space::Input, 2, 0, 0), first);
        assert_eq!(window.region(Space::Output, 2, 0, 0).offset, 200);
    }
}
