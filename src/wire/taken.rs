//! Which bytes of the slots of a connection have memory behind them.
//!
//! **Problem.** A slot holds the largest token that there can be, and a connection has 8 of them.
//! With one connection for each two ranks, whole slots take a node's memory for calls of some
//! kilobytes.
//!
//! **Idea.** Before a launch its tokens are known: how large the largest one is, how many slots
//! each spans and how many there are. Only the pages that these will touch are taken, and what has
//! been taken is remembered by slot. Where all slots at which a token may begin have enough, which
//! is so after a few calls, the question costs one comparison ([`Enough`]).

use super::line::LINES;
use std::ops::Range;

/// Unit by which memory is taken.
const PAGE: usize = 4096;
/// A token spans 1, 2, 4 or 8 slots.
const SPANS: usize = LINES.ilog2() as usize + 1;

/// The tokens that a launch passes through a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tokens {
    /// Bytes of the largest one.
    pub bytes: usize,
    /// Slots that each spans: a power of two, up to [`LINES`].
    pub slots: u32,
    /// How many there are, at most.
    pub count: u64,
}

impl Tokens {
    /// One token of one slot.
    pub fn one(bytes: usize) -> Tokens {
        Tokens {
            bytes,
            slots: 1,
            count: 1,
        }
    }

    /// So many tokens of one slot, or more than there are slots.
    pub fn some(bytes: usize, count: u64) -> Tokens {
        Tokens {
            bytes,
            slots: 1,
            count,
        }
    }
}

/// Bytes of tokens for which nothing needs to be taken, by the slots that they span.
#[derive(Clone, Copy, Debug)]
pub(super) struct Enough([usize; SPANS]);

impl Enough {
    /// Tokens of any kind have memory up to so many bytes.
    pub fn up_to(bytes: usize) -> Enough {
        Enough([bytes; SPANS])
    }

    /// That number, counted otherwise.
    pub fn map(self, count: impl FnMut(usize) -> usize) -> Enough {
        Enough(self.0.map(count))
    }

    #[inline(always)]
    pub fn holds(&self, tokens: &Tokens) -> bool {
        let span = tokens.slots.trailing_zeros() as usize % SPANS;
        tokens.bytes <= self.0[span]
    }
}

/// Bytes at the beginning of each slot that have memory behind them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Backed([usize; LINES]);

impl Backed {
    /// Bytes of all slots together.
    pub fn bytes(&self) -> usize {
        self.0.iter().sum()
    }

    /// Memory when that of the tokens that begin at slot count `position` is there too.
    pub fn with(&self, tokens: &Tokens, position: u64, slot_bytes: usize) -> Backed {
        let mut wanted = *self;
        let span = (tokens.slots as usize).clamp(1, LINES);
        let count = tokens.count.min((LINES / span) as u64) as usize;
        for token in 0..count {
            let first = (position as usize + token * span) % LINES;
            let mut rest = tokens.bytes;
            for slot in &mut wanted.0[first..(first + span).min(LINES)] {
                let here = rest.min(slot_bytes);
                *slot = here.next_multiple_of(PAGE).min(slot_bytes).max(*slot);
                rest -= here;
            }
        }
        wanted
    }

    /// Places that only `wanted` has, as bytes behind the beginning of the first slot.
    pub fn lacks(&self, wanted: &Backed, slot_bytes: usize) -> Vec<Range<usize>> {
        let mut places: Vec<Range<usize>> = Vec::new();
        for (slot, (&has, &wants)) in self.0.iter().zip(&wanted.0).enumerate() {
            let begin = slot * slot_bytes;
            let place = begin + has..begin + wants;
            match places.last_mut() {
                _ if place.is_empty() => {}
                Some(last) if last.end == place.start => last.end = place.end,
                _ => places.push(place),
            }
        }
        places
    }

    /// Tokens that need nothing more wherever they begin; those up to `least` bytes need no slot.
    pub fn enough(&self, least: usize, slot_bytes: usize) -> Enough {
        let of_span = |span: usize| {
            let starts = (0..LINES).step_by(span);
            let held = starts.map(|start| {
                let slots = &self.0[start..start + span];
                let whole = slots.iter().take_while(|&&bytes| bytes == slot_bytes);
                let whole = whole.count();
                whole * slot_bytes + slots.get(whole).copied().unwrap_or(0)
            });
            held.min().unwrap_or(0).max(least)
        };
        Enough(std::array::from_fn(|power| of_span(1 << power)))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const SLOT: usize = 3 * PAGE;

    /// Launches of all shapes, in any order: each byte that a token touches is taken once, and no
    /// page is taken that none touches.
    #[test]
    fn exactly_the_pages_that_tokens_touch_are_taken_and_each_once() {
        let seed = fastrand::u64(..);
        let mut rng = fastrand::Rng::with_seed(seed);
        for _ in 0..200 {
            let (mut taken, mut position) = (Backed::default(), 0_u64);
            let mut pages = [false; LINES * SLOT / PAGE];
            let mut touched = pages;
            for _ in 0..rng.usize(1..20) {
                let slots = 1 << rng.u32(..SPANS as u32);
                let tokens = Tokens {
                    bytes: rng.usize(1..=SLOT * slots as usize),
                    slots,
                    count: rng.u64(1..12),
                };
                position = position.next_multiple_of(u64::from(slots));
                let was_enough = taken.enough(0, SLOT).holds(&tokens);
                let wanted = taken.with(&tokens, position, SLOT);
                let lacks = taken.lacks(&wanted, SLOT);
                assert!(!was_enough || lacks.is_empty(), "seed {seed}");
                for page in lacks.into_iter().flat_map(|it| it.step_by(PAGE)) {
                    assert!(!pages[page / PAGE], "seed {seed}: taken twice");
                    pages[page / PAGE] = true;
                }
                for token in 0..tokens.count {
                    let at = (position + token * u64::from(slots)) as usize % LINES * SLOT;
                    let first = at / PAGE;
                    touched[first..first + tokens.bytes.div_ceil(PAGE)].fill(true);
                }
                (taken, position) = (wanted, position + tokens.count * u64::from(slots));
                assert_eq!(pages, touched, "seed {seed}");
                let sum = pages.iter().filter(|&&is| is).count() * PAGE;
                assert_eq!(taken.bytes(), sum, "seed {seed}");
            }
        }
    }

    #[test]
    fn calls_that_are_alike_soon_ask_for_nothing() {
        for slots in [1, 2, 4, 8] {
            let tokens = Tokens {
                bytes: PAGE + 1,
                slots,
                count: 1,
            };
            let mut taken = Backed::default();
            for call in 0..LINES as u64 / u64::from(slots) {
                assert!(!taken.enough(0, SLOT).holds(&tokens), "{slots} {call}");
                taken = taken.with(&tokens, call * u64::from(slots), SLOT);
            }
            assert!(taken.enough(0, SLOT).holds(&tokens), "{slots}");
        }
        let none = Backed::default().enough(512, SLOT);
        assert!(none.holds(&Tokens::one(512)) && !none.holds(&Tokens::one(513)));
    }
}
