//! The memory behind the writing end of a connection: taken before tokens are written, given back
//! while there is none.
//!
//! **Problem.** A connection may be used once and never again, and a process has many. What they
//! have taken must come back, though nobody tells their readers.
//!
//! **Idea.** Memory that is given back is zero when it is touched again. So only such memory
//! takes part in which a zero means nothing new: *slots* and the *small places* of a pair, which
//! nobody reads before a line has said that they are filled, and the *words* of flagged lines,
//! whose flags are counts from 1 on: zero is the flag of no token. Lines and credits, whose
//! counts are the connection, stay where they are; they have a page of their own. Only the writer
//! gives back, when the readers' credit says that they have taken everything, so its own next
//! token comes after that.
//!
//! A reader of flagged lines may be looking at the words meanwhile: it sees old flags or zeros,
//! both of which are no token, and brings at most the page back on which the next token begins.

use super::layout::SMALL_AREA_BYTES;
use super::line::{INLINE_BYTES, SMALL_BYTES};
use super::port::Port;
use super::taken::{Backed, Enough, Tokens};
use super::{Slots, Source};
use crate::base::Result;

/// How long ago a connection was used: those that were used earlier are less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Age {
    /// The last occasion on which it was seen to have been used since the one before.
    used: u64,
    /// When memory was last taken for it.
    taken: u64,
}

/// The memory behind a port.
pub(super) struct Backing {
    /// Tokens that have memory.
    enough: Enough,
    /// Bytes of the small places that have memory: all or none.
    small: usize,
    /// Pages of slots or words that have.
    taken: Backed,
    /// Pages of slots appear when they are touched: none is taken before.
    on_touch: bool,
    age: Age,
    /// Slots published when the age was last asked for.
    seen: u64,
}

impl Backing {
    /// Of a port where tokens of so many bytes need no memory but that which is always there.
    pub fn new(enough: usize) -> Backing {
        Backing {
            enough: Enough::up_to(enough),
            small: 0,
            taken: Backed::default(),
            on_touch: false,
            age: Age::default(),
            seen: 0,
        }
    }

    /// Whether all of them have memory.
    #[inline(always)]
    pub fn holds(&self, tokens: &Tokens) -> bool {
        self.enough.holds(tokens)
    }

    /// Bytes that are to be given back.
    pub fn bytes(&self) -> usize {
        self.small + self.taken.bytes()
    }

    /// Takes what tokens touch that are written at this port next.
    ///
    /// # Errors
    /// Those of the source.
    pub fn take(
        &mut self,
        port: &Port,
        source: &dyn Source,
        areas: Areas,
        tokens: &Tokens,
    ) -> Result<()> {
        let Some((position, slot_bytes)) = port.slots_written() else {
            // Nothing is written, or what is always there.
            self.enough = Enough::up_to(usize::MAX);
            return Ok(());
        };
        if let Some(small) = areas.small
            && self.small == 0
            && tokens.bytes > INLINE_BYTES
        {
            self.age.taken = source.reserve(small, 0..SMALL_AREA_BYTES)?;
            self.small = SMALL_AREA_BYTES;
        }
        if self.on_touch {
            self.enough = Enough::up_to(usize::MAX);
            return Ok(());
        }
        if areas.small.is_none() || tokens.bytes > SMALL_BYTES {
            let tokens = Tokens {
                bytes: port.memory_of(tokens.bytes),
                ..*tokens
            };
            let wanted = self.taken.with(&tokens, position, slot_bytes);
            for place in self.taken.lacks(&wanted, slot_bytes) {
                self.age.taken = source.reserve(areas.slots, place)?;
            }
            self.taken = wanted;
        }
        self.settle(port, slot_bytes);
        Ok(())
    }

    /// Has the pages of slots appear when they are touched. Small places are taken all the same;
    /// where that is refused, they appear too.
    pub fn appears(&mut self, port: &Port, source: &dyn Source, areas: Areas) {
        self.on_touch = true;
        let tokens = Tokens::one(SMALL_BYTES);
        if !self.holds(&tokens) && self.take(port, source, areas, &tokens).is_err() {
            self.enough = Enough::up_to(usize::MAX);
        }
    }

    /// Bytes that are enough now. Where small places lack memory, so does the last token of larger
    /// ones.
    fn settle(&mut self, port: &Port, slot_bytes: usize) {
        let enough = self.taken.enough(0, slot_bytes);
        self.enough = match (port, self.small) {
            (Port::PairOut(_), 0) => Enough::up_to(port.least()),
            (Port::PairOut(_), _) => enough.map(|bytes| bytes.max(SMALL_BYTES)),
            _ => enough.map(|bytes| port.payload_of(bytes).max(port.least())),
        };
    }

    /// How old it is and how many bytes it has, if it has some and no token is there. `now` numbers
    /// the occasions on which this is asked.
    pub fn empty(&mut self, port: &mut Port, now: u64) -> Option<(Age, usize)> {
        let bytes = self.bytes();
        if bytes == 0 {
            return None;
        }
        let (position, _) = port.slots_written()?;
        if position != self.seen {
            (self.seen, self.age.used) = (position, now);
        }
        port.is_taken_whole().then_some((self.age, bytes))
    }

    /// Gives back what it has, if it is so old and no token is there: only while nothing is in
    /// flight. Returns how many bytes that were.
    pub fn give_back(
        &mut self,
        port: &mut Port,
        source: &dyn Source,
        areas: Areas,
        until: Age,
    ) -> usize {
        let before = self.bytes();
        if before == 0 || self.age > until || !port.is_taken_whole() {
            return 0;
        }
        let taken = self.taken.bytes();
        if taken > 0 && source.give_back(areas.slots, taken) {
            port.forget_words();
            self.taken = Backed::default();
        }
        if let Some(small) = areas.small.filter(|_| self.small > 0)
            && source.give_back(small, self.small)
        {
            self.small = 0;
        }
        if let Some((_, slot_bytes)) = port.slots_written() {
            self.settle(port, slot_bytes);
        }
        before - self.bytes()
    }
}

/// Memory that a port writes into, besides lines.
#[derive(Clone, Copy)]
pub(super) struct Areas {
    pub slots: Slots,
    pub small: Option<Slots>,
}
