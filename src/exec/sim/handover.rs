//! Costs of a step for its core, and the way of tokens and credits between the ranks.

use super::job::Job;
use super::links::LinkTable;
use super::path::NO_ACTION;
use super::queue::{Event, EventQueue, Time, picoseconds};
use super::ranks::{AllRanks, FlatStep, KEEP, LOCAL, RUN, WithoutSlot};
use crate::plan::StepOp;
use crate::price::{Cached, Carrier, Level};
use crate::wire::pair::STRAIGHT_BYTES;

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

/// Tokens and credits on their way between the ranks.
pub(super) struct HandOvers<'a> {
    job: &'a Job,
    cached: Cached,
    pub ranks: AllRanks,
    /// Entry `wire * depth + token % depth`: when the token arrived, or its slot was given back,
    /// and by which action.
    pub times: Vec<Time>,
    pub by: Vec<u32>,
    pub depth: usize,
    pub links: LinkTable,
    pub queue: EventQueue,
    flights: Vec<Flight>,
    /// Numbers of flights that have ended.
    idle_flights: Vec<u32>,
}

/// Operands that the core of a step writes itself.
#[derive(Default)]
struct CoreWrites {
    /// Anything.
    any: bool,
    /// Operands in its own buffers.
    own: u64,
}

impl<'a> HandOvers<'a> {
    pub fn new(job: &'a Job, ranks: AllRanks) -> HandOvers<'a> {
        let geometry = &job.geometry;
        let slots = (geometry.slots / geometry.slice_steps).max(1) as u64;
        let depth = slots.min(ranks.most_tokens.max(1)) as usize;
        let entries = ranks.wires.len() * depth;
        HandOvers {
            job,
            cached: job.cached(),
            times: vec![0; entries],
            by: vec![NO_ACTION; entries],
            depth,
            links: LinkTable::new(&job.machine),
            queue: EventQueue::default(),
            flights: Vec::new(),
            idle_flights: Vec::new(),
            ranks,
        }
    }

    /// Time of the core for the operands of a step, and when shared links have brought the bytes.
    pub fn moves(&mut self, flat: &FlatStep, rank: u32, bytes: u64, start: Time) -> (f64, Time) {
        let costs = &self.job.costs;
        let without = if bytes >= STRAIGHT_BYTES as u64 {
            flat.without_slot
        } else {
            WithoutSlot::default()
        };
        let (write_ns, mut work_ns, writes) = self.writes(flat, without, bytes);
        let mut byte_ns = write_ns;
        let mut fetched = start;
        let mut own = writes.own;
        for number in 0..u32::from(flat.srcs) {
            let source = self.ranks.operands[(flat.operands + number) as usize];
            if source == LOCAL {
                if writes.any {
                    byte_ns += costs.read_ns;
                    own += 1;
                }
                continue;
            }
            let wire = &self.ranks.wires[(source & !KEEP) as usize];
            let (writer, is_shown) = (wire.writer, wire.is_shown);
            let level = self.job.machine.level(writer, rank);
            let cost = costs.level(level);
            work_ns += cost.overhead_ns;
            match cost.carrier {
                // Where the core writes it elsewhere too, it reads it first.
                Carrier::Wire if without.from_far && !writes.any => byte_ns += cost.carry_ns,
                Carrier::Wire => byte_ns += costs.read_ns + cost.carry_ns,
                Carrier::Reader => {
                    byte_ns += cost.byte_ns;
                    let pair = (writer, rank, level);
                    let stays = if is_shown {
                        self.cached.buffers
                    } else {
                        self.cached.tokens
                    };
                    fetched = fetched.max(self.links.fetch(pair, start, bytes, stays, costs));
                }
            }
        }
        if own > 0 && !self.cached.buffers {
            fetched = fetched.max(self.links.memory(rank, start, own * bytes, costs));
        }
        if flat.step.op == StepOp::Fold {
            byte_ns += costs.fold_ns * f64::from(flat.srcs.saturating_sub(1));
        }
        (work_ns + byte_ns * bytes as f64, fetched)
    }

    /// Time of the core a byte, and beside bytes, for what a step writes.
    fn writes(&self, flat: &FlatStep, without: WithoutSlot, bytes: u64) -> (f64, f64, CoreWrites) {
        let write_ns = self.job.costs.write_ns;
        let (mut byte_ns, mut work_ns) = (0.0, 0.0);
        let mut writes = CoreWrites::default();
        for number in 0..u32::from(flat.dsts) {
            let at = flat.operands + u32::from(flat.srcs) + number;
            let target = self.ranks.operands[at as usize];
            work_ns += self.publishing_ns(target, bytes);
            let goes_without = match self.ranks.targets(target).next() {
                None => without.from_far,
                Some(_) if target & RUN != 0 => false,
                Some(wire) => {
                    let wire = &self.ranks.wires[wire];
                    match self.job.machine.level(wire.writer, wire.reader) {
                        Level::Network => without.far,
                        _ => without.near,
                    }
                }
            };
            if !goes_without {
                writes.any = true;
                writes.own += u64::from(target == LOCAL);
                byte_ns += write_ns;
            }
        }
        (byte_ns, work_ns, writes)
    }

    /// Overhead of publishing: once for all readers that fetch the token themselves, and once for
    /// each token that goes over links.
    fn publishing_ns(&self, target: u32, bytes: u64) -> f64 {
        let mut shared: f64 = 0.0;
        let mut sent = 0.0;
        for wire in self.ranks.targets(target) {
            let wire = &self.ranks.wires[wire];
            let level = self.job.machine.level(wire.writer, wire.reader);
            let cost = self.job.costs.level(level);
            match cost.carrier {
                Carrier::Reader => shared = shared.max(cost.overhead_ns),
                Carrier::Wire => sent += cost.overhead_ns + bytes as f64 * cost.carry_ns,
            }
            if target & RUN == 0 {
                break;
            }
        }
        shared + sent
    }

    pub fn hand_over(&mut self, flat: &FlatStep, bytes: u64, end: Time, action: u32) {
        for number in 0..u32::from(flat.dsts) {
            let at = flat.operands + u32::from(flat.srcs) + number;
            let target = self.ranks.operands[at as usize];
            // Readers of a line that were served before, by level.
            let mut served = [0u32; 4];
            for wire in self.ranks.targets(target) {
                self.publish(wire as u32, bytes, &mut served, end, action);
            }
        }
        for number in 0..u32::from(flat.srcs) {
            let source = self.ranks.operands[(flat.operands + number) as usize];
            if source != LOCAL && source & KEEP == 0 {
                self.release(source, end, action);
            }
        }
    }

    fn publish(&mut self, wire: u32, bytes: u64, served: &mut [u32; 4], end: Time, action: u32) {
        let state = &mut self.ranks.wires[wire as usize];
        state.sent += 1;
        let level = self.job.machine.level(state.writer, state.reader);
        let cost = self.job.costs.level(level);
        self.links.count(level, bytes);
        match cost.carrier {
            Carrier::Reader => {
                let before = &mut served[level as usize];
                let waits_ns = f64::from(*before) * cost.gap_ns;
                *before += 1;
                let time = end + picoseconds(cost.latency_ns + waits_ns);
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
    pub fn pass_link(&mut self, number: u32, now: Time) {
        let flight = self.flights[number as usize];
        let wire = &self.ranks.wires[flight.wire as usize];
        let (writer, reader) = (wire.writer, wire.reader);
        let level = self.job.machine.level(writer, reader);
        let cost = self.job.costs.level(level);
        let (link, is_last) = self
            .links
            .hop(writer, reader, wire.channel, flight.hop as usize);
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
        let state = &mut self.ranks.wires[wire as usize];
        let entry = wire as usize * self.depth + state.arrived as usize % self.depth;
        state.arrived += 1;
        self.times[entry] = time;
        self.by[entry] = action;
        if std::mem::take(&mut state.reader_waits) {
            self.queue.push(time, Event::Lane(state.reader_lane));
        }
    }

    fn release(&mut self, wire: u32, end: Time, action: u32) {
        let state = &mut self.ranks.wires[wire as usize];
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
    /// Bytes that all of it takes.
    pub fn memory_bytes(&self) -> usize {
        self.ranks.memory_bytes()
            + self.times.len() * (size_of::<Time>() + size_of::<u32>())
            + self.flights.len() * size_of::<Flight>()
            + self.links.memory_bytes()
            + self.queue.memory_bytes()
    }
}
