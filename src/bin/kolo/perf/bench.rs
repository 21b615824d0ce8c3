//! Measuring one call: buffers, time, and whether the result is right.
//!
//! One measurement is an untimed run, a barrier, the timed iterations, and then runs on fresh data
//! that are checked. The timed iterations walk through the buffers where the data is smaller than
//! they are, so that caches help no more than in a program.

mod against;
pub mod measure;
mod timed;

use super::calls::grouped;
use super::case::Case;
use super::clock::seconds;
use super::content;
use super::device::{PlacedBuffer, RankDevice};
use super::engine::{Collective, Run};
use super::inputs::Inputs;
use super::layout::Counts;
use super::operation::Operation;
use super::options::PerfArgs;
use super::seat::Seat;
use super::team::Member;
use super::way::Ways;
use crate::launcher::Mpi;
use kolo::base::Result;
use kolo::comm::Inspect;
use kolo::comm::RawCalls;
use kolo::comm::{Graph, RedOp, Stream};
use kolo::cuda::DeviceGraph;
use kolo::dtype::ReduceOp;
use kolo::dtype::known::{POISON, Pattern};
use std::cell::Cell;
use std::time::Duration;

/// Bytes behind the receive buffer that must stay as they were.
const GUARD: usize = 256;

/// A rank's buffers and what it measures with them.
pub struct Bench<'a> {
    member: &'a Member,
    args: &'a PerfArgs,
    row: &'static Collective,
    mpi: Option<&'a Mpi>,
    stream: Option<Stream>,
    graph: Option<Graph>,
    ways: Ways,
    /// Where the buffers lie, unless on the host.
    device: Option<RankDevice>,
    send: PlacedBuffer,
    recv: PlacedBuffer,
    most_bytes: usize,
    same_host: bool,
    repetition: u64,
    replayed_steps: Cell<u64>,
}

/// Calls that were captured, and not made.
struct CapturedCalls {
    graph: DeviceGraph,
    /// Steps of one launch, which the communicator has counted once as planned.
    steps: u64,
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
        if self.in_place {
            (self.counts.send_at, self.counts.recv_at)
        } else {
            (0, 0)
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
        let device = member.device.map(RankDevice::new).transpose()?;
        let stream = match &device {
            Some(device) => Some(device.calls()),
            None => args.on_stream().then(Stream::new).transpose()?,
        };
        let buffer = || PlacedBuffer::new(room, args.buffers(), (&member.comm, device.as_ref()));
        let (send, recv) = (buffer()?, buffer()?);
        let ring = || member.comm.cartesian(&[nranks], &[true]);
        Ok(Bench {
            member,
            args,
            row: args.collective,
            mpi,
            stream,
            ways: Ways::new(&member.comm, args.collective)?,
            graph: args.collective.along_graph().then(ring).transpose()?,
            device,
            send,
            recv,
            most_bytes,
            same_host,
            repetition: 0,
            replayed_steps: Cell::new(0),
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
        self.prepare(&placed)?;
        for _ in 0..iterations {
            self.once(&placed, 0)?;
        }
        self.finish(&placed)
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
        let base = if placed.in_place {
            self.recv.place()
        } else {
            self.send.place()
        };
        Run {
            collective: self.row.kolo,
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
        match &self.device {
            Some(device) => device.stream().synchronize(),
            None => self.stream.as_ref().map_or(Ok(()), Stream::synchronize),
        }
    }

    /// The calls of `body` as a graph, where graphs are measured.
    fn captured(&self, body: impl FnOnce() -> Result<()>) -> Result<Option<CapturedCalls>> {
        let on = self.device.as_ref().filter(|_| self.args.replays() > 0);
        let Some(on) = on else { return Ok(None) };
        let planned = || self.member.comm.step_counts().map(|(_, planned)| planned);
        let before = planned()?;
        let graph = on.capture(body)?;
        let steps = planned()? - before;
        Ok(Some(CapturedCalls { graph, steps }))
    }

    /// Steps of the launches of graphs beyond the first one of each.
    pub fn replayed_steps(&self) -> u64 {
        self.replayed_steps.get()
    }

    /// Launches the graph so often, or without one makes the calls. Waits for nothing.
    fn begin(
        &self,
        captured: Option<&CapturedCalls>,
        times: u32,
        calls: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        match (captured, &self.device) {
            (Some(captured), Some(on)) => {
                (0..times).try_for_each(|_| captured.graph.launch(on.stream().id()))?;
                let more = captured.steps * u64::from(times.saturating_sub(1));
                self.replayed_steps.set(self.replayed_steps.get() + more);
            }
            _ => calls()?,
        }
        Ok(())
    }

    /// One call, until its result is there.
    fn once(&self, placed: &Placed, shift: usize) -> Result<()> {
        (self.row.run)(&self.run(placed, shift))?;
        self.synchronize()
    }

    /// Begins one iteration: a call, or a group of them.
    fn issue(&self, placed: &Placed, iteration: u32) -> Result<()> {
        let (bytes, most) = (placed.bytes(), self.most_bytes);
        let call = |call: u32| (self.row.run)(&self.run(placed, start_of(call, bytes, most)));
        match self.args.aggregate {
            1 => call(iteration)?,
            calls => grouped(|| (0..calls).try_for_each(|n| call(iteration * calls + n)))?,
        }
        let args = self.args;
        if args.replays() > 0 {
            // A capture has nothing to wait for.
            return Ok(());
        }
        match args.waits_for_each() {
            true => self.synchronize().and_then(|()| self.member.barrier()),
            false if args.on_stream() => Ok(()),
            // On the host such a call has waited already.
            false => self.synchronize(),
        }
    }

    fn data(&self, placed: &Placed) -> Inputs {
        data_of(&placed.case, placed.seat.nranks, self.repetition)
    }

    /// First byte of the data in both buffers.
    fn first(&self, placed: &Placed) -> usize {
        self.args.unalign as usize * placed.unit()
    }

    fn write_input(&mut self, placed: &Placed, input: &Pattern) -> Result<()> {
        let from = self.first(placed) + placed.starts().0 * placed.unit();
        let bytes = placed.counts.send * placed.unit();
        let buffer = if placed.in_place {
            &mut self.recv
        } else {
            &mut self.send
        };
        input.fill(0, buffer.bytes(from, bytes));
        buffer.push(self.device.as_ref(), from, bytes)
    }

    /// Poisons the receive buffer and writes this repetition's data.
    fn prepare(&mut self, placed: &Placed) -> Result<()> {
        let (first, bytes) = (self.first(placed), placed.bytes());
        self.recv.bytes(first, bytes + GUARD).fill(POISON);
        let on = self.device.as_ref();
        self.recv.push(on, first, bytes + GUARD)?;
        let input = self
            .data(placed)
            .input(placed.seat.rank, placed.counts.send);
        self.write_input(placed, &input)
    }

    /// Runs the call on fresh data and counts the wrong elements of all ranks.
    fn check(&mut self, placed: &Placed) -> Result<u64> {
        self.repetition += 1;
        if self.row.sizeless {
            return self.check_barrier(placed);
        }
        self.prepare(placed)?;
        let call = || (self.row.run)(&self.run(placed, 0));
        self.begin(self.captured(call)?.as_ref(), 1, call)?;
        self.synchronize()?;
        let wrong = self.wrong(placed)?;
        self.member.sum(wrong)
    }

    /// Nobody may leave before everybody has entered, which the clock that all ranks of a machine
    /// share can tell. Ranks enter at different times, in turn.
    fn check_barrier(&mut self, placed: &Placed) -> Result<u64> {
        let ranks = u64::from(placed.seat.nranks);
        let late = (u64::from(placed.seat.rank) + self.repetition) % ranks;
        self.member.barrier()?;
        std::thread::sleep(Duration::from_micros(100 * late));
        let entered = seconds();
        self.once(placed, 0)?;
        let left = seconds();
        let groups = self.member.of_all(self.member.color)?;
        let times = self.member.of_all(entered)?;
        let mine = self.member.color;
        let all = times.iter().zip(&groups);
        let too_early = all
            .filter(|&(_, group)| *group == mine)
            .any(|(&entered, _)| left < entered);
        self.member.sum(u64::from(too_early))
    }

    fn wrong(&mut self, placed: &Placed) -> Result<u64> {
        let data = self.data(placed);
        let (first, length) = (self.first(placed), placed.bytes() + GUARD);
        self.recv.fetch(self.device.as_ref(), first, length)?;
        let memory = self.recv.bytes(first, length);
        let (seat, counts) = (&placed.seat, &placed.counts);
        let in_place = placed.in_place;
        Ok(content::wrong(
            self.row, seat, counts, in_place, &data, memory,
        ))
    }
}

/// Where a timed call begins in buffers of `most` bytes: each call behind the one before it, until
/// there is no room, and then from the start again.
fn start_of(call: u32, bytes: usize, most: usize) -> usize {
    let places = most.checked_div(bytes).unwrap_or(1).max(1);
    bytes * (call as usize % places)
}

fn data_of(case: &Case, nranks: u32, repetition: u64) -> Inputs {
    Inputs::new(case.dtype, case.op, nranks, repetition)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timed_calls_walk_through_the_buffers() {
        let starts = |bytes| [0, 1, 2, 3, 4].map(|call| start_of(call, bytes, 100));
        assert_eq!(starts(30), [0, 30, 60, 0, 30]);
        assert_eq!(starts(100), [0; 5]);
        // Gaps between blocks may take more than the size asked for.
        assert_eq!(starts(109), [0; 5]);
        assert_eq!(starts(0), [0; 5]);
    }
}
