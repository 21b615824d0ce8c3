//! The line: payload, signature, ack and sequence in one cache line.
//!
//! A token is published by writing everything else first and the sequence last. The reader sees
//! the sequence, and with it all that was written before. A payload of up to 40 bytes travels in
//! the line itself, so that a small message costs one cache-line transfer; a larger one lies in
//! a slot, written before the line.
//!
//! The sequence is the writer's 64-bit count of slots, never reset: line = count modulo lines. A
//! stale line therefore never looks new, and no barrier closes a call.
//!
//! A token in a slot may *grow*: its line is published with its first bytes, and says how many
//! there are. So its readers begin before its writer has ended. Whoever does not look at parts
//! waits until it is whole.
//!
//! Pairs and fans have [`TOKENS`] lines, each with a small place beside it, and 8 slots. A writer
//! whose payloads are small may so be 32 tokens ahead of its readers: where ranks outnumber cores,
//! each time that it has to wait costs a change of thread.

use crate::base::first_store::{Store, passes};
use crate::base::sync::{AtomicU64, MODEL, Ordering, Shared, claim_line};

/// Bytes of payload inside a line.
pub const INLINE_BYTES: usize = 40;
/// Slots of a connection, and lines of one whose tokens all use slots.
pub const LINES: usize = 8;
/// Lines of a pair or fan: tokens with small payloads that may be on their way. (A model of fewer
/// threads' steps has fewer.)
pub const TOKENS: usize = if MODEL { LINES } else { 32 };
/// Bytes of a small payload, which needs no slot.
pub const SMALL_BYTES: usize = if MODEL { 2 * INLINE_BYTES } else { 512 };

/// Marks the byte count of a token of which no more than so many bytes are written.
const GROWING: u64 = 1 << 62;

/// The bytes that are there of a token that is whole.
pub const WHOLE: usize = usize::MAX;

/// The byte count of a token with `bytes` bytes, of which the first `written` are there.
#[inline(always)]
pub(super) fn part(written: usize, bytes: usize) -> u64 {
    match written < bytes {
        true => written as u64 | GROWING,
        false => bytes as u64,
    }
}

/// A small place for each line.
#[repr(C, align(64))]
pub struct SmallPlaces([Shared<[u8; SMALL_BYTES]>; TOKENS]);

impl SmallPlaces {
    /// Places in ordinary memory, for tests.
    pub fn new() -> SmallPlaces {
        SmallPlaces(std::array::from_fn(|_| Shared::new([0; SMALL_BYTES])))
    }

    /// The place of the line with this index, which is below [`TOKENS`].
    #[inline(always)]
    pub fn place(&self, index: usize) -> *mut u8 {
        self.0[index % TOKENS].write(|place| place.cast())
    }
}

/// Where the payload of the token at slot count `position` of a pair or fan lies: in its line, in
/// the small place beside it, or in a slot, by its size. Writer and reader ask alike.
///
/// # Safety
/// `slots` has `LINES * slot_bytes` bytes.
#[inline(always)]
pub(super) unsafe fn payload_place(
    (lines, small): (&[Line; TOKENS], &SmallPlaces),
    (slots, slot_bytes): (*mut u8, usize),
    position: u64,
    bytes: usize,
) -> *mut u8 {
    let index = position as usize % TOKENS;
    if bytes <= INLINE_BYTES {
        return lines[index].payload().write(|payload| payload.cast());
    }
    if bytes <= SMALL_BYTES {
        return small.place(index);
    }
    // SAFETY: a slot below `LINES`, so inside of what the caller promises.
    unsafe { slots.add(position as usize % LINES * slot_bytes) }
}

impl Default for SmallPlaces {
    fn default() -> Self {
        Self::new()
    }
}

/// The next slot count that is a multiple of `unit` (a power of two).
#[inline(always)]
pub(super) fn align(position: u64, unit: u32) -> u64 {
    let mask = u64::from(unit) - 1;
    (position + mask) & !mask
}

/// One cache line.
#[repr(C, align(64))]
pub struct Line {
    payload: Shared<[u8; INLINE_BYTES]>,
    signature: AtomicU64,
    ack: AtomicU64,
    sequence: AtomicU64,
}

const _: () = assert!(MODEL || size_of::<Line>() == 64, "a line is one cache line");

/// Words that came with a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The writer's signature of its call.
    pub signature: u64,
    /// The second word: an acknowledgement on fans, the byte count on pairs.
    pub ack: u64,
}

impl Default for Line {
    fn default() -> Self {
        Self::new()
    }
}

impl Line {
    /// An empty line; sequence 0 is never published.
    pub fn new() -> Line {
        Line {
            payload: Shared::new([0; INLINE_BYTES]),
            signature: AtomicU64::new(0),
            ack: AtomicU64::new(0),
            sequence: AtomicU64::new(0),
        }
    }

    /// Where the writer puts a small payload before it publishes.
    #[inline(always)]
    pub fn payload(&self) -> &Shared<[u8; INLINE_BYTES]> {
        &self.payload
    }

    /// Publishes the token `sequence`: release, so that payload and slot are seen with it.
    #[inline(always)]
    pub fn publish(&self, sequence: u64, signature: u64, ack: u64) {
        passes(Store::Line);
        self.signature.store(signature, Ordering::Relaxed);
        self.ack.store(ack, Ordering::Relaxed);
        self.sequence.store(sequence, Ordering::Release);
    }

    /// Whether a token later than `count` has arrived: acquire, pairs with [`Line::publish`].
    #[inline(always)]
    pub fn arrived(&self, count: u64) -> bool {
        self.sequence.load(Ordering::Acquire) > count
    }

    /// Says that more bytes of the published token are there: release, so that they are seen with
    /// it.
    #[inline(always)]
    pub(super) fn grow(&self, ack: u64) {
        self.ack.store(ack, Ordering::Release);
    }

    /// Whether a token later than `count`, whose second word is a byte count, is there and whole:
    /// acquire, pairs with [`Line::grow`].
    #[inline(always)]
    pub(super) fn whole(&self, count: u64) -> bool {
        self.arrived(count) && self.ack.load(Ordering::Acquire) & GROWING == 0
    }

    /// Bytes that are there of a token later than `count` that grows: none if it has not arrived,
    /// [`WHOLE`] if it is whole. Acquire, pairs with [`Line::grow`].
    #[inline(always)]
    pub(super) fn written(&self, count: u64) -> usize {
        if !self.arrived(count) {
            return 0;
        }
        match self.ack.load(Ordering::Acquire) {
            growing if growing & GROWING != 0 => (growing & !GROWING) as usize,
            _ => WHOLE,
        }
    }

    /// Returns the words that came with the token. They mean something after [`Line::arrived`] and
    /// until its release.
    #[inline(always)]
    pub fn arrival(&self) -> Arrival {
        Arrival {
            signature: self.signature.load(Ordering::Relaxed),
            ack: self.ack.load(Ordering::Relaxed),
        }
    }
}

/// This rank will write these bytes next: the copies of those who read what was there are taken
/// back now, and not while somebody waits for what is written. Only so many bytes that the lines
/// are still here when they are written.
#[inline(always)]
pub(super) fn claim(place: *const u8, bytes: usize) {
    for line in (0..bytes.min(CLAIMED_BYTES)).step_by(size_of::<Line>()) {
        claim_line(place.wrapping_add(line));
    }
}

/// Most bytes that are claimed.
pub(super) const CLAIMED_BYTES: usize = 4096;

/// A reader's count of slots it has given back, alone on its line.
#[repr(C, align(64))]
pub struct Credit(AtomicU64);

impl Default for Credit {
    fn default() -> Self {
        Self::new()
    }
}

impl Credit {
    /// Nothing given back yet.
    pub fn new() -> Credit {
        Credit(AtomicU64::new(0))
    }

    /// Gives back all slots below `count`: release, so that reads of them are over.
    #[inline(always)]
    pub fn give(&self, count: u64) {
        self.0.store(count, Ordering::Release);
    }

    /// Returns the count of slots given back. The load is an acquire and pairs with
    /// [`Credit::give`].
    #[inline(always)]
    pub fn given(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// The shared words of a pair connection.
#[repr(C, align(64))]
pub struct PairHeader {
    /// One line a token.
    pub lines: [Line; TOKENS],
    /// The reader's credit.
    pub credit: Credit,
    /// Keeps it out of the adjacent-line prefetcher's reach.
    pad: [u64; 8],
    /// Small payloads.
    pub small: SmallPlaces,
}

const _: () = assert!(MODEL || size_of::<PairHeader>() == 18_560);

impl Default for PairHeader {
    fn default() -> Self {
        Self::new()
    }
}

impl PairHeader {
    /// A header in ordinary memory, for tests.
    pub fn new() -> PairHeader {
        PairHeader {
            lines: std::array::from_fn(|_| Line::new()),
            credit: Credit::new(),
            pad: [0; 8],
            small: SmallPlaces::new(),
        }
    }
}
