//! Exact sums of whole arrays: every rank adds its own terms, then one all-reduce of the sums.
//!
//! On the wire it is an all-reduce of one element with [`RedOp::SUM_EXACT`] whose element happens
//! to be known exactly; see [`super::exact`].

use super::begin;
use super::call::{Call, Collective};
use super::checked::Checked;
use super::compared;
use super::enqueue;
use super::exact_calls;
use super::group;
use super::handles::RedOp;
use super::traced;
use super::whole::most_whole;
use crate::base::{Error, Result};
use crate::comm::owned::Exec;
use crate::comm::queue::Queue;
use crate::dtype::exact::wire::Format;
use crate::dtype::exact::{ExactSum, Summand, View};
use crate::tune::{CallForm, Called, Route};
use std::sync::Arc;

/// Sums that every rank has made of its own terms.
fn sum_up<T: Summand>(queue: &Queue, sums: &[ExactSum<T>], values: &mut [T]) -> Result<()> {
    queue.callable()?;
    let place = values.as_mut_ptr().cast::<u8>();
    let call = Call {
        collective: Collective::AllReduce,
        send: place,
        recv: place,
        count: sums.len(),
        dtype: T::DTYPE,
        op: RedOp::SUM_EXACT,
        peer: 0,
    };
    let mut checked = Checked::of(&call, queue.rank, queue.nranks)?;
    let mut exec = queue.user()?;
    let number = begin::begin(queue, &mut exec, &mut checked);
    let checked = checked;
    let mut note = None;
    if queue.seen.at_all {
        let told = exec.told(&checked, exec.called());
        note = traced::note(queue, &checked, number, "", told);
        if queue.seen.compared && exec.in_flight.is_empty() {
            compared::check_first(queue, &mut exec, &checked, number)?;
        }
    }
    let ended = sum_begun(queue, &mut exec, (&checked, number), sums);
    if let Some(note) = note {
        note.ended(&ended);
    }
    ended
}

fn sum_begun<T: Summand>(
    queue: &Queue,
    exec: &mut Exec,
    (checked, number): (&Checked, Option<u64>),
    sums: &[ExactSum<T>],
) -> Result<()> {
    let called = exec.called();
    let asked = checked.asked_all(called, queue.nranks);
    let form = Route::exact(&asked, &exec.table).form();
    let format = Format::of::<T>(queue.nranks);
    let fill = |words: &mut [i64]| {
        for (sum, words) in sums.iter().zip(words.chunks_mut(format.words())) {
            sum.encode(&format, words);
        }
    };
    if form != CallForm::Several {
        let run = |queue: &Queue, exec: &mut Exec, limbs: &Checked, number| {
            enqueue::short(form, queue, exec, limbs, number)
        };
        return exact_calls::exact_at_once(queue, exec, checked, number, &format, fill, run);
    }
    if called == Called::Queued && queue.seen.compared && queue.nranks > 1 {
        let shown = compared::check_op(exec, checked);
        let mut shown = shown.map_err(|error| queue.fail(exec, error))?;
        shown.number = number;
        exec.in_flight.push_back(shown);
    }
    let mut words = vec![0; sums.len() * format.words()];
    fill(&mut words);
    exact_calls::exact_queued(queue, exec, checked, number, Some(words))
}

/// The correctly rounded sum of all terms of all ranks: the same bits on every rank, for every
/// number of ranks and every distribution of the terms over them. Ranks may have different
/// numbers of terms, or none; without any term the sum is +0. Blocks until it is known.
///
/// # Errors
/// Those of every call ([`Communicator`]); `InvalidUsage` inside a group.
pub(in crate::comm) fn sum_exact<T: Summand>(queue: &Arc<Queue>, terms: &[T]) -> Result<T> {
    let mut sum = ExactSum::new();
    sum.add_slice(terms);
    sum_exact_of(queue, &sum)
}

/// [`sum_exact`] of the terms whose mask is true.
///
/// # Errors
/// Those of [`sum_exact`], and for a mask of another length.
pub(in crate::comm) fn sum_exact_masked<T: Summand>(
    queue: &Arc<Queue>,
    terms: &[T],
    mask: &[bool],
) -> Result<T> {
    if terms.len() != mask.len() {
        let error = Error::argument(
            format!(
                "the mask has {} entries for {} terms",
                mask.len(),
                terms.len()
            ),
            "pass a mask with one entry for each term",
        );
        return Err(queue.tells(error));
    }
    let mut sum = ExactSum::new();
    sum.add_masked(terms, mask);
    sum_exact_of(queue, &sum)
}

/// [`sum_exact`] of an array with gaps, as far as its mask selects it.
///
/// # Errors
/// Those of [`sum_exact`].
pub(in crate::comm) fn sum_exact_view<T: Summand>(
    queue: &Arc<Queue>,
    view: &View<'_, T>,
) -> Result<T> {
    let mut sum = ExactSum::new();
    sum.add_view(view);
    sum_exact_of(queue, &sum)
}

/// [`sum_exact`] of terms that were added before.
///
/// # Errors
/// Those of [`sum_exact`].
pub(in crate::comm) fn sum_exact_of<T: Summand>(
    queue: &Arc<Queue>,
    sum: &ExactSum<T>,
) -> Result<T> {
    let mut value = [T::from_raw(0)];
    sums_exact_of(queue, std::slice::from_ref(sum), &mut value)?;
    Ok(value[0])
}

/// Several independent sums in one call, which costs little more than one: mass and energy of
/// a model, or real and imaginary part. All ranks pass the same number of sums.
///
/// # Errors
/// Those of [`sum_exact`], and if `values` has another length.
pub(in crate::comm) fn sums_exact_of<T: Summand>(
    queue: &Arc<Queue>,
    sums: &[ExactSum<T>],
    values: &mut [T],
) -> Result<()> {
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
        let batch = most_whole(&Format::of::<T>(queue.nranks));
        let batches = sums.chunks(batch).zip(values.chunks_mut(batch));
        for (sums, values) in batches {
            sum_up(queue, sums, values)?;
        }
        Ok(())
    };
    run().map_err(|error| queue.tells(error).during("SumExact"))
}
