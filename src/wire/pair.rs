//! Pair connections: one writer, one reader, first in first out, over 8 slots.
//!
//! Writer and reader each count slots. The writer may be at most 8 slots ahead of the reader's
//! credit, and 32 with payloads that need no slot; it publishes a slice by the line of the slice's
//! first slot. Neither count is ever reset, so calls follow each other without a barrier, and each
//! end keeps its count here, not in launch arguments.

use super::line::{
    Arrival, CLAIMED_BYTES, INLINE_BYTES, LINES, Line, PairHeader, SMALL_BYTES, TOKENS, align,
    claim, part, payload_place,
};
use std::ops::Range;

/// Marks the byte count of a token whose payload lies elsewhere: its slot holds the address.
const ELSEWHERE: u64 = 1 << 63;
/// The least payload that may lie elsewhere.
pub const ELSEWHERE_BYTES: usize = 4096;
/// Between nodes, payload of at least so many bytes goes straight from and to the caller's memory
/// where a step only copies it. For less, a copy costs less than saying where the payload lies.
///
/// Executors and the engine must use this one number. From this size on an executor says where it
/// wants the next token; after a message of this size the engine looks for that wish before it
/// takes the next message. If the engine began at a larger size, it would look too late.
pub const STRAIGHT_BYTES: usize = 8 << 10;

const _: () = assert!(ELSEWHERE_BYTES <= STRAIGHT_BYTES);

/// Words in the slot of a token whose payload a rank of the node reads where it lies: its address
/// in the process of its writer, and where in which allocation of that process it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct ShownWords {
    /// Of the first byte.
    pub address: u64,
    /// Number of the allocation; 0 if none.
    pub number: u64,
    /// Bytes from the start of the allocation.
    pub offset: u64,
    /// 0, or the bytes of a registration that is mapped by its parts.
    pub window: u64,
    /// How often that process has freed what others may have mapped.
    pub freed: u64,
}

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

    /// The slot of slot count `position`.
    fn slot(&self, position: u64) -> *mut u8 {
        let index = position as usize % LINES;
        // SAFETY: one of the slots of the contract of `new`.
        unsafe { self.slots.add(index * self.slot_bytes) }
    }

    /// Where a slice of `bytes` that begins at slot count `position` lies.
    #[inline(always)]
    fn place(&self, position: u64, bytes: usize) -> *mut u8 {
        let header = self.header();
        let (lines, slots) = (
            (&header.lines, &header.small),
            (self.slots, self.slot_bytes),
        );
        // SAFETY: the contract of `new`.
        unsafe { payload_place(lines, slots, position, bytes) }
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

    /// Whether a slice of one slot and at most [`super::line::SMALL_BYTES`] may be written, which
    /// needs a line and no slot.
    #[inline]
    pub fn ready_small(&mut self) -> bool {
        let wanted = self.position + 1;
        if wanted <= self.given + TOKENS as u64 {
            return true;
        }
        self.given = self.memory.header().credit.given();
        wanted <= self.given + TOKENS as u64
    }

    /// Where the next slice of `bytes` is to be written; call only when [`PairSender::ready`].
    #[inline]
    pub fn place(&self, bytes: usize) -> *mut u8 {
        self.memory.place(self.position, bytes)
    }

    /// Publishes the slice written at [`PairSender::place`].
    #[inline]
    pub fn publish(&mut self, slots: u32, bytes: usize, signature: u64) {
        let lines = &self.memory.header().lines;
        let line = &lines[self.position as usize % TOKENS];
        self.position += u64::from(slots);
        line.publish(self.position, signature, bytes as u64);
        let next = &raw const lines[self.position as usize % TOKENS];
        claim(next.cast(), size_of::<Line>());
        // Where the reader lags, the next place is one that it has yet to read.
        let places = if bytes <= SMALL_BYTES { TOKENS } else { LINES };
        let is_free = self.position < self.given + places as u64;
        if is_free && bytes > INLINE_BYTES && bytes <= CLAIMED_BYTES {
            claim(self.memory.place(self.position, bytes), bytes);
        }
    }

    /// Publishes bytes of a slice of one slot, which lies at [`PairSender::place`] until its first
    /// ones are published. They follow each other; the last ones end it.
    #[inline]
    pub fn publish_part(&mut self, written: Range<usize>, bytes: usize, signature: u64) {
        let lines = &self.memory.header().lines;
        let ack = part(written.end, bytes);
        if written.start > 0 {
            return lines[(self.position as usize + TOKENS - 1) % TOKENS].grow(ack);
        }
        let line = &lines[self.position as usize % TOKENS];
        self.position += 1;
        line.publish(self.position, signature, ack);
    }

    /// Publishes a slice of one slot whose payload, of at least [`ELSEWHERE_BYTES`], stays where it
    /// is until the slice was given back. Only where the reader is in this process.
    ///
    /// # Safety
    /// `data` holds so many bytes, which nobody writes before the slice was given back.
    pub unsafe fn publish_elsewhere(&mut self, data: *mut u8, bytes: usize, signature: u64) {
        debug_assert!(bytes >= ELSEWHERE_BYTES, "a small payload has no slot");
        let slot = self.slot(0).cast::<*mut u8>();
        // SAFETY: the slot is the writer's, and larger than an address.
        unsafe { slot.write_unaligned(data) };
        let line = &self.memory.header().lines[self.position as usize % TOKENS];
        self.position += 1;
        line.publish(self.position, signature, bytes as u64 | ELSEWHERE);
    }

    /// Publishes a slice whose payload, of at least [`ELSEWHERE_BYTES`], stays where the words in
    /// its slot say until the slice was given back.
    #[inline]
    pub fn publish_shown(&mut self, words: &ShownWords, slots: u32, bytes: usize, signature: u64) {
        debug_assert!(bytes >= ELSEWHERE_BYTES, "a small payload has no slot");
        let slot = self.slot(0).cast::<ShownWords>();
        // SAFETY: the slot is the writer's, and larger than the words.
        unsafe { slot.write_unaligned(*words) };
        let line = &self.memory.header().lines[self.position as usize % TOKENS];
        self.position += u64::from(slots);
        let ack = bytes as u64 | ELSEWHERE;
        line.publish(self.position, signature, ack);
    }

    /// Slots published so far.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Slots that the reader has given back so far.
    pub fn given(&mut self) -> u64 {
        self.given = self.memory.header().credit.given();
        self.given
    }

    /// The slot `ahead` slots behind the next one, whatever will be published there. It is the
    /// writer's if the reader has given back what was there before.
    pub fn slot(&self, ahead: u64) -> *mut u8 {
        self.memory.slot(self.position + ahead)
    }

    /// Bytes of a slot.
    pub fn slot_bytes(&self) -> usize {
        self.memory.slot_bytes
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
        self.line(ahead).whole(self.position + u64::from(ahead))
    }

    /// Whether the next slice is there, if it is one that does not grow.
    #[inline]
    pub fn ready_small(&self) -> bool {
        self.line(0).arrived(self.position)
    }

    /// Bytes of the next slice that are there, [`super::line::WHOLE`] if it is whole.
    #[inline]
    pub fn written(&self) -> usize {
        self.line(0).written(self.position)
    }

    /// Signature and byte count of that slice.
    #[inline]
    pub fn arrival(&self, ahead: u32) -> Arrival {
        let arrival = self.line(ahead).arrival();
        Arrival {
            ack: arrival.ack & !ELSEWHERE,
            ..arrival
        }
    }

    #[inline(always)]
    fn line(&self, ahead: u32) -> &Line {
        let position = self.position + u64::from(ahead);
        &self.memory.header().lines[position as usize % TOKENS]
    }

    /// Where the payload of that slice lies, if not in its slot.
    pub fn elsewhere(&self, ahead: u32) -> Option<*mut u8> {
        if self.line(ahead).arrival().ack & ELSEWHERE == 0 {
            return None;
        }
        let slot = self.slot(u64::from(ahead)).cast::<*mut u8>();
        // SAFETY: the slice is there, and its slot holds the address.
        Some(unsafe { slot.read_unaligned() })
    }

    /// The words of that slice, if its payload is shown in no slot.
    #[inline]
    pub fn shown(&self, ahead: u32) -> Option<ShownWords> {
        if self.line(ahead).arrival().ack & ELSEWHERE == 0 {
            return None;
        }
        let slot = self.slot(u64::from(ahead)).cast::<ShownWords>();
        // SAFETY: the slice is there, and its slot holds the words.
        Some(unsafe { slot.read_unaligned() })
    }

    /// Where that slice, of `bytes`, lies; valid until it is released.
    #[inline]
    pub fn place(&self, bytes: usize, ahead: u32) -> *const u8 {
        if bytes >= ELSEWHERE_BYTES
            && let Some(place) = self.elsewhere(ahead)
        {
            return place.cast_const();
        }
        self.memory.place(self.position + u64::from(ahead), bytes)
    }

    /// The slot `ahead` slots behind the next one. Where the payload there is small and lies
    /// elsewhere, the slot is the reader's to use until it gives the token back.
    pub fn slot(&self, ahead: u64) -> *mut u8 {
        self.memory.slot(self.position + ahead)
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::line::{INLINE_BYTES, SMALL_BYTES};
    use super::*;

    /// Payloads of all sizes in turn, with a reader that lags as far as it may: nothing is
    /// overwritten before it was read, and both limits are reached.
    #[test]
    fn small_payloads_run_further_ahead_than_slots() {
        let (header, slot_bytes) = (PairHeader::new(), 1024);
        let mut slots = vec![0u8; LINES * slot_bytes];
        // SAFETY: header and slots live until the end of the test.
        let memory = unsafe { PairMemory::new(&raw const header, slots.as_mut_ptr(), slot_bytes) };
        let (mut sender, mut receiver) = (PairSender::new(memory), PairReceiver::new(memory));
        let seed = fastrand::u64(..);
        let mut rng = fastrand::Rng::with_seed(seed);
        let sizes = [1, INLINE_BYTES, INLINE_BYTES + 1, SMALL_BYTES, 513, 1024];
        let mut under_way = std::collections::VecDeque::new();
        let mut most = [0, 0];
        for token in 0..20_000u32 {
            let small_only = token / 100 % 2 == 0;
            let bytes = sizes[rng.usize(..if small_only { 4 } else { 6 })];
            let is_small = bytes <= SMALL_BYTES;
            let content = token as u8 ^ (bytes % 251) as u8;
            let is_ready = |sender: &mut PairSender| match is_small {
                true => sender.ready_small(),
                false => sender.ready(1),
            };
            while !is_ready(&mut sender) || rng.u8(..100) == 0 && !under_way.is_empty() {
                let (bytes, content): (usize, u8) =
                    under_way.pop_front().expect("no token is lost");
                assert!(receiver.ready(0), "seed {seed}, token {token}");
                // SAFETY: the token is there, and was written with so many bytes.
                let found = unsafe { std::slice::from_raw_parts(receiver.place(bytes, 0), bytes) };
                assert!(found.iter().all(|&b| b == content), "seed {seed}, {token}");
                receiver.release(1);
            }
            // SAFETY: ready: the place is the writer's.
            unsafe { sender.place(bytes).write_bytes(content, bytes) };
            sender.publish(1, bytes, 0);
            under_way.push_back((bytes, content));
            let reached = &mut most[usize::from(is_small)];
            *reached = under_way.len().max(*reached);
        }
        assert_eq!(most, [LINES, TOKENS], "seed {seed}");
    }
}
