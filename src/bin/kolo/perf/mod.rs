//! `kolo perf`: how fast the collectives are, and whether their results are right.
//!
//! [`start`] checks what was asked for, [`team`] brings the ranks together, [`rows`] is the table
//! of collectives, [`inputs`] makes data and expected results, [`content`] compares, [`bench`]
//! measures one call, and [`table`] prints. Every rank runs [`Session::run`]; rank 0 reports.
//!
//! **Showing that a wrong byte is noticed.** `KOLO_FAULT_FLIP=call:rank:slot` flips one bit of one
//! slot that `rank` publishes. With `-n 1 -w 0` each side of a line makes three calls (untimed,
//! timed, checked), so call 2 is the first that is checked, and messages, which have no call
//! number, are counted by slots from call 0 on. Both of these print exactly one wrong element:
//!
//! ```text
//! KOLO_FAULT_FLIP=0:0:2 mpirun -n 2 kolo perf sendrecv -n 1 -w 0 -b 64K -e 64K
//! KOLO_FAULT_FLIP=2:0:0 mpirun -n 2 kolo perf all_reduce -n 1 -w 0 -b 8 -e 8
//! ```

mod bench;
mod calls;
mod case;
pub mod clock;
mod content;
mod device;
pub mod engine;
pub mod form;
mod header;
mod inputs;
pub mod layout;
pub mod memory;
pub mod operation;
pub mod options;
mod outcome;
pub mod picture;
mod rival;
pub mod rows;
pub mod seat;
mod split;
mod start;
mod table;
pub mod team;
pub mod tool;
mod way;
mod who;
pub mod words;

pub use options::PerfArgs;
pub use start::main;

use crate::facts;
use crate::launcher::Mpi;
use crate::out;
use crate::world::World;
use bench::Bench;
use bench::measure::one_side;
use case::Case;
use kolo::base::{Code, Error, Result};
use kolo::comm::Inspect;
use kolo::topo::Machine;
use memory::Held;
use serde_json::{Value, json};
use std::sync::{Mutex, PoisonError};
use table::Report;
use team::{Meeting, Member};
use who::Who;

/// Verdict on a measurement, the worse the later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    /// All results were right.
    Right,
    /// A result was wrong, or the bandwidth not what was expected.
    Wrong,
    /// The options cannot be used on this machine; rank 0 has said why.
    Mistake,
}

/// Measures with all ranks of this process.
///
/// # Errors
/// Everything that kolo or MPI report.
fn measure(args: &PerfArgs, world: &World) -> Result<Verdict> {
    let at_start = memory::held();
    let devices = device::of_ranks(args, world)?;
    let meetings = team::meetings_in(args, world, &devices)?;
    let mut ranks = meetings.into_iter().zip(devices);
    // MPI belongs to the main thread, so the first rank of the process does too.
    let first = ranks.next();
    let outcome = Outcome::default();
    let run = |rank, mpi| Session::run(rank, args, mpi, at_start);
    std::thread::scope(|scope| {
        for rank in ranks {
            scope.spawn(|| outcome.of(move || run(rank, None)));
        }
        if let Some(rank) = first {
            outcome.of(|| run(rank, world.mpi()));
        }
    });
    let result = outcome.0.into_inner();
    result.unwrap_or_else(PoisonError::into_inner)
}

/// Outcome of the ranks of this process: the first error wins, but that of a rank that only heard
/// of another one's gives way to the cause.
struct Outcome(Mutex<Result<Verdict>>);

impl Default for Outcome {
    fn default() -> Outcome {
        Outcome(Mutex::new(Ok(Verdict::Right)))
    }
}

impl Outcome {
    fn of(&self, rank: impl FnOnce() -> Result<Verdict>) {
        let result = rank();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_heard = |error: &Error| error.code == Code::RemoteError;
        match (&*all, result) {
            (Err(heard), Err(cause)) if is_heard(heard) && !is_heard(&cause) => *all = Err(cause),
            (Err(_), _) => (),
            (Ok(_), Err(error)) => *all = Err(error),
            (Ok(before), Ok(now)) => *all = Ok(now.max(*before)),
        }
    }
}

/// One rank of a measurement.
struct Session<'a> {
    member: &'a Member,
    args: &'a PerfArgs,
    mpi: Option<&'a Mpi>,
}

/// A rank that ends by panicking takes the others along.
struct AbortOnPanic<'a>(&'a Member);

impl Drop for AbortOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.abort();
        }
    }
}

impl Session<'_> {
    fn run(
        (meeting, device): (Meeting, Option<u32>),
        args: &PerfArgs,
        mpi: Option<&Mpi>,
        at_start: u64,
    ) -> Result<Verdict> {
        let member = Member::join(meeting, device, args, mpi)?;
        let guard = AbortOnPanic(&member);
        let session = Session {
            member: &member,
            args,
            mpi,
        };
        let result = session.measure(at_start);
        drop(guard);
        match result {
            Ok(verdict) => {
                member.comm.destroy()?;
                member.team.destroy()?;
                Ok(verdict)
            }
            Err(error) => {
                member.abort();
                Err(error)
            }
        }
    }

    fn measure(&self, at_start: u64) -> Result<Verdict> {
        let mut held = Held {
            at_start,
            with_communicators: self.held()?,
            ..Held::default()
        };
        let who = Who::gather(self.member)?;
        let most = who.most_bytes(self.args);
        let sizes = self.args.sizes(most);
        let Some(&last) = sizes.last() else {
            return Ok(self.too_large(most));
        };
        let nranks = self.member.comm.nranks();
        let groups = self.member.of_all(nranks)?;
        let least_group = groups.into_iter().min().unwrap_or(nranks);
        let mut report = (self.member.team.rank() == 0).then(|| {
            let rows =
                self.args.combinations().len() * self.args.roots(least_group).len() * sizes.len();
            let environment = self.environment(&who);
            Report::new(self.args, rows, environment)
        });
        if let Some(report) = &report {
            for line in header::lines(self.args, &who, most) {
                report.line(&line);
            }
        }
        let rival = self.mpi.filter(|_| self.args.compare.is_some());
        let place = (last, who.same_host());
        let mut bench = Bench::new(self.member, self.args, rival, place)?;
        held.with_buffers = self.held()?;
        self.combinations(&mut bench, &sizes, least_group, report.as_mut())?;
        held.after_calls = self.held()?;
        let taken = self.taken(&held)?;
        let (executed, planned) = self.member.comm.step_counts()?;
        let executed = self.member.of_all(executed)?;
        let planned = self.member.of_all(planned + bench.replayed_steps())?;
        let steps: Vec<_> = executed.into_iter().zip(planned).collect();
        let right = report.map_or(Ok(true), |report| report.end(&steps, &taken));
        // All ranks end alike, so that none waits for a rank that has failed here.
        let bad = self.member.sum(u64::from(!matches!(right, Ok(true))))?;
        right.map(|right| {
            if right && bad == 0 {
                Verdict::Right
            } else {
                Verdict::Wrong
            }
        })
    }

    /// All ranks know that there is nothing to measure; one says it.
    fn too_large(&self, most: u64) -> Verdict {
        if self.member.team.rank() == 0 {
            let error = Error::usage(
                format!(
                    "even the least size, -b {}, exceeds what there is memory for, {most} bytes",
                    self.args.min_bytes
                ),
                "choose a smaller -b, or fewer ranks",
            );
            out::report(&error.during(self.args.form.name()));
        }
        Verdict::Mistake
    }

    /// Bytes that this process holds while no rank goes on; 0 where nobody wants to know.
    fn held(&self) -> Result<u64> {
        if self.args.memory_report == 0 {
            return Ok(0);
        }
        self.member.barrier()?;
        let held = memory::held();
        self.member.barrier()?;
        Ok(held)
    }

    /// Bytes that each rank's process took for each step; empty where nobody wants to know.
    fn taken(&self, held: &Held) -> Result<Vec<[u64; 4]>> {
        if self.args.memory_report == 0 {
            return Ok(Vec::new());
        }
        let steps = held.steps().map(|step| self.member.of_all(step));
        let [start, communicators, buffers, calls] = steps;
        let (start, communicators) = (start?, communicators?);
        let (buffers, calls) = (buffers?, calls?);
        let of = |rank: usize| [start[rank], communicators[rank], buffers[rank], calls[rank]];
        Ok((0..start.len()).map(of).collect())
    }

    /// The table: of each type, operation and root, warming up, and then the sizes as often as they
    /// are wanted.
    fn combinations(
        &self,
        bench: &mut Bench,
        sizes: &[u64],
        nranks: u32,
        mut report: Option<&mut Report>,
    ) -> Result<()> {
        if let Some(report) = &report {
            report.heads();
        }
        for (dtype, op) in self.args.combinations() {
            for root in self.args.roots(nranks) {
                let case = |bytes| Case {
                    bytes,
                    dtype,
                    op,
                    root,
                };
                // A rank that is late is not waited for inside of the first call.
                self.member.barrier()?;
                for &bytes in sizes.last().into_iter().chain(sizes.first()) {
                    bench.warm_up(case(bytes), self.args.warmup)?;
                }
                let mut cycle = 0;
                while self.args.cycles == 0 || cycle < self.args.cycles {
                    self.sizes(bench, sizes.iter().map(|&bytes| case(bytes)), &mut report)?;
                    cycle += 1;
                }
            }
        }
        Ok(())
    }

    /// The lines of these sizes once.
    fn sizes(
        &self,
        bench: &mut Bench,
        cases: impl Iterator<Item = Case>,
        report: &mut Option<&mut Report>,
    ) -> Result<()> {
        for case in cases {
            if let Some(report) = &report {
                report.measuring(&case);
            }
            let apart = one_side(bench, case, false)?;
            let in_place = one_side(bench, case, true)?;
            if let Some(report) = report {
                report.row(&case, bench.shown(&case), [apart, in_place]);
            }
        }
        Ok(())
    }

    /// Facts for the file about where this was measured.
    fn environment(&self, who: &Who) -> Value {
        let settings: serde_json::Map<String, Value> = self
            .member
            .comm
            .settings()
            .entries()
            .map(|entry| (entry.option.key.to_string(), entry.value.to_string().into()))
            .collect();
        let mpi = self
            .mpi
            .map(|mpi| json!({ "version": mpi.version(), "library": mpi.library }));
        json!({
            "date": table::time_of_day(),
            "command": std::env::args().collect::<Vec<_>>(),
            "nranks": self.member.comm.nranks(),
            "ranks": who.places,
            "isa": kolo::dtype::isa_name(),
            "hwloc": Machine::library_version(),
            "kernel": facts::kernel(),
            "processor": facts::processor(),
            "mpi": mpi,
            "settings": settings,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_is_told_whoever_comes_first() {
        let heard = || {
            Err(Error::remote(
                kolo::base::Rank(1),
                "it aborted",
                "see rank 1",
            ))
        };
        let cause = || Err(Error::usage("no kernel", "take another type"));
        let orders: [[&dyn Fn() -> Result<Verdict>; 3]; 2] = [
            [&heard, &cause, &|| Ok(Verdict::Right)],
            [&|| Ok(Verdict::Wrong), &cause, &heard],
        ];
        for order in orders {
            let outcome = Outcome::default();
            order.into_iter().for_each(|rank| outcome.of(rank));
            let told = outcome.0.into_inner().expect("no panic");
            assert_eq!(told.expect_err("one failed").what, "no kernel");
        }
    }
}
