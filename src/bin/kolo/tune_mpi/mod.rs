//! `kolo tune --mpi`: measures the MPI of the job beside kolo, and writes which calls of MPI
//! programs stay with it ([`kolo::tune::mpi_table`]), for `libkolo_pmpi.so` to read.
//!
//! kolo and MPI run by turns in the same processes, on the same buffers, which are written anew
//! before each call. All points are measured in one series, and then all again in a second one: a
//! disturbance of the machine rarely meets a point twice. MPI is faster where it is so in both, by
//! 5 %. Ranks that share cores are measured as they are.

mod faster;

use crate::facts;
use crate::launcher::{self, Mpi, mpi_result};
use crate::names;
use crate::out;
use crate::perf::clock::seconds;
use crate::perf::engine::{self, Run};
use crate::perf::layout::Counts;
use crate::perf::memory::{Buffer, BufferKind};
use crate::perf::rows::COLLECTIVES;
use crate::perf::seat::Seat;
use crate::perf::team::Member;
use crate::tune_args::TuneArgs;
use crate::tuned;
use faster::SeriesTook;
use indicatif::ProgressBar;
use kolo::base::{Error, Result, input_file};
use kolo::comm::Inspect;
use kolo::comm::RedOp;
use kolo::dtype::DataType;
use kolo::tune::mpi_table::{self, NAMES, NodeCores, StayRow, StaySection, StayTable};
use serde_json::json;
use std::path::Path;

/// Turns of both in a series; the median counts.
const TURNS: usize = 7;
const SERIES: usize = 2;
/// Calls of each side before the first turn, which make connections and pages.
const WARM: u32 = 2;
const MOST_CALLS: f64 = 1000.0;
/// Bytes of the elements that are measured.
const UNIT: usize = 4;
/// Of so many points one may differ between the series before the machine counts as busy.
const QUIET: usize = 10;
/// A rank's buffers are no larger: among many ranks the largest sizes of blocks are left out.
const MOST_ROOM: usize = 64 << 20;

/// The collective of kolo that does the work of one of MPI's.
fn row_of(name: &str) -> Option<&'static engine::Collective> {
    // MPI's has a count for each block.
    let of_blocks = "reduce_scatter_v";
    match name {
        "reduce_scatter" => COLLECTIVES.iter().find(|row| row.name == of_blocks),
        name => names::collective(name).ok(),
    }
}

/// A collective of one size.
#[derive(Clone, Copy)]
struct MpiPoint {
    /// Which one of [`NAMES`].
    collective: usize,
    row: &'static engine::Collective,
    /// In bytes, as the drop-in counts them.
    size: u64,
}

/// The part of one rank.
pub struct BesideMpi<'a> {
    member: &'a Member,
    args: &'a TuneArgs,
    mpi: &'a Mpi,
    points: Vec<MpiPoint>,
    /// The one that the file had, on rank 0.
    table: StayTable,
    send: Buffer,
    recv: Buffer,
    bar: Option<ProgressBar>,
}

impl<'a> BesideMpi<'a> {
    /// Finds out what is to be measured.
    ///
    /// # Errors
    /// Ranks on several nodes, nothing to measure, a file that is no such table, no memory.
    pub fn new(member: &'a Member, args: &'a TuneArgs, mpi: &'a Mpi) -> Result<BesideMpi<'a>> {
        let seat = Seat {
            rank: member.comm.rank(),
            nranks: member.comm.nranks(),
            root: 0,
        };
        if member.comm.tuner()?.inputs().setting.machine.nodes > 1 {
            return Err(launcher::told_by_one(Error::usage(
                "the ranks are on several nodes, and libkolo_pmpi.so takes calls within one",
                "start kolo tune --mpi on one node",
            )));
        }
        let points = points(args, &seat);
        if points.is_empty() {
            return Err(launcher::told_by_one(Error::argument(
                "nothing is left to measure: no collective of MPI, or no size",
                "give other names with -c, and sizes as -b 8 -e 1M",
            )));
        }
        let known = if seat.rank == 0 && !args.restart {
            read(&args.output)
        } else {
            Ok(StayTable::default())
        };
        // All ranks learn whether rank 0 can go on.
        let bad = member.sum(u64::from(known.is_err()))?;
        let table = known?;
        if bad > 0 {
            let error = Error::usage("rank 0 cannot continue its file", "look at its message");
            return Err(error.told_elsewhere(true));
        }
        let extent = |point: &MpiPoint| counts(point, &seat).extent() * UNIT;
        let room = points.iter().map(extent).max().unwrap_or(0) + UNIT;
        Ok(BesideMpi {
            member,
            args,
            mpi,
            points,
            table,
            send: Buffer::new(room, BufferKind::Private)?,
            recv: Buffer::new(room, BufferKind::Private)?,
            bar: None,
        })
    }

    /// Measures; rank 0 writes the file and says what it has found.
    ///
    /// # Errors
    /// kolo's, MPI's, a file that cannot be written.
    pub fn run(&mut self) -> Result<()> {
        let is_zero = self.member.team.rank() == 0;
        if is_zero {
            self.bar = Some(tuned::bar((SERIES * self.points.len()) as u64));
        }
        let points = self.points.clone();
        let mut series: Vec<Vec<SeriesTook>> = Vec::new();
        for _ in 0..SERIES {
            let each = points.iter().map(|point| self.measure(point));
            series.push(each.collect::<Result<_>>()?);
        }
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        if is_zero {
            let of: Vec<(usize, u64)> = points.iter().map(|p| (p.collective, p.size)).collect();
            self.finish(faster::judged(&of, &series), faster::restless(&series))?;
        }
        self.member.barrier()
    }

    fn seat(&self) -> Seat {
        Seat {
            rank: self.member.comm.rank(),
            nranks: self.member.comm.nranks(),
            root: 0,
        }
    }

    /// Both by turns, as often as the time allows.
    fn measure(&mut self, point: &MpiPoint) -> Result<SeriesTook> {
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{} {}", NAMES[point.collective], point.size));
        }
        let both = |it: &mut Self, calls| -> Result<[f64; 2]> {
            Ok([it.turn(point, calls, false)?, it.turn(point, calls, true)?])
        };
        both(self, WARM)?;
        // Every rank has the same times, and so makes the same number of calls.
        let once: f64 = both(self, WARM)?.iter().sum();
        let budget = f64::from(self.args.milliseconds) * 1e6 / TURNS as f64;
        let calls = (budget / once.max(1.0)).clamp(1.0, MOST_CALLS) as u32;
        let turns = (0..TURNS).map(|_| both(self, calls));
        let turns = turns.collect::<Result<Vec<_>>>()?;
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
        Ok(SeriesTook {
            kolo_ns: median(turns.iter().map(|[kolo, _]| *kolo)),
            mpi_ns: median(turns.iter().map(|[_, mpi]| *mpi)),
            lead: median(turns.iter().map(|[kolo, mpi]| kolo / mpi)),
        })
    }

    /// Nanoseconds of one call of kolo or MPI, as the slowest rank saw them.
    fn turn(&mut self, point: &MpiPoint, calls: u32, by_mpi: bool) -> Result<f64> {
        let counts = counts(point, &self.seat());
        self.member.barrier()?;
        let mut passed = 0.0;
        for call in 0..calls {
            self.write(point, &counts, call);
            let run = self.call(point, &counts);
            let begun = seconds();
            if by_mpi {
                mpi_result((point.row.mpi)(self.mpi, &run), point.row.name)?
            } else {
                (point.row.run)(&run)?
            }
            passed += seconds() - begun;
        }
        let mine = passed * 1e9 / f64::from(calls);
        let all = self.member.of_all(mine)?;
        Ok(all.into_iter().fold(1.0, f64::max))
    }

    /// Writes what this rank gives to a call.
    fn write(&mut self, point: &MpiPoint, counts: &Counts, call: u32) {
        let rank = self.member.comm.rank();
        let source = match has_one_buffer(point) {
            true if rank != 0 => return,
            true => &mut self.recv,
            false => &mut self.send,
        };
        // Small whole numbers, whose sums are exact.
        let first = rank * 7 + call * 3;
        let words = source.bytes(0, counts.send * UNIT).chunks_exact_mut(UNIT);
        for (index, word) in (first..).zip(words) {
            word.copy_from_slice(&((index & 63) as f32).to_ne_bytes());
        }
    }

    fn call<'b>(&'b self, point: &MpiPoint, counts: &'b Counts) -> Run<'b> {
        let in_place = has_one_buffer(point);
        Run {
            collective: point.row.kolo,
            comm: &self.member.comm,
            stream: None,
            graph: None,
            send: if in_place {
                self.recv.place()
            } else {
                self.send.place()
            },
            recv: self.recv.place(),
            counts,
            dtype: DataType::Float32,
            op: RedOp::SUM,
            seat: self.seat(),
            in_place,
        }
    }

    fn finish(&mut self, rows: Vec<StayRow>, restless: usize) -> Result<()> {
        let section = StaySection {
            mpi: mpi_table::name_of(&self.mpi.version()),
            ranks: self.member.comm.nranks(),
            cores: NodeCores::Exactly(facts::machine().cpus),
            rows,
        };
        self.table.put(section.clone());
        let path = &self.args.output;
        tuned::replace(path, &self.table.print())?;
        if self.args.json {
            out::json(&document(path, &section, restless))
        } else {
            tell(path, &section)
        }
        let points = self.points.len();
        if restless > points / QUIET && !self.args.json {
            out::line(&format!(
                "The machine was busy: at {restless} of {points} points the two series differ by \
                 half and more. Measure again when it is quiet."
            ));
        }
        Ok(())
    }
}

/// MPI has one buffer for it, so kolo is measured with one.
fn has_one_buffer(point: &MpiPoint) -> bool {
    NAMES[point.collective] == "bcast"
}

/// Everything that is to be measured; all ranks come to the same.
fn points(args: &TuneArgs, seat: &Seat) -> Vec<MpiPoint> {
    let mut all = Vec::new();
    for (collective, name) in NAMES.iter().enumerate() {
        let Some(row) = row_of(name).filter(|row| args.wants(row)) else {
            continue;
        };
        let point = |size| MpiPoint {
            collective,
            row,
            size,
        };
        if row.sizeless {
            all.push(point(0));
            continue;
        }
        let is_possible = |point: &MpiPoint| {
            let counts = counts(point, seat);
            counts.call > 0 && counts.extent() * UNIT <= MOST_ROOM
        };
        all.extend(args.sizes().map(point).filter(is_possible));
    }
    all
}

fn counts(point: &MpiPoint, seat: &Seat) -> Counts {
    let blocks = if mpi_table::counts_blocks(point.collective) {
        seat.n()
    } else {
        1
    };
    (point.row.counts)(point.size as usize / UNIT * blocks, seat)
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

fn read(path: &Path) -> Result<StayTable> {
    let refused = |error: &std::io::Error| {
        let doing = format!("{} cannot be read", path.display());
        input_file::refused(doing, error, "name another file with -o")
    };
    let text = match input_file::text(path, mpi_table::MOST_BYTES as u64) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(refused(&error)),
    };
    if text.trim().is_empty() {
        Ok(StayTable::default())
    } else {
        StayTable::parse(&text).map_err(|why| wrong(path, &why))
    }
}

/// A table that cannot be used.
pub fn wrong(path: &Path, why: &str) -> Error {
    Error::usage(
        format!("the table in {} cannot be used: {why}", path.display()),
        "mend the line, or write the file anew with `kolo tune --mpi --restart`",
    )
}

fn tell(path: &Path, section: &StaySection) {
    let stay = section.rows.iter().filter(|row| row.stays != 0);
    let stay: Vec<String> = stay
        .map(|row| {
            let sizes = mpi_table::words(row.collective, row.stays);
            format!("  {:<22}{sizes}", NAMES[row.collective])
        })
        .collect();
    let faster = if stay.is_empty() {
        "of none".to_string()
    } else {
        format!("of {}, at these sizes", stay.len())
    };
    out::line(&format!(
        "{}: {} collectives on {} ranks; {} is faster {faster}",
        path.display(),
        section.rows.len(),
        section.ranks,
        section.mpi
    ));
    stay.iter().for_each(|line| out::line(line));
    out::line(&format!(
        "Set pmpi_table = \"{}\" in a kolo.toml, or KOLO_PMPI_TABLE, so that libkolo_pmpi.so \
         leaves these to MPI.",
        tuned::absolute(path).display()
    ));
}

fn document(path: &Path, section: &StaySection, restless: usize) -> serde_json::Value {
    let rows = section.rows.iter().map(|row| {
        let points = row.times.iter().map(|one| {
            let [kolo_ns, mpi_ns] = [one.kolo_us, one.mpi_us].map(|us| us * 1e3);
            json!({"bytes": one.bytes, "kolo_ns": kolo_ns, "mpi_ns": mpi_ns})
        });
        json!({
            "collective": NAMES[row.collective],
            "stays": mpi_table::words(row.collective, row.stays),
            "points": points.collect::<Vec<_>>(),
        })
    });
    json!({
        "file": tuned::absolute(path).display().to_string(),
        "mpi": section.mpi,
        "ranks": section.ranks,
        "cpus": facts::machine().cpus,
        "restless_points": restless,
        "collectives": rows.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_collective_of_the_drop_in_is_measured() {
        let rows: Vec<&str> = NAMES
            .iter()
            .map(|name| row_of(name).map_or("", |row| row.name))
            .collect();
        let is_known = |row: &&str| !row.is_empty();
        assert!(rows.iter().all(is_known), "{rows:?}");
        let mut sorted = rows.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), NAMES.len(), "{rows:?}");
    }

    #[test]
    fn sizes_are_those_that_the_drop_in_sees() {
        let seat = Seat {
            rank: 1,
            nranks: 4,
            root: 0,
        };
        let of = |name: &str| {
            let collective = NAMES.iter().position(|known| *known == name).unwrap();
            let row = row_of(name).unwrap();
            let point = MpiPoint {
                collective,
                row,
                size: 64,
            };
            let counts = counts(&point, &seat);
            (counts.send * UNIT, counts.recv * UNIT)
        };
        // One block of 64 bytes for each of 4 ranks.
        assert_eq!(of("gather"), (64, 256));
        assert_eq!(of("scatter"), (256, 64));
        assert_eq!(of("allgather"), (64, 256));
        assert_eq!(of("alltoall"), (256, 256));
        // A vector of 64 bytes.
        assert_eq!(of("allreduce"), (64, 64));
        assert_eq!(of("reduce_scatter_block"), (64, 16));
        assert_eq!(of("reduce_scatter").0, 64);
    }
}
