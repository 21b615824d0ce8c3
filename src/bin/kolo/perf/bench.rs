//! Measuring one call: buffers, time, and whether the result is right.
//!
//! One measurement is an untimed run, a barrier, the timed iterations, and then runs on fresh data
//! that are checked. The timed iterations walk through the buffers where the data is smaller than
//! they are, so that caches help no more than in a program.

use super::calls::grouped;
use super::content;
use super::data::{POISON, Pattern};
use super::engine::{Collective, Run, Seat};
use super::inputs::Inputs;
use super::layout::Counts;
use super::memory::Buffer;
use super::operation::Operation;
use super::options::{PerfArgs, TimeOf};
use super::team::Member;
use crate::launcher::{Mpi, mpi_result};
use kolo::base::Result;
use kolo::bootstrap::mpi_abi::MPI_NOT_SUPPORTED;
use kolo::comm::{Graph, RedOp, Stream};
use kolo::dtype::{DataType, ReduceOp};
use std::time::Duration;

/// Bytes behind the receive buffer that must stay as they were.
const GUARD: usize = 256;
/// Measurements of each side of a comparison; the medians count.
const SAMPLES: usize = 5;

/// One line of the table.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Size asked for, in bytes.
    pub bytes: u64,
    /// Type of the elements.
    pub dtype: DataType,
    /// The operation, where the call reduces.
    pub op: Option<Operation>,
    /// The root, where there is one.
    pub root: Option<u32>,
}

/// What was measured of one side of a line.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Time of one call, in microseconds.
    pub time_us: f64,
    /// Size by time, in 10^9 bytes per second.
    pub algbw: f64,
    /// The same times the factor of the collective.
    pub busbw: f64,
    /// Wrong elements on all ranks, where it was checked.
    pub wrong: Option<u64>,
    /// The comparison, where it was asked for and the other side can do it.
    pub rival: Option<Versus>,
}

/// kolo and another implementation side by side.
#[derive(Clone, Debug)]
pub struct Versus {
    /// Times of kolo in microseconds, in the order they were taken.
    pub kolo_us: Vec<f64>,
    /// Those of the other, taken in turns.
    pub rival_us: Vec<f64>,
}

/// The middle of some numbers.
pub fn median(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

impl Versus {
    /// The other's median time over kolo's: above 1, kolo is faster.
    pub fn ratio(&self) -> f64 {
        median(&self.rival_us) / median(&self.kolo_us)
    }

    /// Distance of the extremes of the ratios of neighbouring measurements, as part of the ratio.
    pub fn spread(&self) -> f64 {
        let ratios = self.kolo_us.iter().zip(&self.rival_us).map(|(k, r)| r / k);
        let (mut least, mut most) = (f64::INFINITY, 0f64);
        for ratio in ratios {
            (least, most) = (least.min(ratio), most.max(ratio));
        }
        (most - least) / self.ratio()
    }
}

/// A rank's buffers and what it measures with them.
pub struct Bench<'a> {
    member: &'a Member,
    args: &'a PerfArgs,
    row: &'static Collective,
    mpi: Option<&'a Mpi>,
    stream: Option<Stream>,
    graph: Option<Graph>,
    send: Buffer,
    recv: Buffer,
    most_bytes: usize,
    same_host: bool,
    repetition: u64,
}

/// Bytes of the largest element.
const MOST_BYTES: usize = 16;

/// A case with its buffers placed.
struct Placed {
    case: Case,
    in_place: bool,
    counts: Counts,
    seat: Seat,
    op: RedOp,
}

impl Placed {
    fn unit(&self) -> usize {
        self.case.dtype.size_bytes()
    }

    /// Bytes that the call may use of each buffer.
    fn bytes(&self) -> usize {
        self.counts.extent() * self.unit()
    }

    /// First element of the send buffer in its memory, and of the receive buffer in its own.
    fn starts(&self) -> (usize, usize) {
        match self.in_place {
            true => (self.counts.send_at, self.counts.recv_at),
            false => (0, 0),
        }
    }
}

impl<'a> Bench<'a> {
    /// Allocates buffers for data of up to `most_bytes`.
    ///
    /// # Errors
    /// No memory.
    pub fn new(
        member: &'a Member,
        args: &'a PerfArgs,
        mpi: Option<&'a Mpi>,
        (most_bytes, same_host): (u64, bool),
    ) -> Result<Bench<'a>> {
        let most_bytes = most_bytes as usize;
        let nranks = member.comm.nranks();
        let beside = args.unalign as usize + Counts::most_gaps(nranks);
        let room = most_bytes + beside * MOST_BYTES + GUARD;
        let ring = || member.comm.cartesian(&[nranks], &[true]);
        Ok(Bench {
            member,
            args,
            row: args.collective,
            mpi,
            stream: match args.blocking {
                0 => Some(Stream::new()?),
                _ => None,
            },
            graph: args.collective.along_graph.then(ring).transpose()?,
            send: Buffer::new(room, args.register > 0)?,
            recv: Buffer::new(room, args.register > 0)?,
            most_bytes,
            same_host,
            repetition: 0,
        })
    }

    /// Elements of the size that the case has, which the table shows: (bytes, count).
    pub fn shown(&self, case: &Case) -> (usize, usize) {
        let counts = self.counts(case);
        (counts.size * case.dtype.size_bytes(), counts.call)
    }

    fn counts(&self, case: &Case) -> Counts {
        let elements = case.bytes as usize / case.dtype.size_bytes();
        (self.row.counts)(elements, &self.seat(case))
    }

    fn seat(&self, case: &Case) -> Seat {
        Seat {
            rank: self.member.comm.rank(),
            nranks: self.member.comm.nranks(),
            root: case.root.unwrap_or(0),
        }
    }

    /// Runs `warmup` iterations without looking at them.
    ///
    /// # Errors
    /// kolo's.
    pub fn warm_up(&mut self, case: Case, iterations: u32) -> Result<()> {
        let placed = self.place(case, false)?;
        self.prepare(&placed);
        for _ in 0..iterations {
            self.once(&placed, 0)?;
        }
        self.finish(&placed)
    }

    /// Measures one side of a line; `None` where the collective has no in-place form.
    ///
    /// # Errors
    /// kolo's, MPI's.
    pub fn measure(&mut self, case: Case, in_place: bool) -> Result<Option<Outcome>> {
        if in_place && !self.row.in_place {
            return Ok(None);
        }
        let placed = self.place(case, in_place)?;
        self.repetition += 1;
        self.prepare(&placed);
        self.once(&placed, 0)?;
        let rival = match self.mpi {
            Some(mpi) => self.versus(&placed, mpi)?,
            None => None,
        };
        let time_us = match &rival {
            Some(versus) => median(&versus.kolo_us),
            None => self.time(&placed)?,
        };
        let mut wrong = 0;
        for _ in 0..self.args.checks {
            wrong += self.check(&placed)?;
        }
        let checkable = self.args.checks > 0 && (self.same_host || !self.row.sizeless);
        self.finish(&placed)?;
        let size = placed.counts.size * placed.unit();
        let algbw = size as f64 / 1e3 / time_us;
        Ok(Some(Outcome {
            time_us,
            algbw,
            busbw: algbw * (self.row.busy)(f64::from(placed.seat.nranks)),
            wrong: checkable.then_some(wrong),
            rival,
        }))
    }

    fn place(&self, case: Case, in_place: bool) -> Result<Placed> {
        let comm = &self.member.comm;
        let seat = self.seat(&case);
        let op = match case.op.map(Operation::handle) {
            None => RedOp::SUM,
            Some(Some(op)) => op,
            Some(None) => {
                let scalar = data_of(&case, seat.nranks, 0).scalar_bytes(seat.rank);
                comm.pre_mul_sum(&scalar, case.dtype)?
            }
        };
        Ok(Placed {
            case,
            in_place,
            counts: self.counts(&case),
            seat,
            op,
        })
    }

    fn finish(&self, placed: &Placed) -> Result<()> {
        match placed.case.op {
            Some(Operation::Built(ReduceOp::PreMulSum)) => self.member.comm.destroy_op(placed.op),
            _ => Ok(()),
        }
    }

    /// The call, with its data `shift` bytes into the buffers.
    fn run<'b>(&'b self, placed: &'b Placed, shift: usize) -> Run<'b> {
        let unit = placed.unit();
        let shift = shift + self.args.unalign as usize * unit;
        let (send, recv) = placed.starts();
        let base = match placed.in_place {
            true => self.recv.place(),
            false => self.send.place(),
        };
        Run {
            comm: &self.member.comm,
            stream: self.stream.as_ref(),
            graph: self.graph.as_ref(),
            send: base.wrapping_add(shift + send * unit),
            recv: self.recv.place().wrapping_add(shift + recv * unit),
            counts: &placed.counts,
            dtype: placed.case.dtype,
            op: placed.op,
            seat: placed.seat,
            in_place: placed.in_place,
        }
    }

    fn synchronize(&self) -> Result<()> {
        self.stream.as_ref().map_or(Ok(()), Stream::synchronize)
    }

    /// One call, until its result is there.
    fn once(&self, placed: &Placed, shift: usize) -> Result<()> {
        (self.row.run)(&self.run(placed, shift))?;
        self.synchronize()
    }

    /// Time of one call in microseconds, as the ranks agree on.
    fn time(&self, placed: &Placed) -> Result<f64> {
        let bytes = placed.bytes();
        let places = self.most_bytes.checked_div(bytes).unwrap_or(1).max(1);
        let aggregate = self.args.aggregate;
        let calls = self.args.iterations * aggregate;
        let issue = |call: u32| {
            let shift = bytes * (call as usize % places);
            (self.row.run)(&self.run(placed, shift))
        };
        self.member.barrier()?;
        let start = self.clock();
        for iteration in 0..self.args.iterations {
            match aggregate {
                1 => issue(iteration)?,
                _ => grouped(|| (0..aggregate).try_for_each(|n| issue(iteration * aggregate + n)))?,
            }
        }
        self.synchronize()?;
        let passed = self.clock() - start;
        self.agree(passed * 1e6 / f64::from(calls))
    }

    /// Seconds on the clock that was chosen.
    fn clock(&self) -> f64 {
        seconds(match self.args.processor_time {
            0 => libc::CLOCK_MONOTONIC,
            _ => libc::CLOCK_THREAD_CPUTIME_ID,
        })
    }

    /// One time out of those of all ranks.
    fn agree(&self, mine: f64) -> Result<f64> {
        let all = self.member.gather(mine)?;
        Ok(match self.args.time_of() {
            TimeOf::RankZero => all[0],
            TimeOf::Average => all.iter().sum::<f64>() / all.len() as f64,
            TimeOf::Least => all.iter().copied().fold(f64::INFINITY, f64::min),
            TimeOf::Most => all.iter().copied().fold(0.0, f64::max),
        })
    }

    /// kolo and MPI in turns, the data written anew before every call; `None` where MPI lacks the
    /// type or the operation.
    fn versus(&mut self, placed: &Placed, mpi: &Mpi) -> Result<Option<Versus>> {
        self.prepare(placed);
        match (self.row.mpi)(mpi, &self.run(placed, 0)) {
            MPI_NOT_SUPPORTED => return Ok(None),
            code => mpi_result(code, self.row.name)?,
        }
        let (mut kolo_us, mut rival_us) = (Vec::new(), Vec::new());
        for _ in 0..SAMPLES {
            kolo_us.push(self.time_rewritten(placed, |bench| bench.once(placed, 0))?);
            rival_us.push(self.time_rewritten(placed, |bench| {
                let code = (bench.row.mpi)(mpi, &bench.run(placed, 0));
                mpi_result(code, bench.row.name)
            })?);
        }
        Ok(Some(Versus { kolo_us, rival_us }))
    }

    /// Time of one call in microseconds, where every call finds freshly written data.
    fn time_rewritten(
        &mut self,
        placed: &Placed,
        call: impl Fn(&Self) -> Result<()>,
    ) -> Result<f64> {
        let input = self
            .data(placed)
            .input(placed.seat.rank, placed.counts.send);
        let mut passed = 0.0;
        self.member.barrier()?;
        for _ in 0..self.args.iterations {
            self.write_input(placed, &input);
            let start = self.clock();
            call(self)?;
            passed += self.clock() - start;
        }
        self.agree(passed * 1e6 / f64::from(self.args.iterations))
    }

    fn data(&self, placed: &Placed) -> Inputs {
        data_of(&placed.case, placed.seat.nranks, self.repetition)
    }

    /// First byte of the data in both buffers.
    fn first(&self, placed: &Placed) -> usize {
        self.args.unalign as usize * placed.unit()
    }

    fn write_input(&mut self, placed: &Placed, input: &Pattern) {
        let from = self.first(placed) + placed.starts().0 * placed.unit();
        let bytes = placed.counts.send * placed.unit();
        let buffer = match placed.in_place {
            true => &mut self.recv,
            false => &mut self.send,
        };
        input.fill(0, buffer.bytes(from, bytes));
    }

    /// Poisons the receive buffer and writes this repetition's data.
    fn prepare(&mut self, placed: &Placed) {
        let (first, bytes) = (self.first(placed), placed.bytes());
        self.recv.bytes(first, bytes + GUARD).fill(POISON);
        let input = self
            .data(placed)
            .input(placed.seat.rank, placed.counts.send);
        self.write_input(placed, &input);
    }

    /// Runs the call on fresh data and counts the wrong elements of all ranks.
    fn check(&mut self, placed: &Placed) -> Result<u64> {
        self.repetition += 1;
        if self.row.sizeless {
            return self.check_barrier(placed);
        }
        self.prepare(placed);
        self.once(placed, 0)?;
        let wrong = self.wrong(placed);
        self.member.sum(wrong)
    }

    /// Nobody may leave before everybody has entered, which the clock that all ranks of a machine
    /// share can tell. Ranks enter at different times, in turn.
    fn check_barrier(&mut self, placed: &Placed) -> Result<u64> {
        let ranks = u64::from(placed.seat.nranks);
        let late = (u64::from(placed.seat.rank) + self.repetition) % ranks;
        self.member.barrier()?;
        std::thread::sleep(Duration::from_micros(100 * late));
        let entered = seconds(libc::CLOCK_MONOTONIC);
        self.once(placed, 0)?;
        let left = seconds(libc::CLOCK_MONOTONIC);
        let groups = self.member.gather(self.member.color)?;
        let times = self.member.gather(entered)?;
        let mine = self.member.color;
        let all = times.iter().zip(&groups);
        let too_early = all
            .filter(|&(_, group)| *group == mine)
            .any(|(&entered, _)| left < entered);
        self.member.sum(u64::from(too_early))
    }

    fn wrong(&mut self, placed: &Placed) -> u64 {
        let data = self.data(placed);
        let memory = self.recv.bytes(self.first(placed), placed.bytes() + GUARD);
        let (seat, counts) = (&placed.seat, &placed.counts);
        content::wrong(self.row, seat, counts, placed.in_place, &data, memory)
    }
}

fn data_of(case: &Case, nranks: u32, repetition: u64) -> Inputs {
    Inputs::new(case.dtype, case.op, nranks, repetition)
}

/// Seconds on one of the system's clocks.
fn seconds(which: libc::clockid_t) -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the place holds a timespec; both clocks exist on Linux.
    unsafe { libc::clock_gettime(which, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
