//! Pair connections: one writer, one reader, first in first out, over 8 slots.
//!
//! Writer and reader each count slots. The writer may be at most 8 slots ahead of the reader's
//! credit; it publishes a slice by the line of the slice's first slot. Neither count is ever reset,
//! so calls follow each other without a barrier, and each end keeps its count here, not in launch
//! arguments.

use super::line::{Arrival, INLINE_BYTES, LINES, PairHeader, align};

/// Shared memory of one pair connection.
#[derive(Clone, Copy)]
pub struct PairMemory {
    header: *const PairHeader,
    slots: *mut u8,
    slot_bytes: usize,
}

// SAFETY: the pointers refer to memory that both ends may touch from any thread; who may touch what
// when is decided by the counts in the header.
unsafe impl Send for PairMemory {}

impl PairMemory {
    /// Describes a connection in shared memory.
    ///
    /// # Safety
    /// `header` is a zeroed or live [`PairHeader`] and `slots` has `8 * slot_bytes` bytes; both
    /// stay mapped as long as the ends that are made of this are used.
    pub unsafe fn new(header: *const PairHeader, slots: *mut u8, slot_bytes: usize) -> PairMemory {
        PairMemory {
            header,
            slots,
            slot_bytes,
        }
    }

    #[inline(always)]
    fn header(&self) -> &PairHeader {
        // SAFETY: valid for the life of the connection (contract of `new`); it is only ever shared.
        unsafe { &*self.header }
    }

    /// Where a slice of `bytes` that begins at slot count `position` lies.
    #[inline(always)]
    fn place(&self, position: u64, bytes: usize) -> *mut u8 {
        let index = position as usize % LINES;
        if bytes <= INLINE_BYTES {
            return self.header().lines[index]
                .payload()
                .write(|payload| payload.cast());
        }
        // SAFETY: `index < LINES`, and the slots hold `LINES * slot_bytes` bytes.
        unsafe { self.slots.add(index * self.slot_bytes) }
    }
}

/// The writing end.
pub struct PairSender {
    memory: PairMemory,
    /// Slots published.
    position: u64,
    /// Credit as last seen.
    given: u64,
}

impl PairSender {
    /// The writing end of a fresh connection.
    pub fn new(memory: PairMemory) -> PairSender {
        PairSender {
            memory,
            position: 0,
            given: 0,
        }
    }

    /// Begins a launch whose chunks take `chunk_steps` slots: slices never wrap.
    #[inline]
    pub fn begin(&mut self, chunk_steps: u32) {
        self.position = align(self.position, chunk_steps);
    }

    /// Whether a slice of `slots` slots may be written.
    #[inline]
    pub fn ready(&mut self, slots: u32) -> bool {
        let wanted = self.position + u64::from(slots);
        if wanted <= self.given + LINES as u64 {
            return true;
        }
        self.given = self.memory.header().credit.given();
        wanted <= self.given + LINES as u64
    }

    /// Where the next slice of `bytes` is to be written; call only when [`PairSender::ready`].
    #[inline]
    pub fn place(&self, bytes: usize) -> *mut u8 {
        self.memory.place(self.position, bytes)
    }

    /// Publishes the slice written at [`PairSender::place`].
    #[inline]
    pub fn publish(&mut self, slots: u32, bytes: usize, signature: u64) {
        let line = &self.memory.header().lines[self.position as usize % LINES];
        self.position += u64::from(slots);
        line.publish(self.position, signature, bytes as u64);
    }

    /// Slots published so far.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Whether the reader has given back everything.
    pub fn drained(&mut self) -> bool {
        self.given = self.memory.header().credit.given();
        self.given >= self.position
    }
}

/// The reading end.
pub struct PairReceiver {
    memory: PairMemory,
    /// Slots given back.
    position: u64,
}

impl PairReceiver {
    /// The reading end of a fresh connection.
    pub fn new(memory: PairMemory) -> PairReceiver {
        PairReceiver {
            memory,
            position: 0,
        }
    }

    /// Begins a launch whose chunks take `chunk_steps` slots.
    #[inline]
    pub fn begin(&mut self, chunk_steps: u32) {
        let aligned = align(self.position, chunk_steps);
        if aligned != self.position {
            self.position = aligned;
            self.memory.header().credit.give(aligned);
        }
    }

    /// Whether the slice `ahead` slots behind the next one is there. (Slices that a step keeps are
    /// given back later, so it looks ahead of them.)
    #[inline]
    pub fn ready(&self, ahead: u32) -> bool {
        let position = self.position + u64::from(ahead);
        self.memory.header().lines[position as usize % LINES].arrived(position)
    }

    /// Signature and byte count of that slice.
    #[inline]
    pub fn arrival(&self, ahead: u32) -> Arrival {
        let position = self.position + u64::from(ahead);
        self.memory.header().lines[position as usize % LINES].arrival()
    }

    /// Where that slice, of `bytes`, lies; valid until it is released.
    #[inline]
    pub fn place(&self, bytes: usize, ahead: u32) -> *const u8 {
        self.memory.place(self.position + u64::from(ahead), bytes)
    }

    /// Gives the slice back.
    #[inline]
    pub fn release(&mut self, slots: u32) {
        self.position += u64::from(slots);
        self.memory.header().credit.give(self.position);
    }

    /// Slots given back so far.
    pub fn position(&self) -> u64 {
        self.position
    }
}
