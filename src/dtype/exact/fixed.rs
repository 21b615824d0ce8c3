//! The long integer: 34 words, in units of 2^-1074.
//!
//! Positive and negative terms are added apart, and subtracted once at the end: an addition then
//! touches three words and hardly ever carries further, whatever the signs of the data. A sum of n
//! doubles is less than n * 2^2098 units; with n < 2^62 it is below 2^2160 and fits.

/// Words of 64 bits.
const WORDS: usize = 34;

/// An integer from 0 to 2^2176 - 1, lowest word first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Fixed([u64; WORDS]);

impl Fixed {
    pub const ZERO: Fixed = Fixed([0; WORDS]);

    /// Adds `value * 2^bit`; the sum stays below 2^2160.
    #[inline]
    pub fn accumulate(&mut self, value: u128, bit: u32) {
        let (word, shift) = ((bit / 64) as usize, bit % 64);
        let low = value << shift;
        // Two shifts, because one by 128 would be none.
        let top = (value >> 1 >> (127 - shift)) as u64;
        let (places, above) = self.0[word..].split_at_mut(3.min(WORDS - word));
        let mut carry = 0;
        for (place, part) in places.iter_mut().zip([low as u64, (low >> 64) as u64, top]) {
            let sum = u128::from(*place) + u128::from(part) + carry;
            *place = sum as u64;
            carry = sum >> 64;
        }
        for place in above {
            if carry == 0 {
                return;
            }
            let sum = u128::from(*place) + carry;
            *place = sum as u64;
            carry = sum >> 64;
        }
    }

    /// Adds another one.
    pub fn merge(&mut self, other: &Fixed) {
        let mut carry = false;
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            let (once, first) = mine.overflowing_add(theirs);
            let (twice, second) = once.overflowing_add(u64::from(carry));
            *mine = twice;
            carry = first | second;
        }
    }

    /// The words that are not all zero in both numbers: from, to. Most numbers use few.
    fn used(&self, other: &Fixed) -> (usize, usize) {
        let is_used = |(a, b): (&u64, &u64)| a | b != 0;
        let mut pairs = self.0.iter().zip(&other.0);
        let from = pairs.position(is_used).unwrap_or(WORDS);
        let mut pairs = self.0.iter().zip(&other.0);
        (
            from,
            pairs.rposition(is_used).map_or(WORDS, |last| last + 1),
        )
    }

    /// The distance of two numbers, and whether the second one is larger.
    pub fn difference(&self, other: &Fixed) -> Distance {
        let (from, to) = self.used(other);
        let (mine, theirs) = (&self.0[from..to], &other.0[from..to]);
        let is_larger = mine.iter().rev().lt(theirs.iter().rev());
        let (more, less) = if is_larger {
            (theirs, mine)
        } else {
            (mine, theirs)
        };
        let mut magnitude = Fixed::ZERO;
        let mut borrow = false;
        for (place, (a, b)) in magnitude.0[from..to].iter_mut().zip(more.iter().zip(less)) {
            let (once, first) = a.overflowing_sub(*b);
            let (twice, second) = once.overflowing_sub(u64::from(borrow));
            *place = twice;
            borrow = first | second;
        }
        Distance {
            magnitude,
            is_negative: is_larger,
            bits: (64 * from as u32, 64 * to as u32),
        }
    }

    /// `count` (at most 63) bits from bit `from` on; zeros beyond the end.
    #[inline]
    pub fn bits(&self, from: u32, count: u32) -> u64 {
        let (word, shift) = ((from / 64) as usize, from % 64);
        let at = |index: usize| u128::from(self.0.get(index).copied().unwrap_or(0));
        let pair = at(word) | at(word + 1) << 64;
        (pair >> shift) as u64 & ((1 << count) - 1)
    }
}

/// The difference of two numbers.
pub(super) struct Distance {
    pub magnitude: Fixed,
    pub is_negative: bool,
    /// No bit outside of these is set: from, to.
    pub bits: (u32, u32),
}

/// A sum: its positive and its negative terms.
#[derive(Clone, Debug)]
pub(super) struct Halves {
    pub positive: Fixed,
    pub negative: Fixed,
}

impl Halves {
    pub const ZERO: Halves = Halves {
        positive: Fixed::ZERO,
        negative: Fixed::ZERO,
    };

    /// The half that terms of this sign belong to.
    #[inline(always)]
    pub fn of(&mut self, negative: bool) -> &mut Fixed {
        if negative {
            &mut self.negative
        } else {
            &mut self.positive
        }
    }
}
