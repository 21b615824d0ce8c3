//! Windows: what long vectors of sums send instead of all limbs.
//!
//! An element's terms on all ranks are usually of similar size, and most limbs are zero on all
//! ranks. So the ranks agree first: [`Bounds`] of each element, four bytes, are combined by an
//! element-wise maximum of bytes. Then only the limbs inside of the common window travel, one or
//! two of them for terms of similar size, and all for terms that span the whole range.
//!
//! | byte | holds |
//! |---|---|
//! | 0 | 0: nothing but -0; 1: zeros; 2 and more: the highest limb, plus 2 |
//! | 1 | 255 less the lowest limb; 0 without a limb |
//! | 2 | 1: plus infinity or NaN |
//! | 3 | 1: minus infinity or NaN |

use super::wire::Format;
use super::{Marks, Summand};

/// Bytes of one element's bounds.
pub const BOUND_BYTES: usize = 4;

/// The bounds of one element, on one rank or on all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds([u8; BOUND_BYTES]);

impl Bounds {
    /// The bounds of a term.
    #[inline]
    pub fn of<T: Summand>(format: &Format, term: T) -> Bounds {
        let raw = term.to_raw();
        let marks = Marks::of::<T>(raw);
        let (high, low) = match format.span::<T>(raw) {
            Some((low, high)) => (high as u8 + 2, 255 - low as u8),
            None => (u8::from(marks.other), 0),
        };
        Bounds([
            high,
            low,
            u8::from(marks.positive),
            u8::from(marks.negative),
        ])
    }

    /// As they travel.
    #[inline]
    pub fn bytes(self) -> [u8; BOUND_BYTES] {
        self.0
    }

    /// From what has travelled.
    #[inline]
    pub fn from_bytes(bytes: [u8; BOUND_BYTES]) -> Bounds {
        Bounds(bytes)
    }

    #[inline]
    fn marks(self) -> Marks {
        let [high, _, positive, negative] = self.0;
        Marks {
            positive: positive != 0,
            negative: negative != 0,
            other: high != 0,
            minus_zero: high == 0,
        }
    }

    /// The lowest limb of the window.
    #[inline]
    fn first(self) -> usize {
        255 - usize::from(self.0[1])
    }

    /// Limbs of the window; none if no limb decides the result.
    #[inline]
    pub fn width(self, format: &Format) -> usize {
        let [high, low, positive, negative] = self.0;
        if high < 2 || low == 0 || positive | negative != 0 {
            return 0;
        }
        // Bytes that a broken rank sent must not reach beyond the limbs.
        let last = (usize::from(high) - 2).min(format.limbs() - 1);
        (last + 1).saturating_sub(self.first())
    }

    /// Writes the limbs of a term that lie in the window.
    #[inline]
    pub fn encode<T: Summand>(self, format: &Format, term: T, limbs: &mut [i64]) {
        if !limbs.is_empty() {
            format.encode_limbs::<T>(term.to_raw(), self.first(), limbs);
        }
    }

    /// The value of the limbs of all ranks, added.
    #[inline]
    pub fn decode<T: Summand>(self, format: &Format, limbs: &[i64]) -> T {
        let first = if limbs.is_empty() { 0 } else { self.first() };
        format.decode_limbs(first, limbs, self.marks())
    }
}
