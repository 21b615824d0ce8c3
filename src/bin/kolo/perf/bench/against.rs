//! kolo beside MPI: the same calls of both in turns.

use super::{Bench, Placed};
use crate::launcher::{Mpi, mpi_result};
use crate::perf::outcome::Versus;
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
        let (mut kolo_us, mut rival_us) = (Vec::new(), Vec::new());
        let (mut single, mut others) = (Vec::new(), Vec::new());
        for _ in 0..SAMPLES {
            kolo_us.push(self.time_rewritten(placed, &mut single, |bench| bench.once(placed, 0))?);
            rival_us.push(self.time_rewritten(placed, &mut others, |bench| {
                let code = (bench.row.mpi)(mpi, &bench.run(placed, 0));
                mpi_result(code, bench.row.name)
            })?);
        }
        Ok((Some(Versus { kolo_us, rival_us }), single))
    }

    /// Time of one call in microseconds, where every call finds freshly written data. The times of
    /// this rank's single calls go to the end of `single`.
    fn time_rewritten(
        &mut self,
        placed: &Placed,
        single: &mut Vec<f64>,
        call: impl Fn(&Self) -> Result<()>,
    ) -> Result<f64> {
        let input = self
            .data(placed)
            .input(placed.seat.rank, placed.counts.send);
        let mut passed = 0.0;
        self.member.barrier()?;
        for _ in 0..self.args.iterations {
            self.write_input(placed, &input)?;
            let start = self.clock();
            call(self)?;
            let took = self.clock() - start;
            single.push(took * 1e6);
            passed += took;
        }
        self.agree(passed * 1e6 / f64::from(self.args.iterations))
    }
}
