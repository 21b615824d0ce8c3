//! The event loop.

use super::links::LinkTable;
use super::path::{self, Action, Cause, NO_ACTION};
use super::program::{FlatStep, KEEP, LOCAL, NONE, Program, RUN, token_bytes, tokens};
use super::queue::{Event, Queue, Time, picoseconds};
use super::{Job, Report};
use crate::base::{Error, Rank, Result};
use crate::plan::StepOp;
use crate::plan::machine::Carrier;
use std::collections::VecDeque;

/// Where a lane stands.
#[derive(Clone, Copy)]
struct Cursor {
    round: u64,
    step: u32,
    slice: u32,
    repetition: u16,
    /// Operands of the current action known to be there.
    checked: u32,
    /// When the last of them was, and why.
    ready: Time,
    why: (Cause, u32),
    ended: bool,
}

/// A core serves one lane until that has to wait, then the one that has waited longest.
#[derive(Clone)]
struct Core {
    /// The lane that has it, or is the next to have it.
    holder: u32,
    /// The end of its last action.
    free: Time,
    /// The rank that had it last, and its last action.
    rank: u32,
    action: u32,
    waiting: VecDeque<u32>,
}

/// A token on its way over links.
#[derive(Clone, Copy)]
struct Flight {
    wire: u32,
    hop: u32,
    action: u32,
    bytes: u64,
    /// When its tail left the last link.
    tail: Time,
}

pub(super) struct Engine<'a> {
    job: &'a Job,
    program: Program,
    cursors: Vec<Cursor>,
    cores: Vec<Core>,
    /// Entry `wire * depth + token % depth`: when the token arrived, or its slot was given back,
    /// and by which action.
    times: Vec<Time>,
    by: Vec<u32>,
    depth: usize,
    links: LinkTable,
    queue: Queue,
    flights: Vec<Flight>,
    idle_flights: Vec<u32>,
    actions: Vec<Action>,
    /// The end of each rank's last lane.
    ends: Vec<Time>,
}

impl<'a> Engine<'a> {
    pub fn new(job: &'a Job, program: Program) -> Engine<'a> {
        let geometry = &job.geometry;
        let slots = (geometry.slots / geometry.slice_steps).max(1) as u64;
        let depth = slots.min(program.most_tokens.max(1)) as usize;
        let begin = picoseconds(job.costs.call_ns);
        let cursor = Cursor {
            round: 0,
            step: 0,
            slice: 0,
            repetition: 0,
            checked: 0,
            ready: begin,
            why: (Cause::Call, NO_ACTION),
            ended: false,
        };
        let machine = &job.machine;
        let cores = machine
            .core_of(machine.nranks() - 1)
            .max(machine.nranks() - 1) as usize
            + 1;
        let core = Core {
            holder: NONE,
            free: 0,
            rank: NONE,
            action: NO_ACTION,
            waiting: VecDeque::new(),
        };
        let entries = program.wires.len() * depth;
        Engine {
            job,
            cursors: vec![cursor; program.lanes.len()],
            cores: vec![core; cores],
            times: vec![0; entries],
            by: vec![NO_ACTION; entries],
            depth,
            links: LinkTable::new(machine),
            queue: Queue::default(),
            flights: Vec::new(),
            idle_flights: Vec::new(),
            actions: Vec::with_capacity(program.actions as usize),
            ends: vec![0; machine.nranks() as usize],
            program,
        }
    }

    pub fn run(mut self) -> Result<Report> {
        let begin = picoseconds(self.job.costs.call_ns);
        for lane in 0..self.program.lanes.len() {
            self.queue.push(begin, Event::Lane(lane as u32));
        }
        while let Some((now, event)) = self.queue.pop() {
            match event {
                Event::Lane(lane) => self.advance(lane, now),
                Event::Token(flight) => self.pass_link(flight, now),
            }
        }
        if let Some(lane) = self.cursors.iter().position(|cursor| !cursor.ended) {
            return Err(self.stuck(lane));
        }
        Ok(self.report())
    }

    /// Runs a lane as far as it can at `now`, and on where nothing else happens meanwhile.
    fn advance(&mut self, lane: u32, mut now: Time) {
        let range = {
            let lane = &self.program.lanes[lane as usize];
            (lane.first, lane.end)
        };
        if range.0 == range.1 {
            self.cursors[lane as usize].ended = true;
            return;
        }
        let core = self
            .job
            .machine
            .core_of(self.program.lanes[lane as usize].rank) as usize;
        loop {
            let index = range.0 + self.cursors[lane as usize].step;
            let step = self.program.steps[index as usize];
            if !self.ready(lane, &step) {
                self.leave(core, lane, now);
                return;
            }
            let ready = self.cursors[lane as usize].ready;
            if ready > now {
                self.leave(core, lane, now);
                if !self.queue.is_free_until(ready) {
                    self.queue.push(ready, Event::Lane(lane));
                    return;
                }
                now = ready;
            }
            if !self.takes(core, lane, now) {
                return;
            }
            let (end, action) = self.execute(lane, &step, now);
            let steps = range.1 - range.0;
            if !self.next(lane, &step, steps) {
                let rank = self.program.lanes[lane as usize].rank as usize;
                self.ends[rank] = self.ends[rank].max(end);
                self.leave(core, lane, end);
                return;
            }
            let cursor = &mut self.cursors[lane as usize];
            cursor.checked = 0;
            cursor.ready = end;
            cursor.why = (Cause::Core, action);
            if !self.queue.is_free_until(end) {
                self.queue.push(end, Event::Lane(lane));
                return;
            }
            now = end;
        }
    }

    /// Whether the lane has the core now; if not, it will be woken when it has.
    fn takes(&mut self, core: usize, lane: u32, now: Time) -> bool {
        let core = &mut self.cores[core];
        if core.holder != NONE && core.holder != lane {
            core.waiting.push_back(lane);
            return false;
        }
        core.holder = lane;
        if core.free > now {
            self.queue.push(core.free, Event::Lane(lane));
            return false;
        }
        true
    }

    /// The lane has to wait, or has ended: its core goes to the one that has waited longest.
    fn leave(&mut self, core: usize, lane: u32, now: Time) {
        let core = &mut self.cores[core];
        if core.holder != lane {
            return;
        }
        core.holder = NONE;
        if let Some(next) = core.waiting.pop_front() {
            core.holder = next;
            self.queue.push(now, Event::Lane(next));
        }
    }

    /// Whether all tokens and credits of the step are known; if not, the lane is woken later.
    fn ready(&mut self, lane: u32, step: &FlatStep) -> bool {
        let total = u32::from(step.srcs) + u32::from(step.dsts);
        while self.cursors[lane as usize].checked < total {
            let number = self.cursors[lane as usize].checked;
            let operand = self.program.operands[(step.operands + number) as usize];
            let found = match operand {
                LOCAL => true,
                _ if number < u32::from(step.srcs) => self.await_token(lane, operand & !KEEP),
                _ => self.await_credits(lane, operand),
            };
            if !found {
                return false;
            }
            self.cursors[lane as usize].checked += 1;
        }
        true
    }

    fn await_token(&mut self, lane: u32, wire: u32) -> bool {
        let state = &mut self.program.wires[wire as usize];
        if state.arrived <= state.freed {
            state.reader_waits = true;
            return false;
        }
        let entry = wire as usize * self.depth + state.freed as usize % self.depth;
        self.later(lane, entry, Cause::Token);
        true
    }

    fn await_credits(&mut self, lane: u32, target: u32) -> bool {
        for wire in self.program.targets(target) {
            let state = &mut self.program.wires[wire];
            let depth = self.depth as u32;
            if state.sent >= state.freed + depth {
                state.writer_waits = true;
                return false;
            }
            if state.sent >= depth {
                let entry = wire * self.depth + state.sent as usize % self.depth;
                self.later(lane, entry, Cause::Credit);
            }
        }
        true
    }

    /// The lane is ready no earlier than this entry.
    fn later(&mut self, lane: u32, entry: usize, cause: Cause) {
        let cursor = &mut self.cursors[lane as usize];
        if self.times[entry] > cursor.ready {
            cursor.ready = self.times[entry];
            cursor.why = (cause, self.by[entry]);
        }
    }

    /// Takes the core, publishes and releases. Returns the end and the number of the action.
    fn execute(&mut self, lane: u32, flat: &FlatStep, now: Time) -> (Time, u32) {
        let costs = &self.job.costs;
        let cursor = self.cursors[lane as usize];
        let (rank, bytes) = {
            let lane = &self.program.lanes[lane as usize];
            let window = &self.program.windows[lane.window as usize];
            let place = (lane.chunks, cursor.round, cursor.slice, cursor.repetition);
            let bytes = token_bytes(&flat.step, window, place, self.job.element_bytes);
            (lane.rank, bytes)
        };
        let core = self.job.machine.core_of(rank) as usize;
        let mut why = cursor.why;
        if now > cursor.ready {
            why = (Cause::Core, self.cores[core].action);
        }
        let mut work_ns = costs.step_ns;
        if self.cores[core].rank != rank && self.job.machine.crowded() {
            work_ns += costs.switch_ns;
        }
        let (move_ns, fetched) = self.moves(flat, rank, bytes, now);
        let end = (now + picoseconds(work_ns + move_ns)).max(fetched);
        let action = self.actions.len() as u32;
        self.actions.push(Action::new(lane, end, why));
        let core = &mut self.cores[core];
        (core.free, core.rank, core.action) = (end, rank, action);
        self.hand_over(flat, bytes, end, action);
        (end, action)
    }

    /// Time of the core for the operands of a step, and when shared links have brought the bytes.
    fn moves(&mut self, flat: &FlatStep, rank: u32, bytes: u64, start: Time) -> (f64, Time) {
        let costs = &self.job.costs;
        let mut byte_ns = 0.0;
        let mut work_ns = 0.0;
        let mut fetched = start;
        for number in 0..u32::from(flat.srcs) {
            let source = self.program.operands[(flat.operands + number) as usize];
            if source == LOCAL {
                byte_ns += costs.read_ns;
                continue;
            }
            let writer = self.program.wires[(source & !KEEP) as usize].writer;
            let level = self.job.machine.level(writer, rank);
            let cost = costs.level(level);
            work_ns += cost.overhead_ns;
            match cost.carrier {
                Carrier::Wire => byte_ns += costs.read_ns,
                Carrier::Reader => {
                    byte_ns += cost.byte_ns;
                    let pair = (writer, rank, level);
                    fetched = fetched.max(self.links.fetch(pair, start, bytes, costs));
                }
            }
        }
        for number in 0..u32::from(flat.dsts) {
            let at = flat.operands + u32::from(flat.srcs) + number;
            let target = self.program.operands[at as usize];
            byte_ns += costs.write_ns;
            work_ns += self.publishing_ns(target);
        }
        if flat.step.op == StepOp::Fold {
            byte_ns += costs.fold_ns * f64::from(flat.srcs.saturating_sub(1));
        }
        (work_ns + byte_ns * bytes as f64, fetched)
    }

    /// Overhead of publishing: once for all readers that fetch the token themselves, and once for
    /// each token that goes over links.
    fn publishing_ns(&self, target: u32) -> f64 {
        let mut shared: f64 = 0.0;
        let mut sent = 0.0;
        for wire in self.program.targets(target) {
            let wire = &self.program.wires[wire];
            let level = self.job.machine.level(wire.writer, wire.reader);
            let cost = self.job.costs.level(level);
            match cost.carrier {
                Carrier::Reader => shared = shared.max(cost.overhead_ns),
                Carrier::Wire => sent += cost.overhead_ns,
            }
            if target & RUN == 0 {
                break;
            }
        }
        shared + sent
    }

    fn hand_over(&mut self, flat: &FlatStep, bytes: u64, end: Time, action: u32) {
        for number in 0..u32::from(flat.dsts) {
            let at = flat.operands + u32::from(flat.srcs) + number;
            let target = self.program.operands[at as usize];
            for wire in self.program.targets(target) {
                self.publish(wire as u32, bytes, end, action);
            }
        }
        for number in 0..u32::from(flat.srcs) {
            let source = self.program.operands[(flat.operands + number) as usize];
            if source != LOCAL && source & KEEP == 0 {
                self.release(source, end, action);
            }
        }
    }

    fn publish(&mut self, wire: u32, bytes: u64, end: Time, action: u32) {
        let state = &mut self.program.wires[wire as usize];
        state.sent += 1;
        let level = self.job.machine.level(state.writer, state.reader);
        let cost = self.job.costs.level(level);
        self.links.count(level, bytes);
        match cost.carrier {
            Carrier::Reader => {
                let time = end + picoseconds(cost.latency_ns);
                self.arrive(wire, time, action);
            }
            Carrier::Wire => {
                let flight = Flight {
                    wire,
                    hop: 0,
                    action,
                    bytes,
                    tail: end,
                };
                let number = match self.idle_flights.pop() {
                    Some(number) => {
                        self.flights[number as usize] = flight;
                        number
                    }
                    None => {
                        self.flights.push(flight);
                        self.flights.len() as u32 - 1
                    }
                };
                self.queue.push(end, Event::Token(number));
            }
        }
    }

    /// The head of a token reaches its next link.
    fn pass_link(&mut self, number: u32, now: Time) {
        let flight = self.flights[number as usize];
        let wire = &self.program.wires[flight.wire as usize];
        let (writer, reader) = (wire.writer, wire.reader);
        let level = self.job.machine.level(writer, reader);
        let cost = self.job.costs.level(level);
        let (link, is_last) = self.links.hop(writer, reader, flight.hop as usize);
        let rates = (cost.gap_ns, cost.byte_ns);
        let (head, tail) = self.links.pass(link, now, flight.bytes, rates);
        let tail = tail.max(flight.tail);
        if is_last {
            self.idle_flights.push(number);
            let time = tail + picoseconds(cost.latency_ns);
            self.arrive(flight.wire, time, flight.action);
            return;
        }
        let state = &mut self.flights[number as usize];
        state.hop += 1;
        state.tail = tail;
        if head == now && self.queue.is_free_until(now) {
            self.pass_link(number, now);
        } else {
            self.queue.push(head, Event::Token(number));
        }
    }

    fn arrive(&mut self, wire: u32, time: Time, action: u32) {
        let state = &mut self.program.wires[wire as usize];
        let entry = wire as usize * self.depth + state.arrived as usize % self.depth;
        state.arrived += 1;
        self.times[entry] = time;
        self.by[entry] = action;
        if std::mem::take(&mut state.reader_waits) {
            self.queue.push(time, Event::Lane(state.reader_lane));
        }
    }

    fn release(&mut self, wire: u32, end: Time, action: u32) {
        let state = &mut self.program.wires[wire as usize];
        let level = self.job.machine.level(state.writer, state.reader);
        let time = end + picoseconds(self.job.costs.level(level).latency_ns);
        let entry = wire as usize * self.depth + state.freed as usize % self.depth;
        state.freed += 1;
        self.times[entry] = time;
        self.by[entry] = action;
        if std::mem::take(&mut state.writer_waits) {
            self.queue.push(time, Event::Lane(state.writer_lane));
        }
    }

    /// Moves the cursor on; `false` at the end of the lane.
    fn next(&mut self, lane: u32, flat: &FlatStep, steps: u32) -> bool {
        let window = self.program.lanes[lane as usize].window;
        let window = &self.program.windows[window as usize];
        let cursor = &mut self.cursors[lane as usize];
        cursor.slice += 1;
        if cursor.slice < window.slices() {
            return true;
        }
        cursor.slice = 0;
        cursor.repetition += 1;
        if u64::from(cursor.repetition) < tokens(&flat.step) {
            return true;
        }
        cursor.repetition = 0;
        cursor.step += 1;
        if cursor.step < steps {
            return true;
        }
        cursor.step = 0;
        cursor.round += 1;
        cursor.ended = cursor.round >= window.rounds();
        !cursor.ended
    }

    fn stuck(&self, lane: usize) -> Error {
        let (cursor, lane) = (&self.cursors[lane], &self.program.lanes[lane]);
        let waiting = self.cursors.iter().filter(|cursor| !cursor.ended).count();
        Error::usage(
            format!(
                "the plans never end: lane {} of rank {} waits at step {} of round {}, and {} of \
                 {} lanes with it",
                lane.number,
                lane.rank,
                cursor.step,
                cursor.round,
                waiting - 1,
                self.cursors.len()
            ),
            "run the checker on this algorithm and number of ranks (tests/plans.rs)",
        )
        .at(Rank(lane.rank))
    }

    fn report(self) -> Report {
        let conserved =
            |wire: &super::program::Wire| wire.sent == wire.arrived && wire.arrived == wire.freed;
        debug_assert!(
            self.program.wires.iter().all(conserved),
            "every token that is published arrives and is given back"
        );
        let last = self.ends.iter().copied().max().unwrap_or(0);
        let first = self.ends.iter().copied().min().unwrap_or(0);
        let tokens = self.links.levels.iter().map(|level| level.tokens).sum();
        let memory_bytes = self.program.memory_bytes()
            + self.cursors.len() * size_of::<Cursor>()
            + self.cores.len() * size_of::<Core>()
            + self.times.len() * (size_of::<Time>() + size_of::<u32>())
            + self.flights.len() * size_of::<Flight>()
            + self.actions.len() * size_of::<Action>()
            + self.links.memory_bytes()
            + self.queue.memory_bytes();
        Report {
            time_ns: last as f64 / 1e3,
            first_end_ns: first as f64 / 1e3,
            actions: self.actions.len() as u64,
            tokens,
            levels: self.links.levels,
            links: self.links.loads(),
            path: path::critical(&self.actions, &self.program),
            memory_bytes,
        }
    }
}
