//! Flagged lines: payload that carries its own arrival, for small to middle messages.
//!
//! The problem: with slots, a reader fetches the line that says "there", and then the payload: two
//! cache misses in a row, and it cannot begin before the last byte was written. The idea (LL, "low
//! latency", of NCCL): every few bytes of payload carry the flag, so the reader looks at the
//! payload itself and takes what is there. The price: bytes for flags, and a copy on each side,
//! because kernels fold plain memory.
//!
//! Two encodings of a token, both on words of 8 bytes, which are the most that a processor is sure
//! to store at once:
//!
//! * *LL* ([`Ll`]): 4 bytes of payload and a flag of 4 in one word. A word is stored at once, so
//!   payload and flag are seen together and no order among words is needed.
//! * *LL128* ([`super::ll128::Ll128`]): 120 bytes of payload and a flag of 8 in a line of 128. No
//!   host stores 128 bytes at once; so the flag is stored last, with release, and read first, with
//!   acquire.
//!
//! The first 8 bytes of a token are the signature of the call. The flag is the writer's count of
//! slots, which is never reset; slots, alignment and credit are those of pair connections. Each
//! encoding has memory of its own: payload of one must never look like a flag of another.

use super::line::{Arrival, Credit, LINES, align};
use crate::base::sync::{AtomicU64, MODEL, Ordering};
use std::marker::PhantomData;

/// Words of one slot; few where each one is a model.
pub const SLOT_WORDS: usize = if MODEL { 32 } else { 2048 };

/// How a token lies in the words of its slots.
pub trait Encoding: Send {
    /// Most payload of a slot, in bytes; a multiple of 64.
    const CAPACITY: usize;
    /// Slots after which the flags begin anew, so that old ones must be wiped out; 0 for never.
    const WIPE_EVERY: u64;

    /// Stores signature and payload (padded to whole words) as the token that begins at slot count
    /// `position`; returns the words used.
    fn write(words: &[AtomicU64], payload: &[u64], signature: u64, position: u64) -> usize;

    /// Words of a token with so much payload.
    fn words(bytes: usize) -> usize;

    /// The most payload of a token with so many words.
    fn payload(words: usize) -> usize;

    /// Takes what is there of the token, from where `taken` stands.
    fn read(words: &[AtomicU64], payload: &mut [u64], position: u64, taken: &mut Taken);
}

/// How far a reader got with a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// The token that is read, by slot count plus 1; 0 for none yet.
    pub token: u64,
    /// Words (LL) or lines (LL128) taken.
    pub parts: usize,
    /// The signature, once [`Taken::has_signature`].
    pub signature: u64,
    /// Whether the signature has arrived.
    pub has_signature: bool,
    /// Whether all of the payload has.
    pub is_whole: bool,
}

/// Flags of LL are half words, so they begin anew now and then, and what an old token has left
/// must not look like a new one.
pub struct Ll;

const PERIOD: u64 = u32::MAX as u64;

fn flag(position: u64) -> u64 {
    (position % PERIOD + 1) << 32
}

fn halves(word: u64) -> [u64; 2] {
    [word & u64::from(u32::MAX), word >> 32]
}

impl Encoding for Ll {
    const CAPACITY: usize = (SLOT_WORDS * 4 - 8) / 64 * 64;
    const WIPE_EVERY: u64 = 1 << 30;

    #[inline]
    fn write(words: &[AtomicU64], payload: &[u64], signature: u64, position: u64) -> usize {
        let flag = flag(position);
        let token = std::iter::once(&signature).chain(payload);
        for (pair, &word) in words.chunks_exact(2).zip(token) {
            let [low, high] = halves(word);
            pair[0].store(low | flag, Ordering::Relaxed);
            pair[1].store(high | flag, Ordering::Relaxed);
        }
        2 * (1 + payload.len())
    }

    fn words(bytes: usize) -> usize {
        2 * (1 + bytes.div_ceil(8))
    }

    fn payload(words: usize) -> usize {
        (words / 2).saturating_sub(1) * 8
    }

    #[inline]
    fn read(words: &[AtomicU64], payload: &mut [u64], position: u64, taken: &mut Taken) {
        let flag = flag(position);
        let whole = 2 * (1 + payload.len());
        while taken.parts < whole {
            let pair = [0, 1].map(|half| words[taken.parts + half].load(Ordering::Relaxed));
            if pair.iter().any(|word| word & !u64::from(u32::MAX) != flag) {
                return;
            }
            let word = halves(pair[0])[0] | halves(pair[1])[0] << 32;
            match taken.parts {
                0 => (taken.signature, taken.has_signature) = (word, true),
                at => payload[at / 2 - 1] = word,
            }
            taken.parts += 2;
        }
        taken.is_whole = true;
    }
}

/// Shared memory of one connection of flagged lines.
#[derive(Clone, Copy)]
pub struct LinesMemory {
    credit: *const Credit,
    words: *const AtomicU64,
}

// SAFETY: the pointers refer to atomics that both ends may touch from any thread.
unsafe impl Send for LinesMemory {}

impl LinesMemory {
    /// Describes a connection in shared memory.
    ///
    /// # Safety
    /// `credit` is zeroed or live, and `words` points to `8 * SLOT_WORDS` zeroed or live words of
    /// this encoding; both stay mapped as long as the ends that are made of this are used.
    pub unsafe fn new(credit: *const Credit, words: *const AtomicU64) -> LinesMemory {
        LinesMemory { credit, words }
    }

    #[inline(always)]
    fn credit(&self) -> &Credit {
        // SAFETY: valid for the life of the connection (contract of `new`); only ever shared.
        unsafe { &*self.credit }
    }

    /// The words from the slot of `position` to the last.
    #[inline(always)]
    fn words(&self, position: u64) -> &[AtomicU64] {
        let first = position as usize % LINES;
        let length = (LINES - first) * SLOT_WORDS;
        // SAFETY: there are `LINES * SLOT_WORDS` words (contract of `new`); only ever shared.
        unsafe { std::slice::from_raw_parts(self.words.add(first * SLOT_WORDS), length) }
    }
}

/// Plain memory for payload, on cache lines.
#[derive(Clone, Copy, Default)]
#[repr(C, align(64))]
struct Staged([u64; 8]);

/// Memory for the payload of some slots, as words.
fn words_of(staged: &mut [Staged]) -> &mut [u64] {
    let words = staged.len() * 8;
    // SAFETY: `Staged` is 8 words and nothing else.
    unsafe { std::slice::from_raw_parts_mut(staged.as_mut_ptr().cast(), words) }
}

/// The writing end.
pub struct LinesSender<E> {
    memory: LinesMemory,
    /// Slots published, and those skipped since.
    position: u64,
    /// The end of the last token.
    published: u64,
    /// Credit as last seen.
    given: u64,
    /// Where flags begin anew next.
    wipe_at: u64,
    /// Most words that tokens have used of each slot, since they were all zero.
    used: [usize; LINES],
    staged: Vec<Staged>,
    encoding: PhantomData<E>,
}

impl<E: Encoding> LinesSender<E> {
    /// The writing end of a fresh connection.
    pub fn new(memory: LinesMemory) -> LinesSender<E> {
        LinesSender::starting_at(memory, 0)
    }

    /// The writing end of a connection that has passed `position` slots, all given back.
    pub fn starting_at(memory: LinesMemory, position: u64) -> LinesSender<E> {
        let period = E::WIPE_EVERY.max(1);
        LinesSender {
            memory,
            position,
            published: position,
            given: position,
            wipe_at: match E::WIPE_EVERY {
                0 => u64::MAX,
                _ => (position / period + 1) * period,
            },
            used: [0; LINES],
            staged: Vec::new(),
            encoding: PhantomData,
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
        if self.position >= self.wipe_at && !self.wipe() {
            return false;
        }
        let wanted = self.position + u64::from(slots);
        if wanted <= self.given + LINES as u64 {
            return true;
        }
        self.given = self.memory.credit().given();
        wanted <= self.given + LINES as u64
    }

    /// Wipes out old flags, as soon as the reader has taken all tokens.
    #[cold]
    fn wipe(&mut self) -> bool {
        self.given = self.memory.credit().given();
        if self.given < self.published {
            return false;
        }
        for (slot, used) in (0..).zip(self.used) {
            let words = self.memory.words(slot).iter().take(used);
            words.for_each(|word| word.store(0, Ordering::Relaxed));
        }
        self.wipe_at += E::WIPE_EVERY;
        true
    }

    /// Where the next slice of `bytes` is to be written; call only when [`LinesSender::ready`].
    #[inline]
    pub fn place(&mut self, bytes: usize) -> *mut u8 {
        let needed = bytes.div_ceil(size_of::<Staged>());
        if needed > self.staged.len() {
            self.staged.resize(needed, Staged::default());
        }
        self.staged.as_mut_ptr().cast()
    }

    /// Publishes the slice written at [`LinesSender::place`].
    #[inline]
    pub fn publish(&mut self, slots: u32, bytes: usize, signature: u64) {
        debug_assert!(bytes <= slots as usize * E::CAPACITY);
        let payload = &words_of(&mut self.staged)[..bytes.div_ceil(8)];
        let words = self.memory.words(self.position);
        let mut used = E::write(words, payload, signature, self.position);
        for before in &mut self.used[self.position as usize % LINES..] {
            let here = used.min(SLOT_WORDS);
            *before = here.max(*before);
            used -= here;
            if used == 0 {
                break;
            }
        }
        self.position += u64::from(slots);
        self.published = self.position;
    }

    /// Slots published so far.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Whether the reader has taken every token.
    pub fn drained(&mut self) -> bool {
        self.given = self.memory.credit().given();
        self.given >= self.published
    }

    /// All words were made zero, after the reader had taken every token.
    pub fn forget_words(&mut self) {
        self.used = [0; LINES];
    }
}

/// The reading end.
pub struct LinesReceiver<E> {
    memory: LinesMemory,
    /// Slots given back.
    position: u64,
    /// How far the token that begins at each slot was taken.
    taken: [Taken; LINES],
    /// Payload of all slots.
    staged: Vec<Staged>,
    encoding: PhantomData<E>,
}

impl<E: Encoding> LinesReceiver<E> {
    /// The reading end of a fresh connection.
    pub fn new(memory: LinesMemory) -> LinesReceiver<E> {
        LinesReceiver::starting_at(memory, 0)
    }

    /// The reading end of a connection that has passed `position` slots.
    pub fn starting_at(memory: LinesMemory, position: u64) -> LinesReceiver<E> {
        LinesReceiver {
            memory,
            position,
            taken: [Taken::default(); LINES],
            staged: vec![Staged::default(); LINES * E::CAPACITY / size_of::<Staged>()],
            encoding: PhantomData,
        }
    }

    /// Begins a launch whose chunks take `chunk_steps` slots.
    #[inline]
    pub fn begin(&mut self, chunk_steps: u32) {
        let aligned = align(self.position, chunk_steps);
        if aligned != self.position {
            self.position = aligned;
            self.memory.credit().give(aligned);
        }
    }

    /// Takes what has arrived of the slice of `bytes` that is `ahead` slots behind the next one.
    /// True when it is whole, or its signature is not `signature`: then it may never be.
    #[inline]
    pub fn ready(&mut self, bytes: usize, signature: u64, ahead: u32) -> bool {
        let position = self.position + u64::from(ahead);
        let slot = position as usize % LINES;
        let taken = &mut self.taken[slot];
        if taken.token != position + 1 {
            *taken = Taken {
                token: position + 1,
                ..Taken::default()
            };
        }
        if !taken.is_whole {
            let first = slot * E::CAPACITY / 8;
            let payload = &mut words_of(&mut self.staged)[first..first + bytes.div_ceil(8)];
            E::read(self.memory.words(position), payload, position, taken);
        }
        taken.is_whole || taken.has_signature && taken.signature != signature
    }

    /// Returns the words that came with that slice. They mean something after
    /// [`LinesReceiver::ready`].
    #[inline]
    pub fn arrival(&self, ahead: u32) -> Arrival {
        let slot = (self.position + u64::from(ahead)) as usize % LINES;
        Arrival {
            signature: self.taken[slot].signature,
            ack: 0,
        }
    }

    /// Where that slice lies, taken out of its lines; valid until it is released.
    #[inline]
    pub fn place(&self, ahead: u32) -> *const u8 {
        let slot = (self.position + u64::from(ahead)) as usize % LINES;
        self.staged[slot * E::CAPACITY / size_of::<Staged>()..]
            .as_ptr()
            .cast()
    }

    /// Gives the slice back.
    #[inline]
    pub fn release(&mut self, slots: u32) {
        self.position += u64::from(slots);
        self.memory.credit().give(self.position);
    }

    /// Slots given back so far.
    pub fn position(&self) -> u64 {
        self.position
    }
}
