//! Exact sums of whole arrays: every rank adds its own terms, then one all-reduce of integers adds
//! the sums of all ranks without rounding.

use super::{Communicator, RedOp, group};
use crate::base::{Error, Rank, Result};
use crate::dtype::exact::wire::Format;
use crate::dtype::exact::{ExactSum, Summand, View};

impl Communicator {
    /// The correctly rounded sum of all terms of all ranks: the same bits on every rank, for every
    /// number of ranks and every distribution of the terms over them. Ranks may have different
    /// numbers of terms, or none; without any term the sum is +0. Blocks until it is known.
    ///
    /// # Errors
    /// See [`Communicator::enqueue`]; `InvalidUsage` inside a group.
    pub fn sum_exact<T: Summand>(&self, terms: &[T]) -> Result<T> {
        let mut sum = ExactSum::new();
        sum.add_slice(terms);
        self.sum_exact_of(&sum)
    }

    /// [`Communicator::sum_exact`] of the terms whose mask is true.
    ///
    /// # Errors
    /// As [`Communicator::sum_exact`], and for a mask of another length.
    pub fn sum_exact_masked<T: Summand>(&self, terms: &[T], mask: &[bool]) -> Result<T> {
        if terms.len() != mask.len() {
            return Err(Error::argument(
                format!(
                    "the mask has {} entries for {} terms",
                    mask.len(),
                    terms.len()
                ),
                "pass a mask with one entry for each term",
            )
            .at(Rank(self.rank())));
        }
        let mut sum = ExactSum::new();
        sum.add_masked(terms, mask);
        self.sum_exact_of(&sum)
    }

    /// [`Communicator::sum_exact`] of an array with gaps, as far as its mask selects it.
    ///
    /// # Errors
    /// As [`Communicator::sum_exact`].
    pub fn sum_exact_view<T: Summand>(&self, view: &View<'_, T>) -> Result<T> {
        let mut sum = ExactSum::new();
        sum.add_view(view);
        self.sum_exact_of(&sum)
    }

    /// [`Communicator::sum_exact`] of terms that were added before.
    ///
    /// # Errors
    /// As [`Communicator::sum_exact`].
    pub fn sum_exact_of<T: Summand>(&self, sum: &ExactSum<T>) -> Result<T> {
        let mut value = [T::from_raw(0)];
        self.sums_exact_of(std::slice::from_ref(sum), &mut value)?;
        Ok(value[0])
    }

    /// Several independent sums in one call, which costs little more than one: mass and energy of
    /// a model, or real and imaginary part. All ranks pass the same number of sums.
    ///
    /// # Errors
    /// As [`Communicator::sum_exact`], and if `values` has another length.
    pub fn sums_exact_of<T: Summand>(&self, sums: &[ExactSum<T>], values: &mut [T]) -> Result<()> {
        let mut run = || {
            if group::active() {
                return Err(Error::usage(
                    "a sum that is returned cannot wait for the end of a group",
                    "sum before or after the group",
                ));
            }
            if sums.len() != values.len() {
                return Err(Error::argument(
                    format!("{} sums do not fit {} values", sums.len(), values.len()),
                    "pass one value for each sum",
                ));
            }
            let format = Format::of::<T>(self.nranks());
            let mut words = vec![0i64; sums.len() * format.words()];
            for (sum, words) in sums.iter().zip(words.chunks_mut(format.words())) {
                format.encode_sum(sum, words);
            }
            self.all_reduce_in_place(&mut words, RedOp::SUM)?;
            for (value, words) in values.iter_mut().zip(words.chunks(format.words())) {
                *value = format.decode(words);
            }
            Ok(())
        };
        run().map_err(|error| error.at(Rank(self.inner.rank)).during("SumExact"))
    }
}
