//! The two clocks of a measurement: when its calls were issued, and when they were complete.
//!
//! Bandwidths come from the second one alone: a call that was issued has moved nothing yet.
//! `-C 1` shows the first one in the column of times.

use super::{Bench, Placed};
use crate::perf::clock::seconds;
use crate::perf::outcome::{Single, Took};
use kolo::base::Result;

/// Times of one call, as the ranks agree on, and the times of single iterations on this rank,
/// where they are wanted.
pub(super) fn time(bench: &Bench, placed: &Placed) -> Result<(Took, Vec<f64>)> {
    let (iterations, calls) = (bench.args.iterations, f64::from(bench.args.aggregate));
    let all = || (0..iterations).try_for_each(|iteration| bench.issue(placed, iteration));
    let graph = bench.captured(all)?;
    bench.member.barrier()?;
    let start = seconds();
    bench.begin(graph.as_ref(), bench.args.replays(), all)?;
    let issued = seconds() - start;
    bench.synchronize()?;
    let passed = seconds() - start;
    let timed = f64::from(iterations * bench.args.replays().max(1));
    let of_one = |passed: f64| passed * 1e6 / calls / timed;
    let took = agree_took(bench, of_one(issued), of_one(passed))?;
    if (bench.args.form.is_tool() && bench.args.single_times == 0) || graph.is_some() {
        return Ok((took, Vec::new()));
    }
    if iterations == 1 {
        return Ok((took, vec![of_one(passed)]));
    }
    // Beside the small calls a look at the clock takes long, so these are others.
    let mut single = Vec::with_capacity(iterations as usize);
    bench.member.barrier()?;
    for iteration in 0..iterations {
        let start = seconds();
        bench.issue(placed, iteration)?;
        bench.synchronize()?;
        single.push((seconds() - start) * 1e6 / calls);
    }
    Ok((took, single))
}

/// Both times of one call, in microseconds, out of those of all ranks.
pub(super) fn agree_took(bench: &Bench, issued_us: f64, passed_us: f64) -> Result<Took> {
    let ranks_us = bench.member.of_all(passed_us)?;
    Ok(Took {
        issued_us: agree(bench, issued_us)?,
        time_us: bench.args.time_of().of(&ranks_us),
        ranks_us,
    })
}

/// Times of single iterations on which the ranks agree; all have equally many.
pub(super) fn agree_on(bench: &Bench, single: &[f64]) -> Result<Option<Single>> {
    let counted = single.get(bench.args.skipped as usize..).unwrap_or(&[]);
    let single = Single::of(counted);
    single
        .map(|single| single.each(|mine| agree(bench, mine)))
        .transpose()
}

/// One time out of those of all ranks.
pub(super) fn agree(bench: &Bench, mine: f64) -> Result<f64> {
    let all = bench.member.of_all(mine)?;
    Ok(bench.args.time_of().of(&all))
}
