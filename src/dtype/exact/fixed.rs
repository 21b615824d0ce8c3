//! The long integer: 34 words of two's complement, in units of 2^-1074.
//!
//! A sum of n doubles is less than n * 2^2098 units; with n < 2^62 it is below 2^2160 and stays far
//! from the sign bit at 2^2175.

/// Words of 64 bits.
pub(super) const WORDS: usize = 34;

/// A two's complement integer of 2,176 bits, lowest word first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fixed([u64; WORDS]);

impl Fixed {
    pub const ZERO: Fixed = Fixed([0; WORDS]);

    /// Adds (or subtracts) `value * 2^bit`, less than 2^2160 together.
    #[inline]
    pub fn accumulate(&mut self, value: u128, bit: u32, negative: bool) {
        let (word, shift) = ((bit / 64) as usize, bit % 64);
        let low = value << shift;
        // Two shifts, because one by 128 would be none.
        let top = (value >> 1 >> (127 - shift)) as u64;
        let parts = [low as u64, (low >> 64) as u64, top];
        let mut carry = false;
        for (at, place) in self.0[word..].iter_mut().enumerate() {
            let part = parts.get(at).copied().unwrap_or(0);
            if at >= parts.len() && !carry {
                return;
            }
            let (once, first) = step(*place, part, negative);
            let (twice, second) = step(once, u64::from(carry), negative);
            *place = twice;
            carry = first | second;
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

    /// Whether the number is below zero.
    pub fn is_negative(&self) -> bool {
        self.0[WORDS - 1] >> 63 != 0
    }

    /// The absolute value.
    pub fn magnitude(&self) -> Fixed {
        if !self.is_negative() {
            return self.clone();
        }
        let mut result = Fixed::ZERO;
        let mut borrow = false;
        for (place, word) in result.0.iter_mut().zip(self.0) {
            let (once, first) = 0u64.overflowing_sub(word);
            let (twice, second) = once.overflowing_sub(u64::from(borrow));
            *place = twice;
            borrow = first | second;
        }
        result
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

#[inline(always)]
fn step(place: u64, part: u64, negative: bool) -> (u64, bool) {
    if negative {
        place.overflowing_sub(part)
    } else {
        place.overflowing_add(part)
    }
}
