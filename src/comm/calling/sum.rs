//! Exact sums of whole arrays: every rank adds its own terms, then one all-reduce of the sums.
//!
//! On the wire it is an all-reduce of one element with [`RedOp::SUM_EXACT`] whose element happens
//! to be known exactly; see [`super::exact`].

use super::call::{Call, Checked, Collective};
use super::exact::most_whole;
use super::group;
use super::handles::RedOp;
use crate::base::{Error, Result};
use crate::comm::Communicator;
use crate::comm::owned::Exec;
use crate::comm::state::Inner;
use crate::dtype::exact::wire::Format;
use crate::dtype::exact::{ExactSum, Summand, View};

impl Inner {
    /// Sums that every rank has made of its own terms.
    fn sum_up<T: Summand>(&self, sums: &[ExactSum<T>], values: &mut [T]) -> Result<()> {
        self.callable()?;
        let place = values.as_mut_ptr().cast::<u8>();
        let mut checked = Call {
            collective: Collective::AllReduce,
            send: place,
            recv: place,
            count: sums.len(),
            dtype: T::DTYPE,
            op: RedOp::SUM_EXACT,
            peer: 0,
        }
        .check(self.rank, self.nranks)?;
        let mut exec = self.user()?;
        let number = self.begin(&mut exec, &mut checked);
        let checked = checked;
        let mut note = None;
        if self.seen.at_all {
            note = self.note(&exec, &checked, number, "");
            if self.seen.compared && exec.queue.is_empty() {
                self.check_first(&mut exec, &checked, number)?;
            }
        }
        let ended = self.sum_begun(&mut exec, (&checked, number), sums);
        if let Some(note) = note {
            note.ended(&ended);
        }
        ended
    }

    fn sum_begun<T: Summand>(
        &self,
        exec: &mut Exec,
        (checked, number): (&Checked, Option<u64>),
        sums: &[ExactSum<T>],
    ) -> Result<()> {
        let alone = exec.queue.is_empty();
        let format = Format::of::<T>(self.nranks);
        let fill = |words: &mut [i64]| {
            for (sum, words) in sums.iter().zip(words.chunks_mut(format.words())) {
                format.encode_sum(sum, words);
            }
        };
        if self.exact_at_once(exec, checked, number, &format, fill)? {
            return Ok(());
        }
        if !alone && self.seen.compared && self.nranks > 1 {
            let shown = self.check_op(exec, checked);
            let mut shown = shown.map_err(|error| self.fail(exec, error))?;
            shown.number = number;
            exec.queue.push_back(shown);
        }
        let mut words = vec![0; sums.len() * format.words()];
        fill(&mut words);
        self.exact_queued(exec, checked, number, Some(words))
    }
}

impl Communicator {
    /// The correctly rounded sum of all terms of all ranks: the same bits on every rank, for every
    /// number of ranks and every distribution of the terms over them. Ranks may have different
    /// numbers of terms, or none; without any term the sum is +0. Blocks until it is known.
    ///
    /// # Errors
    /// Those of every call ([`Communicator`]); `InvalidUsage` inside a group.
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
            let error = Error::argument(
                format!(
                    "the mask has {} entries for {} terms",
                    mask.len(),
                    terms.len()
                ),
                "pass a mask with one entry for each term",
            );
            return Err(self.inner.tells(error));
        }
        let mut sum = ExactSum::new();
        sum.add_masked(terms, mask);
        self.sum_exact_of(&sum)
    }

    /// [`Communicator::sum_exact`] of an array with gaps, as far as its mask selects it.
    ///
    /// # Errors
    /// As [`Communicator::sum_exact`].
    #[doc(hidden)]
    pub fn sum_exact_view<T: Summand>(&self, view: &View<'_, T>) -> Result<T> {
        let mut sum = ExactSum::new();
        sum.add_view(view);
        self.sum_exact_of(&sum)
    }

    /// [`Communicator::sum_exact`] of terms that were added before.
    ///
    /// # Errors
    /// As [`Communicator::sum_exact`].
    #[doc(hidden)]
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
    #[doc(hidden)]
    pub fn sums_exact_of<T: Summand>(&self, sums: &[ExactSum<T>], values: &mut [T]) -> Result<()> {
        let mut run = || {
            if group::active() {
                return Err(Error::usage(
                    "a sum that is returned cannot wait for the end of a group",
                    "sum before or after the group, or all-reduce with koloSumExact inside of it",
                ));
            }
            if sums.len() != values.len() {
                return Err(Error::argument(
                    format!("{} sums do not fit {} values", sums.len(), values.len()),
                    "pass one value for each sum",
                ));
            }
            // Sums that are there already always travel whole, so a call has no more of them than
            // a vector that does.
            let batch = most_whole(&Format::of::<T>(self.nranks()));
            let batches = sums.chunks(batch).zip(values.chunks_mut(batch));
            for (sums, values) in batches {
                self.inner.sum_up(sums, values)?;
            }
            Ok(())
        };
        run().map_err(|error| self.inner.tells(error).during("SumExact"))
    }
}
