//! The accumulator that programs use.

use super::bins::Bins;
use super::fixed::Halves;
use super::view::{Dimension, Mask, View};
use super::wire::Format;
use super::{Marks, Part, Summand};
use std::marker::PhantomData;

/// From this many terms on, bins are faster than one addition after the other.
const LEAST_FOR_BINS: usize = 96;

/// The exact sum of the terms so far.
///
/// Adding terms or merging sums in any order and grouping gives the same [`value`](Self::value),
/// bit for bit. Good for up to 2^62 terms.
///
/// ```
/// # use kolo_dtype::exact::ExactSum;
/// let mut sum = ExactSum::new();
/// sum.add_slice(&[1e300, 1.0, -1e300]);
/// assert_eq!(sum.value(), 1.0);
/// ```
#[derive(Clone, Debug)]
pub struct ExactSum<T: Summand> {
    halves: Halves,
    marks: Marks,
    kind: PhantomData<T>,
}

impl<T: Summand> Default for ExactSum<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Summand> ExactSum<T> {
    /// The sum of no terms; its value is +0.
    pub const fn new() -> ExactSum<T> {
        ExactSum {
            halves: Halves::ZERO,
            marks: Marks::NONE,
            kind: PhantomData,
        }
    }

    /// The float nearest to the exact sum, ties to even; special values as the module says.
    pub fn value(&self) -> T {
        let format = Format::of::<T>(1);
        let mut words = [0; Format::MOST_WORDS];
        let words = &mut words[..format.words()];
        self.encode(&format, words);
        format.decode(words)
    }

    /// Writes the sum as it travels in this format.
    pub fn encode(&self, format: &Format, words: &mut [i64]) {
        format.encode_halves::<T>(&self.halves, self.marks, words);
    }

    /// Adds one term.
    #[inline]
    pub fn add(&mut self, term: T) {
        let raw = term.to_raw();
        self.marks.merge(Marks::of::<T>(raw));
        let part = Part::of::<T>(raw);
        if part.exponent != T::SPECIAL {
            let (whole, shift) = part.scaled::<T>();
            self.halves
                .of(part.negative)
                .accumulate(u128::from(whole), T::BASE + shift);
        }
    }

    /// Adds all terms.
    pub fn add_slice(&mut self, terms: &[T]) {
        if terms.len() < LEAST_FOR_BINS {
            return terms.iter().for_each(|&term| self.add(term));
        }
        let mut bins = Bins::new();
        bins.fill(terms, &mut self.halves);
        let marks = bins.finish::<T>(&mut self.halves);
        self.marks.merge(marks);
    }

    /// Adds the terms whose mask is true.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn add_masked(&mut self, terms: &[T], mask: &[bool]) {
        assert_eq!(terms.len(), mask.len(), "a mask has an entry for each term");
        let line = [Dimension {
            extent: terms.len(),
            stride: size_of::<T>() as isize,
            mask_stride: 1,
        }];
        let mask = Mask {
            first: mask.as_ptr().cast(),
            entry_bytes: 1,
        };
        // SAFETY: both slices hold `extent` elements, and a bool is a byte.
        self.add_view(&unsafe { View::new(terms.as_ptr(), &line, Some(mask)) });
    }

    /// Adds the elements of an array with gaps, as far as its mask selects them.
    pub fn add_view(&mut self, view: &View<'_, T>) {
        if let Some(terms) = view.contiguous() {
            return self.add_slice(terms);
        }
        if view.elements() < LEAST_FOR_BINS {
            return view.gather(&mut |terms| terms.iter().for_each(|&term| self.add(term)));
        }
        let mut bins = Bins::new();
        view.gather(&mut |terms| bins.fill(terms, &mut self.halves));
        let marks = bins.finish::<T>(&mut self.halves);
        self.marks.merge(marks);
    }

    /// Adds all terms of another sum.
    pub fn merge(&mut self, other: &ExactSum<T>) {
        self.halves.positive.merge(&other.halves.positive);
        self.halves.negative.merge(&other.halves.negative);
        self.marks.merge(other.marks);
    }
}

impl<T: Summand> Extend<T> for ExactSum<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, terms: I) {
        terms.into_iter().for_each(|term| self.add(term));
    }
}

impl<T: Summand> FromIterator<T> for ExactSum<T> {
    fn from_iter<I: IntoIterator<Item = T>>(terms: I) -> ExactSum<T> {
        let mut sum = ExactSum::new();
        sum.extend(terms);
        sum
    }
}
