//! kolo beside MPI: the same calls of both in turns.

use super::timed::agree_took;
use super::{Bench, Placed};
use crate::launcher::{Mpi, mpi_result};
use crate::perf::clock::seconds;
use crate::perf::outcome::{Took, Versus};
use kolo::base::Result;
use kolo::bootstrap::mpi_abi::MPI_NOT_SUPPORTED;

/// Measurements of each side of a comparison; the medians count.
const SAMPLES: usize = 5;

/// kolo and MPI in turns, the data written anew before every call, and the times of kolo's
/// single calls on this rank; `None` where MPI lacks the type or the operation.
pub(super) fn versus<'a>(
    bench: &mut Bench<'a>,
    placed: &Placed,
    mpi: &Mpi,
) -> Result<(Option<Versus>, Vec<f64>)> {
    bench.prepare(placed)?;
    match (bench.row.mpi)(mpi, &bench.run(placed, 0)) {
        MPI_NOT_SUPPORTED => return Ok((None, Vec::new())),
        code => mpi_result(code, bench.row.name)?,
    }
    let (mut kolo, mut rival_us) = (Vec::new(), Vec::new());
    let (mut single, mut others) = (Vec::new(), Vec::new());
    let call = |bench: &Bench<'a>| (bench.row.run)(&bench.run(placed, 0));
    let theirs = |bench: &Bench<'a>| {
        let code = (bench.row.mpi)(mpi, &bench.run(placed, 0));
        mpi_result(code, bench.row.name)
    };
    for _ in 0..SAMPLES {
        kolo.push(time_rewritten(
            bench,
            placed,
            &mut single,
            (call, Bench::synchronize),
        )?);
        let rival = time_rewritten(bench, placed, &mut others, (theirs, |_| Ok(())))?;
        rival_us.push(rival.time_us);
    }
    Ok((Some(Versus { kolo, rival_us }), single))
}

/// Times of one call, where every call finds freshly written data: until it was issued, and
/// until it was waited for. Those of this rank's single calls go to the end of `single`.
fn time_rewritten<'a>(
    bench: &mut Bench<'a>,
    placed: &Placed,
    single: &mut Vec<f64>,
    (call, wait): (
        impl Fn(&Bench<'a>) -> Result<()>,
        impl Fn(&Bench<'a>) -> Result<()>,
    ),
) -> Result<Took> {
    let input = bench
        .data(placed)
        .input(placed.seat.rank, placed.counts.send);
    let (mut issued, mut passed) = (0.0, 0.0);
    bench.member.barrier()?;
    for _ in 0..bench.args.iterations {
        bench.write_input(placed, &input)?;
        let start = seconds();
        call(bench)?;
        issued += seconds() - start;
        wait(bench)?;
        let took = seconds() - start;
        single.push(took * 1e6);
        passed += took;
    }
    let of_one = |passed: f64| passed * 1e6 / f64::from(bench.args.iterations);
    agree_took(bench, of_one(issued), of_one(passed))
}
