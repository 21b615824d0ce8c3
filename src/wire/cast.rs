//! Cast connections: one writer, every other rank of the node or of a group reads, first in first
//! out, over 8 slots.
//!
//! The writer writes a token once, however many read it: the multicast of a host. A *fan* does so
//! too, for one token of a small call; a cast carries calls of any size, in slices, round after
//! round. Lines are those of pair connections. Every reader gives its slots back in a word of its
//! own, its *credit*, on a cache line of its own, and the writer may be at most 8 slots ahead of
//! the slowest one. It remembers who that was, and while it waits it looks at that reader's line
//! only.

use super::line::{Arrival, Credit, INLINE_BYTES, LINES, Line, align, part};
use crate::base::sync::MODEL;
use std::ops::Range;

/// The lines of a cast, one a slot. The readers' credits lie elsewhere.
#[repr(C, align(64))]
pub struct CastHeader {
    /// One line a slot.
    pub lines: [Line; LINES],
    /// Keeps the next header out of the adjacent-line prefetcher's reach.
    pad: [u64; 16],
}

const _: () = assert!(MODEL || size_of::<CastHeader>() == 640);

impl Default for CastHeader {
    fn default() -> Self {
        Self::new()
    }
}

impl CastHeader {
    /// A header in ordinary memory, for tests.
    pub fn new() -> CastHeader {
        CastHeader {
            lines: std::array::from_fn(|_| Line::new()),
            pad: [0; 16],
        }
    }
}

/// Shared memory of one cast.
#[derive(Clone, Copy)]
pub struct CastMemory {
    header: *const CastHeader,
    credits: *const Credit,
    ranks: usize,
    slots: *mut u8,
    slot_bytes: usize,
}

// SAFETY: as for pair connections: the counts decide who touches what when.
unsafe impl Send for CastMemory {}

impl CastMemory {
    /// Describes a cast in shared memory; `credits` are those of all `ranks` of the node, in order.
    ///
    /// # Safety
    /// `header` is a zeroed or live [`CastHeader`], `credits` points to `ranks` zeroed or live
    /// credits, and `slots` has `8 * slot_bytes` bytes; all stay mapped as long as the ends that
    /// are made of this are used.
    pub unsafe fn new(
        header: *const CastHeader,
        (credits, ranks): (*const Credit, usize),
        slots: *mut u8,
        slot_bytes: usize,
    ) -> CastMemory {
        CastMemory {
            header,
            credits,
            ranks,
            slots,
            slot_bytes,
        }
    }

    #[inline(always)]
    fn line(&self, position: u64) -> &Line {
        // SAFETY: valid for the life of the connection (contract of `new`); it is only ever shared.
        unsafe { &(&(*self.header).lines)[position as usize % LINES] }
    }

    #[inline(always)]
    fn credit(&self, reader: usize) -> &Credit {
        debug_assert!(reader < self.ranks);
        // SAFETY: there is a credit for each rank (contract of `new`); it is only ever shared.
        unsafe { &*self.credits.add(reader) }
    }

    /// Where a slice of `bytes` that begins at slot count `position` lies.
    #[inline(always)]
    fn place(&self, position: u64, bytes: usize) -> *mut u8 {
        if bytes <= INLINE_BYTES {
            return self
                .line(position)
                .payload()
                .write(|payload| payload.cast());
        }
        let index = position as usize % LINES;
        // SAFETY: `index < LINES`, and the slots hold `LINES * slot_bytes` bytes.
        unsafe { self.slots.add(index * self.slot_bytes) }
    }
}

/// The writing end.
pub struct CastSender {
    memory: CastMemory,
    me: usize,
    /// The ranks that read; this one may be among them.
    readers: Box<[u32]>,
    /// Which of the casts of this rank it is.
    number: u8,
    /// Slots published.
    position: u64,
    /// Least credit of any reader as last seen, and whose it was.
    given: u64,
    slowest: usize,
}

impl CastSender {
    /// The writing end, of local rank `me`, of a fresh connection that all ranks read; it is cast
    /// `number` of this rank.
    pub fn new(memory: CastMemory, me: usize, number: u8) -> CastSender {
        let mut sender = CastSender {
            memory,
            me,
            readers: Box::default(),
            number,
            position: 0,
            given: 0,
            slowest: me,
        };
        // Nothing was written yet.
        let _ = sender.read_by(0..memory.ranks as u32);
        sender
    }

    /// Lets these ranks read, this one perhaps among them. False if tokens were written for others:
    /// a cast has the same readers always.
    #[must_use]
    pub fn read_by(&mut self, readers: impl Iterator<Item = u32>) -> bool {
        if self.position > 0 {
            return self.readers.iter().copied().eq(readers);
        }
        self.readers = readers.collect();
        let others = self.readers.iter().map(|&reader| reader as usize);
        let slowest = others.filter(|&reader| reader != self.me).min();
        self.slowest = slowest.unwrap_or(self.me);
        true
    }

    /// Begins a launch whose chunks take `chunk_steps` slots: slices never wrap.
    #[inline]
    pub fn begin(&mut self, chunk_steps: u32) {
        self.position = align(self.position, chunk_steps);
    }

    /// Whether a slice of `slots` slots may be written.
    #[inline]
    pub fn ready(&mut self, slots: u32) -> bool {
        let needed = (self.position + u64::from(slots)).saturating_sub(LINES as u64);
        self.given >= needed || self.credit(needed)
    }

    /// Whether every reader has given back the slots below `needed`.
    fn credit(&mut self, needed: u64) -> bool {
        if self.memory.credit(self.slowest).given() < needed && self.slowest != self.me {
            return false;
        }
        let mut least = u64::MAX;
        let readers = self.readers.iter().map(|&reader| reader as usize);
        for reader in readers.filter(|&reader| reader != self.me) {
            let given = self.memory.credit(reader).given();
            if given < least {
                (least, self.slowest) = (given, reader);
            }
        }
        self.given = least;
        least >= needed
    }

    /// Whether every reader has given back everything.
    pub fn drained(&mut self) -> bool {
        self.given >= self.position || self.credit(self.position)
    }

    /// Which of the casts of this rank it is.
    pub fn number(&self) -> usize {
        usize::from(self.number)
    }

    /// The reader that holds the writer back.
    pub fn slowest(&self) -> usize {
        self.slowest
    }

    /// Where the next slice of `bytes` is to be written; call only when [`CastSender::ready`].
    #[inline]
    pub fn place(&self, bytes: usize) -> *mut u8 {
        self.memory.place(self.position, bytes)
    }

    /// Publishes the slice written at [`CastSender::place`], for all readers at once.
    #[inline]
    pub fn publish(&mut self, slots: u32, bytes: usize, signature: u64) {
        let line = self.memory.line(self.position);
        self.position += u64::from(slots);
        line.publish(self.position, signature, bytes as u64);
    }

    /// Publishes bytes of a slice of one slot, which lies at [`CastSender::place`] until its first
    /// ones are published. They follow each other; the last ones end it.
    #[inline]
    pub fn publish_part(&mut self, written: Range<usize>, bytes: usize, signature: u64) {
        let ack = part(written.end, bytes);
        if written.start > 0 {
            return self.memory.line(self.position - 1).grow(ack);
        }
        let line = self.memory.line(self.position);
        self.position += 1;
        line.publish(self.position, signature, ack);
    }

    /// Slots published so far.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Bytes of a slot.
    pub fn slot_bytes(&self) -> usize {
        self.memory.slot_bytes
    }
}

/// A reading end.
pub struct CastReceiver {
    memory: CastMemory,
    me: usize,
    /// Slots given back.
    position: u64,
}

impl CastReceiver {
    /// The reading end, of local rank `me`, of a fresh connection.
    pub fn new(memory: CastMemory, me: usize) -> CastReceiver {
        CastReceiver {
            memory,
            me,
            position: 0,
        }
    }

    /// Begins a launch whose chunks take `chunk_steps` slots.
    #[inline]
    pub fn begin(&mut self, chunk_steps: u32) {
        let aligned = align(self.position, chunk_steps);
        if aligned != self.position {
            self.position = aligned;
            self.memory.credit(self.me).give(aligned);
        }
    }

    /// Whether the slice `ahead` slots behind the next one is there.
    #[inline]
    pub fn ready(&self, ahead: u32) -> bool {
        let position = self.position + u64::from(ahead);
        self.memory.line(position).whole(position)
    }

    /// Bytes of the next slice that are there, [`super::line::WHOLE`] if it is whole.
    #[inline]
    pub fn written(&self) -> usize {
        self.memory.line(self.position).written(self.position)
    }

    /// Signature and byte count of that slice.
    #[inline]
    pub fn arrival(&self, ahead: u32) -> Arrival {
        self.memory.line(self.position + u64::from(ahead)).arrival()
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
        self.memory.credit(self.me).give(self.position);
    }

    /// Slots given back so far.
    pub fn position(&self) -> u64 {
        self.position
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory of a cast among some ranks, with slots of 64 bytes.
    struct Held {
        header: CastHeader,
        credits: Vec<Credit>,
        slots: Vec<u8>,
    }

    impl Held {
        fn of(ranks: usize) -> Held {
            Held {
                header: CastHeader::new(),
                credits: (0..ranks).map(|_| Credit::new()).collect(),
                slots: vec![0; LINES * 64],
            }
        }

        fn memory(&mut self) -> CastMemory {
            let credits = (self.credits.as_ptr(), self.credits.len());
            // SAFETY: all of it outlives the ends, on this thread alone.
            unsafe { CastMemory::new(&raw const self.header, credits, self.slots.as_mut_ptr(), 64) }
        }
    }

    #[test]
    fn the_slowest_reader_holds_the_writer_back() {
        let mut held = Held::of(4);
        let memory = held.memory();
        let mut sender = CastSender::new(memory, 1, 0);
        let mut readers = [0, 2, 3].map(|rank| CastReceiver::new(memory, rank));
        for token in 0..4 {
            assert!(sender.ready(2));
            sender.publish(2, 64, token);
        }
        assert!(!sender.ready(2));
        for (order, at) in [2, 0, 1].into_iter().enumerate() {
            let reader = &mut readers[at];
            assert!(reader.ready(0) && reader.ready(6) && !reader.ready(8));
            assert_eq!(reader.arrival(2).signature, 1);
            reader.release(2);
            assert_eq!(
                sender.ready(2),
                order == 2,
                "two gave back, the third has not"
            );
        }
        sender.publish(2, 64, 4);
        assert!(!sender.ready(2));
        readers.iter_mut().for_each(|reader| reader.release(2));
        assert!(sender.ready(2) && !sender.ready(4));
    }

    #[test]
    fn who_does_not_read_is_not_waited_for() {
        let mut held = Held::of(5);
        let memory = held.memory();
        let mut sender = CastSender::new(memory, 2, 1);
        assert!(sender.read_by([0, 2, 4].into_iter()));
        let mut readers = [0, 4].map(|rank| CastReceiver::new(memory, rank));
        for _ in 0..LINES {
            assert!(sender.ready(1));
            sender.publish(1, 64, 7);
        }
        assert!(!sender.ready(1) && [0, 4].contains(&sender.slowest()));
        readers[1].release(LINES as u32);
        assert!(!sender.ready(1));
        assert_eq!(sender.slowest(), 0);
        readers[0].release(LINES as u32);
        assert!(sender.ready(LINES as u32) && sender.drained());
        assert!(sender.read_by([0, 2, 4].into_iter()) && !sender.read_by([0, 2].into_iter()));
    }

    #[test]
    fn small_payloads_travel_in_their_line() {
        let mut held = Held::of(2);
        let memory = held.memory();
        let sender = CastSender::new(memory, 0, 0);
        let reader = CastReceiver::new(memory, 1);
        let lines = &raw const held.header.lines;
        assert_eq!(
            sender.place(INLINE_BYTES),
            reader.place(INLINE_BYTES, 0).cast_mut()
        );
        assert_eq!(sender.place(INLINE_BYTES).cast_const(), lines.cast());
        assert_eq!(sender.place(INLINE_BYTES + 1), held.slots.as_mut_ptr());
    }
}
