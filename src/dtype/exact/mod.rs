//! Exact sums: the correctly rounded value of the exact sum, and therefore the same bits for every
//! order, number of ranks, decomposition and algorithm.
//!
//! **Problem.** Floating-point addition rounds, so a sum depends on the order of its terms, and a
//! program that runs on another number of ranks prints other digits.
//!
//! **Idea.** Every finite float is an integer multiple of the smallest subnormal number. Added as
//! integers, nothing is ever rounded, and order cannot matter; one rounding at the end gives the
//! float nearest to the exact sum. Between ranks the long integer travels as *limbs* with head
//! room, so that the ordinary integer sum of any all-reduce adds them without a carry.
//!
//! **Terms.**
//! - *unit*: 2^-1074, the smallest subnormal double; all integers here count units.
//! - *fixed*: an integer of 34 words, one for the positive and one for the negative terms
//!   ([`fixed`]); it holds any sum of fewer than 2^62 doubles.
//! - *bin*: 32 exponents share one 128-bit counter ([`bins`]); filling bins is how long arrays are
//!   added fast, without a carry and without a rounding.
//! - *limb*: up to 60 bits of the integer in an `i64`, with a sign and head room for the other
//!   ranks ([`wire`]).
//! - *window*: the limbs of one element that any rank has a part in ([`window`]).
//!
//! **Special values** follow IEEE 754: any NaN, or infinities of both signs, give the canonical
//! NaN; infinities of one sign give that infinity; an exact sum too large for the type gives
//! infinity although partial sums may exceed it; the sum of nothing but -0 is -0, every other exact
//! zero (and the sum of no terms) is +0.
//!
//! Only integer instructions touch the data, so the result does not depend on the floating-point
//! mode of the thread (flush-to-zero, rounding direction) or on its instruction set.
//!
//! Papers: R. M. Neal, Fast exact summation using small and large superaccumulators (2015),
//! arXiv:1505.05571; S. Collange, D. Defour, S. Graillat, R. Iakymchuk, Numerical reproducibility
//! for the parallel reduction on multi- and many-core architectures, Parallel Comput. 49 (2015),
//! doi:10.1016/j.parco.2015.09.001; for what a few words can do instead: W. Ahrens, J. Demmel,
//! H. D. Nguyen, ACM Trans. Math. Softw. 46 (2020), doi:10.1145/3389360.

mod bins;
mod fixed;
mod sum;
mod view;
pub mod window;
pub mod wire;

pub use sum::ExactSum;
pub use view::{Dimension, MOST_DIMENSIONS, Mask, View};

use super::Element;

/// The layout of a binary floating-point type that can be summed exactly.
///
/// Sealed like [`Element`]: `f32` and `f64`.
pub trait Summand: Element {
    /// Bits of the fraction: 23 or 52.
    const FRACTION_BITS: u32;
    /// The largest exponent field, that of infinities and NaN: 255 or 2047.
    const SPECIAL: u64;
    /// The type's smallest subnormal number is 2^`BASE` units.
    const BASE: u32;
    /// The representation, in the low bits.
    fn to_raw(self) -> u64;
    /// The value with this representation.
    fn from_raw(raw: u64) -> Self;
}

impl Summand for f32 {
    const FRACTION_BITS: u32 = 23;
    const SPECIAL: u64 = 255;
    const BASE: u32 = 1074 - 149;

    #[inline(always)]
    fn to_raw(self) -> u64 {
        u64::from(self.to_bits())
    }

    #[inline(always)]
    fn from_raw(raw: u64) -> f32 {
        f32::from_bits(raw as u32)
    }
}

impl Summand for f64 {
    const FRACTION_BITS: u32 = 52;
    const SPECIAL: u64 = 2047;
    const BASE: u32 = 0;

    #[inline(always)]
    fn to_raw(self) -> u64 {
        self.to_bits()
    }

    #[inline(always)]
    fn from_raw(raw: u64) -> f64 {
        f64::from_bits(raw)
    }
}

/// Marks of terms that are no finite numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Plus infinity or NaN.
    pub positive: bool,
    /// Minus infinity or NaN.
    pub negative: bool,
    /// Something that is not -0.
    pub other: bool,
    /// -0.
    pub minus_zero: bool,
}

impl Marks {
    /// No mark: no terms.
    pub const NONE: Marks = Marks {
        positive: false,
        negative: false,
        other: false,
        minus_zero: false,
    };

    /// The marks of both sets.
    #[inline]
    pub fn merge(&mut self, other: Marks) {
        self.positive |= other.positive;
        self.negative |= other.negative;
        self.other |= other.other;
        self.minus_zero |= other.minus_zero;
    }

    /// The marks of one term.
    #[inline]
    pub fn of<T: Summand>(raw: u64) -> Marks {
        let part = Part::of::<T>(raw);
        let special = part.exponent == T::SPECIAL;
        let nan = special && part.fraction != 0;
        let minus_zero = raw == minus_zero::<T>();
        Marks {
            positive: special && (nan || !part.negative),
            negative: special && (nan || part.negative),
            other: !minus_zero,
            minus_zero,
        }
    }

    /// The sum that the marks decide alone, if they do.
    pub fn verdict<T: Summand>(self) -> Option<T> {
        let infinity = T::SPECIAL << T::FRACTION_BITS;
        match (self.positive, self.negative) {
            (true, true) => Some(T::from_raw(infinity | 1 << (T::FRACTION_BITS - 1))),
            (true, false) => Some(T::from_raw(infinity)),
            (false, true) => Some(T::from_raw(infinity | minus_zero::<T>())),
            (false, false) => None,
        }
    }

    /// The sum whose exact value is zero.
    pub fn zero<T: Summand>(self) -> T {
        let minus = self.minus_zero && !self.other;
        T::from_raw(if minus { minus_zero::<T>() } else { 0 })
    }
}

/// The representation of -0: the sign bit.
#[inline(always)]
const fn minus_zero<T: Summand>() -> u64 {
    1 << (size_of::<T>() * 8 - 1)
}

/// A float taken apart.
#[derive(Clone, Copy, Debug)]
struct Part {
    negative: bool,
    /// The exponent field.
    exponent: u64,
    /// The stored fraction.
    fraction: u64,
}

impl Part {
    #[inline(always)]
    fn of<T: Summand>(raw: u64) -> Part {
        Part {
            negative: raw & minus_zero::<T>() != 0,
            exponent: raw >> T::FRACTION_BITS & T::SPECIAL,
            fraction: raw & ((1 << T::FRACTION_BITS) - 1),
        }
    }

    /// A finite float as an integer and a shift: |x| = `.0` * 2^`.1` units of the type.
    #[inline(always)]
    fn scaled<T: Summand>(self) -> (u64, u32) {
        if self.exponent == 0 {
            (self.fraction, 0)
        } else {
            let whole = self.fraction | 1 << T::FRACTION_BITS;
            (whole, self.exponent as u32 - 1)
        }
    }
}
