//! `kolo perf`: how fast the collectives are, and whether their results are right.
//!
//! [`team`] brings the ranks together, [`rows`] is the table of collectives, [`inputs`] makes
//! data and expected results, [`content`] compares, [`bench`] measures one call, and [`table`]
//! prints. Every rank runs [`Session::run`]; rank 0 reports.
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
mod content;
mod data;
pub mod engine;
mod inputs;
pub mod layout;
pub mod memory;
mod operation;
pub mod options;
mod rival;
pub mod rows;
mod table;
pub mod team;
mod values;

pub use options::PerfArgs;

use crate::{info, launcher};
use bench::{Bench, Case};
use kolo::base::{Error, Rank, Result};
use kolo::topo::graph::TopoFile;
use kolo::topo::{Machine, RankPlace};
use launcher::Mpi;
use serde_json::{Value, json};
use std::sync::{Mutex, PoisonError};
use table::Report;
use team::{Meeting, Member};

/// Measures. Says whether all results were right.
///
/// # Errors
/// Options that make no sense here, and everything that kolo or MPI report.
pub fn run(args: &PerfArgs) -> Result<bool> {
    let families = launcher::launched_by().map_err(|error| error.during(USAGE))?;
    let mpi = match (families.is_empty(), args.ranks) {
        (true, _) => None,
        (false, Some(_)) => {
            return Err(Error::usage(
                "--ranks starts threads, but mpirun has started processes already",
                "use --ranks without mpirun, or mpirun without --ranks (and -t for threads)",
            ));
        }
        (false, None) => {
            let mpi = Mpi::start(&families)?;
            Some(mpi.among_all().map_err(|error| error.during(USAGE))?)
        }
    };
    let result = run_ranks(args, mpi.as_ref());
    if let Some(mpi) = &mpi {
        match &result {
            Ok(_) => mpi.finalize(),
            Err(error) if is_usage(error) => mpi.finalize(),
            Err(error) => {
                // The other processes may wait for this one for ever.
                eprintln!("{error}");
                mpi.abort();
            }
        }
    }
    result
}

/// Whether every rank finds this error before it meets the others.
fn is_usage(error: &Error) -> bool {
    error.operation.as_deref() == Some(USAGE)
}

/// The operation of errors in the options.
pub const USAGE: &str = "kolo perf";

fn run_ranks(args: &PerfArgs, mpi: Option<&Mpi>) -> Result<bool> {
    let threads = args.ranks.unwrap_or(args.threads);
    let nranks = threads * mpi.map_or(1, Mpi::nranks);
    check(args, nranks, mpi.is_some()).map_err(|error| error.during(USAGE))?;
    let mut meetings = team::meetings(args, mpi)?.into_iter();
    // MPI belongs to the main thread, so the first rank of the process does too.
    let first = meetings.next();
    let outcome = Outcome::default();
    std::thread::scope(|scope| {
        for meeting in meetings {
            scope.spawn(|| outcome.of(move || Session::run(meeting, args, None)));
        }
        if let Some(meeting) = first {
            outcome.of(|| Session::run(meeting, args, mpi));
        }
    });
    let result = outcome.0.into_inner();
    result.unwrap_or_else(PoisonError::into_inner)
}

/// What the options say together, and with the way the program was started.
fn check(args: &PerfArgs, nranks: u32, launched: bool) -> Result<()> {
    let groups = args.split_mask.map_or(vec![nranks], |mask| {
        let color = |rank: u32| rank & mask;
        let size = |of: u32| (0..nranks).filter(|&rank| color(rank) == color(of)).count();
        (0..nranks).map(|rank| size(rank) as u32).collect()
    });
    groups.iter().try_for_each(|&group| args.check(group))?;
    if args.compare.is_none() {
        return Ok(());
    }
    if !launched {
        return Err(Error::usage(
            "there is no MPI to compare with: no launcher of MPI has started this program",
            "start it with mpirun, as mpirun -n 2 kolo perf all_reduce --compare mpi",
        ));
    }
    if args.threads > 1 || args.split_mask.is_some() {
        return Err(Error::usage(
            "MPI has one rank per process, and its world is not split",
            "use --compare without -t and --split-mask",
        ));
    }
    Ok(())
}

/// What the ranks of this process have come to: the first error wins.
struct Outcome(Mutex<Result<bool>>);

impl Default for Outcome {
    fn default() -> Outcome {
        Outcome(Mutex::new(Ok(true)))
    }
}

impl Outcome {
    fn of(&self, rank: impl FnOnce() -> Result<bool>) {
        let result = rank();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match (&*all, result) {
            (Err(_), _) => (),
            (Ok(_), Err(error)) => *all = Err(error),
            (Ok(before), Ok(now)) => *all = Ok(*before && now),
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
    fn run(meeting: Meeting, args: &PerfArgs, mpi: Option<&Mpi>) -> Result<bool> {
        let member = Member::join(meeting, args, mpi)?;
        let guard = AbortOnPanic(&member);
        let session = Session {
            member: &member,
            args,
            mpi,
        };
        let result = session.measure();
        drop(guard);
        match result {
            Ok(right) => {
                member.comm.destroy()?;
                member.team.destroy()?;
                Ok(right)
            }
            Err(error) => {
                member.abort();
                Err(error)
            }
        }
    }

    fn measure(&self) -> Result<bool> {
        let team = &self.member.team;
        let who = Who::gather(self.member)?;
        let most = who.most_bytes(self.args);
        let sizes = self.args.sizes(most);
        let nranks = self.member.comm.nranks();
        let groups = self.member.gather(nranks)?;
        let least_group = groups.into_iter().min().unwrap_or(nranks);
        let mut report = (team.rank() == 0).then(|| {
            let rows =
                self.args.combinations().len() * self.args.roots(least_group).len() * sizes.len();
            let environment = self.environment(&who);
            Report::new(self.args, rows, environment)
        });
        if let Some(report) = &report {
            self.header(report, &who, most);
        }
        let Some((&first, &last)) = sizes.first().zip(sizes.last()) else {
            return Err(Error::usage(
                format!(
                    "even the least size, -b {}, exceeds the memory",
                    self.args.min_bytes
                ),
                "choose a smaller -b, or fewer ranks",
            ));
        };
        let rival = self.mpi.filter(|_| self.args.compare.is_some());
        let place = (last, who.same_host());
        let mut bench = Bench::new(self.member, self.args, rival, place)?;
        let (dtype, op) = self.args.combinations()[0];
        let case = |bytes| Case {
            bytes,
            dtype,
            op,
            root: self.args.roots(least_group)[0],
        };
        bench.warm_up(case(last), self.args.warmup)?;
        bench.warm_up(case(first), self.args.warmup)?;
        if let Some(report) = &report {
            report.heads();
        }
        let mut cycle = 0;
        while self.args.cycles == 0 || cycle < self.args.cycles {
            self.cycle(&mut bench, &sizes, least_group, report.as_mut())?;
            cycle += 1;
        }
        let (executed, planned) = self.member.comm.step_counts()?;
        let executed = self.member.gather(executed)?;
        let planned = self.member.gather(planned)?;
        let steps: Vec<_> = executed.into_iter().zip(planned).collect();
        let right = report.map_or(Ok(true), |report| report.end(&steps));
        // All ranks end alike, so that none waits for a rank that has failed here.
        let bad = self.member.sum(u64::from(!matches!(right, Ok(true))))?;
        right.map(|right| right && bad == 0)
    }

    /// Every line of the table once.
    fn cycle(
        &self,
        bench: &mut Bench,
        sizes: &[u64],
        nranks: u32,
        mut report: Option<&mut Report>,
    ) -> Result<()> {
        for (dtype, op) in self.args.combinations() {
            for root in self.args.roots(nranks) {
                for &bytes in sizes {
                    let case = Case {
                        bytes,
                        dtype,
                        op,
                        root,
                    };
                    if let Some(report) = &report {
                        report.measuring(&case);
                    }
                    let apart = bench.measure(case, false)?;
                    let in_place = bench.measure(case, true)?;
                    if let Some(report) = &mut report {
                        report.row(&case, bench.shown(&case), [apart, in_place]);
                    }
                }
            }
        }
        Ok(())
    }

    fn header(&self, report: &Report, who: &Who, most: u64) {
        let args = self.args;
        if most < args.max_bytes && !args.collective.sizeless {
            report.line(&format!(
                "# Reducing maxBytes to {most} due to memory limitation"
            ));
        }
        let step = match args.factor {
            Some(factor) => format!("{factor}(factor)"),
            None => format!("{}(bytes)", args.step_bytes),
        };
        let threads = args.ranks.unwrap_or(args.threads);
        report.line(&format!(
            "# nThread {threads} nGpus 1 minBytes {} maxBytes {} step: {step} warmup iters: {} \
             iters: {} agg iters: {} validation: {} graph: 0",
            args.min_bytes,
            args.max_bytes.min(most),
            args.warmup,
            args.iterations,
            args.aggregate,
            args.checks
        ));
        report.line("#");
        report.line("# Using ranks");
        for (rank, place) in who.places.iter().enumerate() {
            report.line(&format!(
                "#  Rank {rank:>2} Group {:>2} Pid {:>6} on {:>10} cores {} {}",
                place["group"].as_u64().unwrap_or(0),
                place["pid"].as_u64().unwrap_or(0),
                place["host"].as_str().unwrap_or("?"),
                place["cores"].as_str().unwrap_or("?"),
                place["name"].as_str().unwrap_or(""),
            ));
        }
    }

    /// What the file says about where this was measured.
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
            "kernel": info::kernel(),
            "processor": info::processor(),
            "mpi": mpi,
            "settings": settings,
        })
    }
}

/// All ranks, as they describe themselves.
struct Who {
    places: Vec<Value>,
}

impl Who {
    fn gather(member: &Member) -> Result<Who> {
        let rank = Rank(member.team.rank());
        let machine = match member.comm.settings().topo_file() {
            Some(file) => TopoFile::machine(file)?,
            None => None,
        };
        let machine = match &machine {
            Some(machine) => machine,
            None => Machine::detect()?,
        };
        let place = RankPlace::here(rank, None, machine)?;
        let mut cores = place.cores.to_string();
        if cores.len() > 100 {
            cores = format!("{} of them", place.core_count());
        }
        let name: String = info::processor().chars().take(60).collect();
        let mine = json!({
            "pid": place.pid, "host": place.host, "node": place.host_hash.to_string(),
            "cores": cores, "name": name, "group": member.color,
            "memory": memory::available(),
        });
        let texts = member.gather_text(&mine.to_string())?;
        let places = texts
            .iter()
            .map(|text| {
                serde_json::from_str(text)
                    .map_err(|_| Error::internal(format!("a rank describes itself as {text}")))
            })
            .collect::<Result<_>>()?;
        Ok(Who { places })
    }

    fn same_host(&self) -> bool {
        self.places
            .iter()
            .all(|place| place["node"] == self.places[0]["node"])
    }

    /// The greatest size that every rank has memory for.
    fn most_bytes(&self, args: &PerfArgs) -> u64 {
        let most = |place: &Value| {
            let same = |other: &&Value| other["node"] == place["node"];
            let ranks = self.places.iter().filter(same).count() as u64;
            let available = place["memory"].as_u64().unwrap_or(0);
            memory::most_bytes(available, ranks, args.checks > 0)
        };
        self.places.iter().map(most).min().unwrap_or(0)
    }
}
