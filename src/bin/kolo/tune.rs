//! `kolo tune`: measures every algorithm at every size, and writes what it found into a file from
//! which communicators of the site choose ([`kolo::tune::measured`]).
//!
//! Every rank runs [`Tuning::run`]. For each algorithm and protocol all ranks make one communicator
//! that may use nothing else, and time its collectives. Rank 0 has the file: it tells the others
//! what is still to be measured, so a run that was ended goes on where it stopped, and it writes
//! the file after each series.

use crate::facts;
use crate::launcher::{self, Mpi};
use crate::perf::engine::{self, Run};
use crate::perf::layout::Counts;
use crate::perf::memory::{Buffer, BufferKind};
use crate::perf::options::PerfArgs;
use crate::perf::rows::COLLECTIVES;
use crate::perf::seat::Seat;
use crate::perf::team::{self, Meeting, Member};
use crate::tune_args::{Meet, TuneArgs};
use crate::tune_mpi::BesideMpi;
use crate::tuned;
use crate::world::World;
use clap::Parser;
use indicatif::ProgressBar;
use kolo::algo::{Entry, REGISTRY};
use kolo::base::{Error, Result, clock, input_file};
use kolo::comm::Inspect;
use kolo::comm::{CommConfig, Communicator, RedOp};
use kolo::config::Settings;
use kolo::dtype::DataType;
use kolo::plan::{Algorithm, Collective};
use kolo::tune::measured::Series;
use kolo::tune::{Measured, ProtocolChoice, measured};
use std::path::Path;

/// Measures.
///
/// # Errors
/// Options that make no sense here, a file that cannot be used, and everything that kolo or MPI
/// report.
pub fn run(args: &TuneArgs) -> Result<()> {
    let settings = Settings::load(&[])?;
    let world = match args.ranks {
        Some(_) if launcher::has_started(settings.allow_singletons()) => {
            return Err(Error::usage(
                "--ranks starts threads, but a launcher has started processes already",
                "use --ranks without mpirun and srun, or these without --ranks",
            ));
        }
        Some(_) => World::Alone,
        None => World::start(Some(&settings), args.mpi).map_err(|failed| failed.error)?,
    };
    if args.mpi && world.mpi().is_none() {
        world.end();
        return Err(launcher::told_by_one(Error::usage(
            "there is no MPI to measure: no launcher of MPI has started this program",
            "start it with mpirun, as mpirun -n 2 kolo tune --mpi",
        )));
    }
    if args.ranks.is_none() && world.processes() == 1 {
        world.end();
        return Err(Error::usage(
            "there is one rank, and so nothing to measure",
            "start kolo tune with mpirun or srun, or use --ranks N for threads of one process",
        ));
    }
    let result = run_ranks(args, &world);
    match &result {
        Ok(()) => world.end(),
        Err(error) if world.mpi().is_some() => {
            // The other processes may wait for this one for ever.
            eprintln!("{error}");
            world.abort();
        }
        Err(_) => (),
    }
    result
}

fn run_ranks(args: &TuneArgs, world: &World) -> Result<()> {
    let ranks = args.ranks.map(|ranks| ranks.to_string());
    let mut words = vec!["tune", "all_reduce"];
    words.extend(ranks.iter().flat_map(|ranks| ["--ranks", ranks]));
    let meet = Meet::try_parse_from(words)
        .map_err(|error| Error::internal(format!("the options of a meeting: {error}")))?
        .perf;
    let mut meetings = team::meetings_in(&meet, world, &[])?.into_iter();
    // MPI belongs to the main thread, so the first rank of the process does too.
    let first = meetings.next();
    std::thread::scope(|scope| {
        let others: Vec<_> = meetings
            .map(|meeting| scope.spawn(|| one_rank(meeting, args, &meet, None)))
            .collect();
        let mut result = match first {
            Some(meeting) => one_rank(meeting, args, &meet, world.mpi()),
            None => Ok(()),
        };
        for other in others {
            let other = other
                .join()
                .unwrap_or_else(|_| Err(Error::internal("a rank panicked")));
            result = result.and(other);
        }
        result
    })
}

fn one_rank(meeting: Meeting, args: &TuneArgs, meet: &PerfArgs, mpi: Option<&Mpi>) -> Result<()> {
    let member = Member::join(meeting, None, meet, mpi)?;
    let result = match mpi.filter(|_| args.mpi) {
        Some(mpi) => BesideMpi::new(&member, args, mpi).and_then(|mut tuning| tuning.run()),
        None => Tuning::new(&member, args).and_then(|mut tuning| tuning.run()),
    };
    match result {
        Ok(()) => {
            member.comm.destroy()?;
            member.team.destroy()
        }
        Err(error) => {
            member.abort();
            Err(error)
        }
    }
}

/// One rank's part of it.
struct Tuning<'a> {
    member: &'a Member,
    args: &'a TuneArgs,
    measured: Measured,
    /// Nodes and ranks of a node.
    place: (u32, u32),
    send: Buffer,
    recv: Buffer,
    bar: Option<ProgressBar>,
}

/// One point to be measured.
#[derive(Clone, Copy)]
struct Point {
    row: &'static engine::Collective,
    collective: Collective,
    algorithm: Algorithm,
    protocol: ProtocolChoice,
    size: u64,
}

/// Larger data over flagged lines are not measured: each byte is copied twice more, and lines only
/// save latency.
const LINES_BYTES: u64 = 256 << 10;

impl<'a> Tuning<'a> {
    fn new(member: &'a Member, args: &'a TuneArgs) -> Result<Tuning<'a>> {
        if args.min_bytes == 0 || args.min_bytes > args.max_bytes {
            return Err(Error::argument(
                format!("sizes from {} to {}", args.min_bytes, args.max_bytes),
                "give -b and -e, as -b 8 -e 16M",
            ));
        }
        let is_zero = member.team.rank() == 0;
        let known = if is_zero && !args.restart {
            read(&args.output)
        } else {
            Ok(Measured::default())
        };
        // All ranks learn whether rank 0 can go on.
        let bad = member.sum(u64::from(known.is_err()))?;
        let measured = known?;
        if bad > 0 {
            return Err(Error::usage(
                "rank 0 cannot continue its file",
                "look at the message of rank 0",
            ));
        }
        let table = member.comm.tuner()?;
        let machine = &table.inputs().setting.machine;
        let place = (machine.nodes, machine.per_node);
        let room = args.max_bytes as usize + 4096;
        Ok(Tuning {
            member,
            args,
            measured,
            place,
            send: Buffer::new(room, BufferKind::Private)?,
            recv: Buffer::new(room, BufferKind::Private)?,
            bar: None,
        })
    }

    fn run(&mut self) -> Result<()> {
        let points = self.points()?;
        if self.member.team.rank() == 0 {
            self.bar = Some(tuned::bar(points.len() as u64));
        }
        let way = |point: &Point| (point.algorithm, point.protocol);
        let mut ways: Vec<_> = points.iter().map(way).collect();
        ways.dedup();
        for wanted in ways {
            let of: Vec<_> = points.iter().filter(|p| way(p) == wanted).collect();
            let comm = self.communicator(wanted)?;
            let mut collective = None;
            for point in of {
                if collective.replace(point.collective) != Some(point.collective) {
                    self.write()?;
                }
                self.measure(&comm, point)?;
            }
            comm.destroy()?;
            self.write()?;
        }
        if self.member.team.rank() == 0 {
            self.finish()?;
        }
        self.member.barrier()
    }

    /// Points that are still to be measured, by algorithm; rank 0 knows.
    fn points(&self) -> Result<Vec<Point>> {
        let nranks = self.member.comm.nranks();
        let mut all = Vec::new();
        let mut algorithms: Vec<Algorithm> = REGISTRY.iter().map(|e| e.algorithm).collect();
        algorithms.sort_unstable();
        algorithms.dedup();
        let protocols = |algorithm| ProtocolChoice::ALL.map(|protocol| (algorithm, protocol));
        for (algorithm, protocol) in algorithms.into_iter().flat_map(protocols) {
            for row in COLLECTIVES.iter().filter(|row| self.args.wants(row)) {
                let entry = REGISTRY.iter().find(|entry| {
                    entry.algorithm == algorithm
                        && entry.collective.name().to_lowercase() == row.name.replace('_', "")
                });
                let possible = |entry: &&Entry| {
                    nranks <= entry.most_ranks
                        && protocol.is_possible(entry.collective, algorithm, nranks)
                };
                let Some(entry) = entry.filter(possible) else {
                    continue;
                };
                let sizes = self.sizes(row).into_iter();
                let worth = |size: &u64| !protocol.is_lines() || *size <= LINES_BYTES;
                all.extend(sizes.filter(worth).map(|size| Point {
                    row,
                    collective: entry.collective,
                    algorithm,
                    protocol,
                    size,
                }));
            }
        }
        let known = |point: &Point| {
            let has = |channels| {
                let series = self.series(point, channels);
                self.measured.has(&series, self.bytes(point))
            };
            (1..=64).any(has)
        };
        let mut wanted: Vec<u8> = all.iter().map(|p| u8::from(!known(p))).collect();
        self.member.team.broadcast(&mut wanted, 0)?;
        let kept = all
            .into_iter()
            .zip(wanted)
            .filter(|(_, wanted)| *wanted != 0);
        Ok(kept.map(|(point, _)| point).collect())
    }

    fn sizes(&self, row: &engine::Collective) -> Vec<u64> {
        if row.sizeless {
            return vec![0];
        }
        self.args
            .sizes()
            .filter(|&size| (row.counts)(size as usize / UNIT, &self.seat()).call > 0)
            .collect()
    }

    fn counts(&self, point: &Point) -> Counts {
        (point.row.counts)(point.size as usize / UNIT, &self.seat())
    }

    fn seat(&self) -> Seat {
        Seat {
            rank: self.member.comm.rank(),
            nranks: self.member.comm.nranks(),
            root: 0,
        }
    }

    /// Bytes of the call's count.
    fn bytes(&self, point: &Point) -> usize {
        if point.row.sizeless {
            0
        } else {
            self.counts(point).call * UNIT
        }
    }

    fn series(&self, point: &Point, channels: u16) -> Series {
        Series {
            collective: point.collective,
            algorithm: point.algorithm,
            protocol: point.protocol,
            channels,
            nodes: self.place.0,
            per_node: self.place.1,
            points: Vec::new(),
        }
    }

    /// A communicator of all ranks that may use nothing but this algorithm over this protocol.
    fn communicator(&self, (algorithm, over): (Algorithm, ProtocolChoice)) -> Result<Communicator> {
        let set = |key: &str, value: &str| (key.to_string(), value.to_string());
        let config = CommConfig {
            name: Some(format!("tune-{}-{}", algorithm.name(), over.name())),
            overrides: vec![
                set("algo", algorithm.name()),
                set("proto", over.name()),
                set("tuner_file", ""),
                // Times are those of slots: where buffers lie differs from call to call.
                set("direct", "false"),
            ],
            ..CommConfig::default()
        };
        let key = self.member.comm.rank() as i32;
        let comm = self.member.comm.split(Some(0), key, &config)?;
        comm.ok_or_else(|| Error::internal("a split with a color gave nothing"))
    }

    fn measure(&mut self, comm: &Communicator, point: &Point) -> Result<()> {
        let choice = comm.tuner()?.choose(point.collective, self.bytes(point));
        let is_wanted = (choice.algorithm, choice.protocol) == (point.algorithm, point.protocol);
        if is_wanted && !choice.composed {
            if let Some(bar) = &self.bar {
                let (name, size) = (point.row.name, point.size);
                let (algorithm, over) = (point.algorithm.name(), point.protocol.name());
                bar.set_message(format!("{algorithm} {over} {name} {size}"));
            }
            let time_ns = self.time(comm, point)?;
            let series = self.series(point, choice.channels);
            let bytes = self.bytes(point);
            self.measured.add(series, bytes, time_ns);
        }
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
        Ok(())
    }

    /// The median of some batches, as the slowest rank saw them.
    fn time(&self, comm: &Communicator, point: &Point) -> Result<f64> {
        const BATCHES: u32 = 5;
        let counts = self.counts(point);
        let call = || {
            (point.row.run)(&Run {
                collective: point.row.kolo,
                comm,
                stream: None,
                graph: None,
                send: self.send.place(),
                recv: self.recv.place(),
                counts: &counts,
                dtype: DataType::Float32,
                op: RedOp::SUM,
                seat: self.seat(),
                in_place: false,
            })
        };
        let batch = |calls: u32| {
            self.member.barrier()?;
            let begun = clock::now();
            for _ in 0..calls {
                call()?;
            }
            let mine = begun.elapsed().as_secs_f64() * 1e9 / f64::from(calls);
            let all = self.member.of_all(mine)?;
            Ok(all.into_iter().fold(0.0, f64::max))
        };
        batch(2)?;
        // Every rank has the same time, and so makes the same number of calls.
        let once: f64 = batch(2)?;
        let budget = f64::from(self.args.milliseconds) * 1e6 / f64::from(BATCHES);
        let calls = (budget / once).clamp(1.0, 1000.0) as u32;
        let mut times = (0..BATCHES)
            .map(|_| batch(calls))
            .collect::<Result<Vec<f64>>>()?;
        times.sort_by(f64::total_cmp);
        Ok(times[times.len() / 2].max(1.0))
    }

    /// Writes what there is, so that another run can go on from it.
    fn write(&self) -> Result<()> {
        if self.member.team.rank() != 0 {
            return Ok(());
        }
        tuned::replace(&self.args.output, &self.measured.to_toml())
    }

    /// Fits the costs, and says how the file is used.
    fn finish(&mut self) -> Result<()> {
        let mut base = self.member.comm.tuner()?.inputs().setting.clone();
        base.costs = self.member.comm.assumed_costs();
        let here = self.place;
        // Only this arrangement is known as a machine; others keep their part in the file.
        let mut fitted = self.measured.of_arrangement(here.0, here.1);
        fitted.fit(|_| base.clone());
        self.measured.factors = fitted.factors;
        self.measured.machine = Some(facts::machine());
        self.write()?;
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        tuned::report(
            &self.args.output,
            self.args.json,
            &self.measured,
            self.place,
        );
        Ok(())
    }
}

/// Bytes of the elements that are measured.
const UNIT: usize = 4;

fn read(path: &Path) -> Result<Measured> {
    match input_file::text(path, measured::MOST_BYTES as u64) {
        Ok(text) => Measured::from_toml(&text, &path.display().to_string()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Measured::default()),
        Err(error) => Err(input_file::refused(
            format!("{} cannot be read", path.display()),
            &error,
            "name another file with -o",
        )),
    }
}
