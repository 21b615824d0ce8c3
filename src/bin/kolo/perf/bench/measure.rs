//! One side of a line: what is timed, what is checked, and what comes of both.

use super::Bench;
use super::against::versus;
use super::timed::{agree_on, time};
use crate::perf::case::Case;
use crate::perf::outcome::{Outcome, Took};
use crate::perf::way::ReadBuffers;
use kolo::base::Result;
use kolo::comm::Inspect;

/// Measures one side of a line; `None` where the collective has no in-place form.
///
/// # Errors
/// kolo's, MPI's.
pub fn one_side(bench: &mut Bench, case: Case, in_place: bool) -> Result<Option<Outcome>> {
    if in_place && !bench.row.in_place {
        return Ok(None);
    }
    let placed = bench.place(case, in_place)?;
    bench.repetition += 1;
    bench.prepare(&placed)?;
    let read = read(bench)?;
    bench.once(&placed, 0)?;
    let (rival, single) = match bench.mpi {
        Some(mpi) => versus(bench, &placed, mpi)?,
        None => (None, Vec::new()),
    };
    let (took, single) = match &rival {
        Some(versus) => (Took::of_median(versus), single),
        None => time(bench, &placed)?,
    };
    let single = agree_on(bench, &single)?;
    let read = ReadBuffers::between(read, self::read(bench)?);
    let bytes = placed.counts.call * placed.unit();
    let algorithm = bench.ways.name(&case, bytes, read);
    let mut wrong = 0;
    for _ in 0..bench.args.checks {
        wrong += bench.check(&placed)?;
        // The number is that of all ranks, so all of them stop here.
        if wrong > 0 {
            break;
        }
    }
    let checkable = bench.args.checks > 0 && (bench.same_host || !bench.row.sizeless);
    bench.finish(&placed)?;
    let size = placed.counts.size * placed.unit();
    let ranks = f64::from(placed.seat.nranks);
    let algbw = size as f64 / 1e3 / took.time_us * (bench.row.moved)(ranks);
    Ok(Some(Outcome {
        took,
        algbw,
        busbw: algbw * (bench.row.busy)(ranks),
        wrong: checkable.then_some(wrong),
        single,
        rival,
        algorithm,
    }))
}

/// Counts calls whose ranks have read each other's buffers, and tokens that mates were shown.
fn read(bench: &Bench) -> Result<[u64; 2]> {
    let comm = &bench.member.comm;
    Ok([comm.direct_calls()?, comm.tokens_shown()?])
}
