//! Bins: the fast way for many terms.
//!
//! 32 neighbouring exponents and one sign share a counter of 128 bits. A term is its 53-bit integer
//! shifted by the low five bits of its exponent, 84 bits at most, and goes to the counter that the
//! rest of its representation names: two shifts and one addition, no carry to look after, no
//! branch that data can mislead. 2^44 terms fit before a counter could overflow.
//!
//! Terms of similar size meet in the same counter, and each addition waits for the one before; so
//! there are [`LANES`] sets of counters, and neighbours go to different ones.

use super::fixed::Halves;
use super::{Marks, Part, Summand, minus_zero};

/// Sets of counters.
const LANES: usize = 4;
/// Counters of a set: a sign and the upper 6 of the 11 bits of a double's exponent.
const COUNTERS: usize = 128;
/// Exponents that share a counter, as bits.
const SHARED_BITS: u32 = 5;
/// Terms after which the counters are emptied: each adds less than 2^84.
const MOST_TERMS: usize = 1 << 43;

/// The counters, and what they hold beside numbers.
pub(super) struct Bins {
    counters: [[u128; COUNTERS]; LANES],
    terms: usize,
    marks: Marks,
}

impl Bins {
    pub fn new() -> Bins {
        Bins {
            counters: [[0; COUNTERS]; LANES],
            terms: 0,
            marks: Marks::default(),
        }
    }

    /// Adds all terms; `into` takes what the counters cannot hold any more.
    pub fn fill<T: Summand>(&mut self, terms: &[T], into: &mut Halves) {
        for piece in terms.chunks(MOST_TERMS) {
            if self.terms > MOST_TERMS - piece.len() {
                self.empty::<T>(into);
                self.counters = [[0; COUNTERS]; LANES];
                self.terms = 0;
            }
            self.terms += piece.len();
            self.fill_piece(piece);
        }
    }

    fn fill_piece<T: Summand>(&mut self, terms: &[T]) {
        // Stops at the first term that is not -0.
        let is_minus_zero = |term: &T| term.to_raw() == minus_zero::<T>();
        self.marks.minus_zero |= terms.first().is_some_and(is_minus_zero);
        self.marks.other = self.marks.other || !terms.iter().all(is_minus_zero);
        let (whole, rest) = terms.as_chunks::<LANES>();
        for chunk in whole {
            for (counters, term) in self.counters.iter_mut().zip(chunk) {
                one::<T>(counters, &mut self.marks, term.to_raw());
            }
        }
        for (counters, term) in self.counters.iter_mut().zip(rest) {
            one::<T>(counters, &mut self.marks, term.to_raw());
        }
    }

    /// Adds everything to `into`.
    fn empty<T: Summand>(&self, into: &mut Halves) {
        let negative_from = COUNTERS_OF::<T>() / 2;
        for index in 0..COUNTERS_OF::<T>() {
            let sum: u128 = self.counters.iter().map(|lane| lane[index]).sum();
            if sum == 0 {
                continue;
            }
            let group = (index % negative_from) as u32;
            // A term with exponent field e counts 2^(e-1) units of the type; every term of group 0
            // was shifted by at least one, so nothing is lost.
            let (value, bit) = match group {
                0 => (sum >> 1, 0),
                _ => (sum, (group << SHARED_BITS) - 1),
            };
            into.of(index >= negative_from)
                .accumulate(value, T::BASE + bit);
        }
    }

    /// Ends the filling.
    pub fn finish<T: Summand>(self, into: &mut Halves) -> Marks {
        self.empty::<T>(into);
        self.marks
    }
}

/// Counters that a type uses: a sign and its exponent's upper bits.
#[allow(non_snake_case)]
const fn COUNTERS_OF<T: Summand>() -> usize {
    1 << (size_of::<T>() as u32 * 8 - T::FRACTION_BITS - SHARED_BITS)
}

#[inline(always)]
fn one<T: Summand>(counters: &mut [u128; COUNTERS], marks: &mut Marks, raw: u64) {
    let part = Part::of::<T>(raw);
    if part.exponent == T::SPECIAL {
        return special::<T>(marks, raw);
    }
    // Without a branch: data with random zeros would mislead it.
    let normal = u64::from(part.exponent != 0);
    let whole = part.fraction | normal << T::FRACTION_BITS;
    let shift = (part.exponent as u32 & ((1 << SHARED_BITS) - 1)) + (1 - normal as u32);
    let counter = &mut counters[(raw >> (T::FRACTION_BITS + SHARED_BITS)) as usize % COUNTERS];
    *counter = counter.wrapping_add(u128::from(whole) << (shift & 63));
}

#[cold]
fn special<T: Summand>(marks: &mut Marks, raw: u64) {
    marks.merge(Marks::of::<T>(raw));
}
