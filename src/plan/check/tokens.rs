//! Part (a): no deadlock. The network is run at the executor's granularity.
//!
//! For each event of a lane and each of its slices, all source connections must hold a token and
//! all destination connections must have credit; then one token is published on each destination
//! and one released from each source (unless it is kept). A lane that cannot go on waits for one
//! connection and is woken by it. Which lane runs first does not matter (the network is a Kahn
//! network), so one run decides; and more capacity cannot hurt, which the grid test confirms.
//!
//! Two rules of credit: a token's slot is free *immediately* when the slowest reader has released
//! it, or, for one-shot plans whose slots are reused by whole calls, when every reader has
//! *completed the call*. Direct connections must use the first rule: there a call completes only
//! after its regions are released, and with the second rule each end would wait for the other.

use super::net::{Block, Event, NONE, Net};
use super::report::{Counterexample, link_text};
use std::collections::VecDeque;
use std::fmt::Write;

/// When the slot of a token that was read may be written again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// As soon as the slowest reader has released it.
    Immediate,
    /// When every reader has completed the call.
    CallEnd,
}

/// One call of the sequence that is run.
#[derive(Clone, Copy)]
pub(super) struct Call {
    pub block: usize,
    /// Rounds of all lanes; 0: each plan has its own.
    pub rounds: u32,
    pub slices: u32,
    pub release: Release,
}

#[derive(Clone, Copy)]
struct LaneState {
    event: u32,
    round: u32,
    slice: u32,
    /// The next port to look at; those before it are known to be ready.
    port: u32,
    predecessors: u32,
}

#[derive(Clone, Copy)]
struct WireState {
    sent: u32,
    freed: u32,
    writer_waits: u32,
}

#[derive(Clone, Copy)]
struct EndState {
    received: u32,
    released: u32,
    reader_waits: u32,
}

/// One slot: the content of its token and how many readers still hold it.
#[derive(Clone, Copy, Default)]
struct Slot {
    tag: u64,
    holders: u32,
}

#[derive(Clone, Copy)]
struct RankState {
    call: u32,
    open_lanes: u32,
}

/// A run of a sequence of calls.
pub(super) struct Run<'n, 'a> {
    net: &'n Net<'a>,
    calls: &'n [Call],
    capacity: u32,
    lanes: Vec<LaneState>,
    wires: Vec<WireState>,
    ends: Vec<EndState>,
    slots: Vec<Slot>,
    ranks: Vec<RankState>,
    ready: VecDeque<u32>,
    unfinished: u32,
}

/// Bits of the fields of a tag: call 12, round 12, slice 8, content 32.
fn tag(call: u32, round: u32, slice: u32, carries: u32) -> u64 {
    u64::from(call & 0xfff) << 52
        | u64::from(round & 0xfff) << 40
        | u64::from(slice & 0xff) << 32
        | u64::from(carries)
}

impl<'n, 'a> Run<'n, 'a> {
    /// Nothing has run yet; every connection holds `capacity` tokens.
    pub fn new(net: &'n Net<'a>, calls: &'n [Call], capacity: u32) -> Run<'n, 'a> {
        let lane = LaneState {
            event: 0,
            round: 0,
            slice: 0,
            port: 0,
            predecessors: 0,
        };
        let wire = WireState {
            sent: 0,
            freed: 0,
            writer_waits: NONE,
        };
        let end = EndState {
            received: 0,
            released: 0,
            reader_waits: NONE,
        };
        let rank = RankState {
            call: 0,
            open_lanes: 0,
        };
        Run {
            net,
            calls,
            capacity,
            lanes: vec![lane; net.lanes.len()],
            wires: vec![wire; net.wires.len()],
            ends: vec![end; net.readers as usize],
            slots: vec![Slot::default(); net.wires.len() * capacity as usize],
            ranks: vec![rank; net.nranks as usize],
            ready: VecDeque::new(),
            unfinished: net.nranks,
        }
    }

    /// Runs until nothing moves. True: all ranks completed all calls. `observe` sees every slice
    /// of every event as it is done.
    pub fn run(&mut self, mut observe: impl FnMut(u32)) -> Result<bool, Counterexample> {
        for rank in 0..self.net.nranks {
            self.begin_call(rank);
        }
        while let Some(lane) = self.ready.pop_front() {
            self.advance(lane, &mut observe)?;
        }
        Ok(self.unfinished == 0)
    }

    /// Starts the lanes of the rank's next call that has any.
    fn begin_call(&mut self, rank: u32) {
        loop {
            let state = &mut self.ranks[rank as usize];
            let Some(call) = self.calls.get(state.call as usize) else {
                self.unfinished -= 1;
                return;
            };
            let lanes = self.net.blocks[call.block].rank_lanes[rank as usize].clone();
            if lanes.is_empty() {
                state.call += 1;
                continue;
            }
            state.open_lanes = lanes.len() as u32;
            for number in lanes {
                let lane = &self.net.lanes[number as usize];
                self.lanes[number as usize] = LaneState {
                    event: lane.first,
                    round: 0,
                    slice: 0,
                    port: 0,
                    predecessors: lane.predecessors,
                };
                if lane.predecessors == 0 {
                    self.ready.push_back(number);
                }
            }
            return;
        }
    }

    fn end_lane(&mut self, number: u32) {
        let net = self.net;
        let lane = &net.lanes[number as usize];
        let rank = net.instances[lane.instance as usize].rank;
        let call = self.calls[self.ranks[rank as usize].call as usize];
        let block = &net.blocks[call.block];
        let first = block.follows.partition_point(|&(lane, _)| lane < number);
        for &(_, later) in block.follows[first..]
            .iter()
            .take_while(|&&(lane, _)| lane == number)
        {
            let state = &mut self.lanes[later as usize];
            state.predecessors -= 1;
            if state.predecessors == 0 {
                self.ready.push_back(later);
            }
        }
        let state = &mut self.ranks[rank as usize];
        state.open_lanes -= 1;
        if state.open_lanes > 0 {
            return;
        }
        state.call += 1;
        if call.release == Release::CallEnd {
            self.release_all(rank, block);
        }
        self.begin_call(rank);
    }

    /// Gives back every token that the rank has read.
    fn release_all(&mut self, rank: u32, block: &Block) {
        let net = self.net;
        let instances =
            &net.instances[block.instances.start as usize..block.instances.end as usize];
        let first = instances.partition_point(|instance| instance.rank < rank);
        for instance in instances[first..].iter().take_while(|i| i.rank == rank) {
            let readers = instance.readers.start as usize..instance.readers.end as usize;
            for &(connection, reader) in &net.instance_readers[readers] {
                while self.ends[reader as usize].released < self.ends[reader as usize].received {
                    self.release(connection, reader);
                }
            }
        }
    }

    #[inline]
    fn slot(&self, connection: u32, token: u32) -> usize {
        connection as usize * self.capacity as usize + (token % self.capacity) as usize
    }

    #[inline]
    fn release(&mut self, connection: u32, reader: u32) {
        let end = &mut self.ends[reader as usize];
        let token = end.released;
        end.released += 1;
        if self.net.wires[connection as usize].readers > 1 {
            let slot = self.slot(connection, token);
            self.slots[slot].holders -= 1;
            if self.slots[slot].holders > 0 {
                return;
            }
        }
        let wire = &mut self.wires[connection as usize];
        wire.freed = token + 1;
        let writer = std::mem::replace(&mut wire.writer_waits, NONE);
        if writer != NONE {
            self.ready.push_back(writer);
        }
    }

    #[inline]
    fn publish(&mut self, connection: u32, tag: u64) {
        let net = self.net;
        let wire = &net.wires[connection as usize];
        let token = self.wires[connection as usize].sent;
        let slot = self.slot(connection, token);
        self.slots[slot] = Slot {
            tag,
            holders: wire.readers,
        };
        self.wires[connection as usize].sent += 1;
        for reader in wire.first_reader..wire.first_reader + wire.readers {
            let end = &mut self.ends[reader as usize];
            let lane = std::mem::replace(&mut end.reader_waits, NONE);
            if lane != NONE {
                self.ready.push_back(lane);
            }
        }
    }

    /// Whether all ports of the event are ready; if not, the lane is noted where it waits.
    #[inline]
    fn is_ready(&mut self, number: u32, state: &mut LaneState, event: &Event) -> bool {
        let net = self.net;
        let (srcs, dsts) = (net.srcs(event), net.dsts(event));
        while let Some(port) = srcs.get(state.port as usize) {
            let needed = if port.keep { state.slice + 1 } else { 1 };
            let end = &mut self.ends[port.reader as usize];
            if self.wires[port.connection as usize].sent - end.received < needed {
                end.reader_waits = number;
                return false;
            }
            state.port += 1;
        }
        while let Some(port) = dsts.get(state.port as usize - srcs.len()) {
            let wire = &mut self.wires[port.connection as usize];
            if wire.sent - wire.freed >= self.capacity {
                wire.writer_waits = number;
                return false;
            }
            state.port += 1;
        }
        true
    }

    /// Runs a lane until it must wait or has ended.
    fn advance(
        &mut self,
        number: u32,
        observe: &mut impl FnMut(u32),
    ) -> Result<(), Counterexample> {
        let net = self.net;
        let lane = &net.lanes[number as usize];
        let instance = &net.instances[lane.instance as usize];
        let call_number = self.ranks[instance.rank as usize].call;
        let call = self.calls[call_number as usize];
        let rounds = match call.rounds {
            0 => instance.rounds,
            rounds => rounds,
        };
        let mut state = self.lanes[number as usize];
        loop {
            let event = &net.events[state.event as usize];
            if !self.is_ready(number, &mut state, event) {
                self.lanes[number as usize] = state;
                return Ok(());
            }
            let tag = tag(call_number, state.round, state.slice, event.carries);
            for port in net.srcs(event) {
                let token = self.ends[port.reader as usize].received;
                let ahead = if port.keep { state.slice } else { 0 };
                let found = self.slots[self.slot(port.connection, token + ahead)].tag;
                if found != tag {
                    return Err(self.mismatch(state.event, port.connection, tag, found));
                }
                if !port.keep {
                    self.ends[port.reader as usize].received += 1;
                    if call.release == Release::Immediate {
                        self.release(port.connection, port.reader);
                    }
                }
            }
            for port in net.dsts(event) {
                self.publish(port.connection, tag);
            }
            observe(state.event);
            state.port = 0;
            state.slice += 1;
            if state.slice < call.slices {
                continue;
            }
            state.slice = 0;
            state.event += 1;
            if state.event < lane.end {
                continue;
            }
            state.event = lane.first;
            state.round += 1;
            if state.round == rounds {
                self.end_lane(number);
                return Ok(());
            }
        }
    }

    fn mismatch(&self, event: u32, connection: u32, wanted: u64, found: u64) -> Counterexample {
        let text = |tag: u64| {
            let content = self.net.contents.text(tag as u32);
            format!(
                "call {}, round {}, slice {}, holding {content}",
                tag >> 52,
                tag >> 40 & 0xfff,
                tag >> 32 & 0xff,
            )
        };
        let link = link_text(self.net.wires[connection as usize].link);
        let message = format!("expects {} on {link}, finds {}", text(wanted), text(found));
        self.net.fault(event, message)
    }

    /// Returns the token or slot that a lane waits for, and the connection.
    fn waits_for(&self, number: u32) -> (String, u32, bool) {
        let net = self.net;
        let state = &self.lanes[number as usize];
        let event = &net.events[state.event as usize];
        let (srcs, dsts) = (net.srcs(event), net.dsts(event));
        if let Some(port) = srcs.get(state.port as usize) {
            let wire = &net.wires[port.connection as usize];
            let text = format!("waits for a token on {}", link_text(wire.link));
            return (text, port.connection, true);
        }
        let port = dsts[state.port as usize - srcs.len()];
        let wire = &net.wires[port.connection as usize];
        let text = format!(
            "waits for credit on {} ({} of {} tokens not released)",
            link_text(wire.link),
            self.wires[port.connection as usize].sent - self.wires[port.connection as usize].freed,
            self.capacity
        );
        (text, port.connection, false)
    }

    /// A lane of `rank`'s current call that has started and has not ended.
    fn blocked_lane(&self, waiting: &[bool], rank: u32, connection: Option<u32>) -> Option<u32> {
        let call = self.calls.get(self.ranks[rank as usize].call as usize)?;
        let block = &self.net.blocks[call.block];
        let lanes = block.rank_lanes[rank as usize].clone();
        let is_waiting = |&lane: &u32| waiting[lane as usize];
        let uses = |&lane: &u32| {
            let events = self.net.lanes[lane as usize].first..self.net.lanes[lane as usize].end;
            connection.is_none_or(|wanted| {
                events.clone().any(|event| {
                    let event = &self.net.events[event as usize];
                    let ports = self.net.srcs(event).iter().chain(self.net.dsts(event));
                    ports.clone().any(|port| port.connection == wanted)
                })
            })
        };
        lanes.filter(is_waiting).find(uses)
    }

    /// The counterexample of a run that did not complete: the circle of lanes that wait.
    pub fn deadlock(&self) -> Counterexample {
        let net = self.net;
        let writers = self.wires.iter().map(|wire| wire.writer_waits);
        let readers = self.ends.iter().map(|end| end.reader_waits);
        let mut waiting = vec![false; net.lanes.len()];
        for lane in writers.chain(readers).filter(|&lane| lane != NONE) {
            waiting[lane as usize] = true;
        }
        let stuck = |rank: &u32| (self.ranks[*rank as usize].call as usize) < self.calls.len();
        let blocked = (0..net.nranks)
            .filter(stuck)
            .find_map(|rank| self.blocked_lane(&waiting, rank, None));
        let Some(first) = blocked else {
            unreachable!("a rank with an unfinished call has a lane that waits");
        };
        let mut message = format!("deadlock with {} tokens a connection: ", self.capacity);
        let mut seen = Vec::new();
        let mut lane = first;
        loop {
            let (text, connection, for_token) = self.waits_for(lane);
            let state = &self.lanes[lane as usize];
            let rank = net.instances[net.lanes[lane as usize].instance as usize].rank;
            let _ = write!(
                message,
                "{} (call {}, round {}, slice {}) {text}; ",
                net.place(state.event),
                self.ranks[rank as usize].call,
                state.round,
                state.slice
            );
            seen.push(lane);
            let other = self.other_side(connection, for_token);
            match self.blocked_lane(&waiting, other, Some(connection)) {
                Some(next) if seen.contains(&next) => {
                    let at = net.place(self.lanes[next as usize].event);
                    let _ = write!(message, "which brings us back to {at}");
                    break;
                }
                Some(next) if seen.len() < 6 => lane = next,
                Some(_) => {
                    message.push_str("and so on");
                    break;
                }
                None => {
                    let _ = write!(message, "and rank {other} does not get there");
                    break;
                }
            }
        }
        net.fault(self.lanes[first as usize].event, message)
    }

    /// The rank that must act: the writer, or the slowest reader.
    fn other_side(&self, connection: u32, for_token: bool) -> u32 {
        let wire = &self.net.wires[connection as usize];
        if for_token {
            return wire.link.writer();
        }
        let readers = wire.first_reader..wire.first_reader + wire.readers;
        let slowest = readers.min_by_key(|&reader| self.ends[reader as usize].released);
        self.net
            .reader_rank(wire, slowest.unwrap_or(wire.first_reader))
    }
}
