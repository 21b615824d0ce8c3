//! kolo beside MPI: the same calls of both in turns.

use super::{Bench, Placed};
use crate::launcher::{Mpi, mpi_result};
use crate::perf::clock::seconds;
use crate::perf::outcome::{Took, Versus};
use kolo::base::Result;
use kolo::bootstrap::mpi_abi::MPI_NOT_SUPPORTED;

/// Measurements of each side of a comparison; the medians count.
const SAMPLES: usize = 5;

impl Bench<'_> {
    /// kolo and MPI in turns, the data written anew before every call, and the times of kolo's
    /// single calls on this rank; `None` where MPI lacks the type or the operation.
    pub(super) fn versus(
        &mut self,
        placed: &Placed,
        mpi: &Mpi,
    ) -> Result<(Option<Versus>, Vec<f64>)> {
        self.prepare(placed)?;
        match (self.row.mpi)(mpi, &self.run(placed, 0)) {
            MPI_NOT_SUPPORTED => return Ok((None, Vec::new())),
            code => mpi_result(code, self.row.name)?,
        }
        let (mut kolo, mut rival_us) = (Vec::new(), Vec::new());
        let (mut single, mut others) = (Vec::new(), Vec::new());
        let call = |bench: &Self| (bench.row.run)(&bench.run(placed, 0));
        let theirs = |bench: &Self| {
            let code = (bench.row.mpi)(mpi, &bench.run(placed, 0));
            mpi_result(code, bench.row.name)
        };
        for _ in 0..SAMPLES {
            kolo.push(self.time_rewritten(placed, &mut single, (call, Self::synchronize))?);
            let rival = self.time_rewritten(placed, &mut others, (theirs, |_| Ok(())))?;
            rival_us.push(rival.time_us);
        }
        Ok((Some(Versus { kolo, rival_us }), single))
    }

    /// Times of one call, where every call finds freshly written data: until it was issued, and
    /// until it was waited for. Those of this rank's single calls go to the end of `single`.
    fn time_rewritten(
        &mut self,
        placed: &Placed,
        single: &mut Vec<f64>,
        (call, wait): (impl Fn(&Self) -> Result<()>, impl Fn(&Self) -> Result<()>),
    ) -> Result<Took> {
        let input = self
            .data(placed)
            .input(placed.seat.rank, placed.counts.send);
        let (mut issued, mut passed) = (0.0, 0.0);
        self.member.barrier()?;
        for _ in 0..self.args.iterations {
            self.write_input(placed, &input)?;
            let start = seconds();
            call(self)?;
            issued += seconds() - start;
            wait(self)?;
            let took = seconds() - start;
            single.push(took * 1e6);
            passed += took;
        }
        let of_one = |passed: f64| passed * 1e6 / f64::from(self.args.iterations);
        self.agree_took(of_one(issued), of_one(passed))
    }
}
