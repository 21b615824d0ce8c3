//! Vector clocks of lanes and tokens (C. Fidge 1988, F. Mattern 1989).
//!
//! A clock has one entry for each lane of its component: how many events of that lane are in the
//! past. Components share no connection, so the clocks of all-to-all stay two entries wide. Clocks
//! of tokens live only while the token is on its way.

use super::net::{Block, Event, NONE, Net, UsedEnd};
use super::order::Order;

/// A token on its way.
#[derive(Clone, Copy)]
pub(super) struct Token {
    /// The event that published it.
    pub event: u32,
    clock: u32,
    holders: u32,
    /// Place of its value in user memory, out of place and in place.
    pub region: [u32; 2],
}

/// The clocks of a block while its events pass by in order.
pub(super) struct Clocks<'n, 'a> {
    net: &'n Net<'a>,
    pub block: &'n Block,
    order: &'n Order,
    clocks: Vec<u32>,
    start: Vec<usize>,
    sequence: Vec<u32>,
    /// Clocks of tokens of the component at hand, and which of them are free.
    token_clocks: Vec<u32>,
    free: Vec<u32>,
    pub tokens: Vec<Token>,
    sent: Vec<u32>,
    received: Vec<u32>,
    component: u32,
}

impl<'n, 'a> Clocks<'n, 'a> {
    pub fn new(net: &'n Net<'a>, block: &'n Block, order: &'n Order) -> Clocks<'n, 'a> {
        let mut start = Vec::with_capacity(order.component.len());
        let mut total = 0;
        for &component in &order.component {
            start.push(total);
            total += order.width[component as usize] as usize;
        }
        let token = Token {
            event: NONE,
            clock: NONE,
            holders: 0,
            region: [NONE; 2],
        };
        Clocks {
            net,
            block,
            order,
            clocks: vec![0; total],
            start,
            sequence: vec![0; order.component.len()],
            token_clocks: Vec::new(),
            free: Vec::new(),
            tokens: vec![token; block.sends.len()],
            sent: vec![0; net.wires.len()],
            received: vec![0; net.readers as usize],
            component: NONE,
        }
    }

    /// The lane of an event, counted from the first of the block.
    pub fn lane_of(&self, event: u32) -> usize {
        (self.net.events[event as usize].lane - self.block.lanes.start) as usize
    }

    /// Lanes of an instance, counted from the first of the block.
    pub fn lanes(&self, lanes: &std::ops::Range<u32>) -> std::ops::Range<usize> {
        let first = self.block.lanes.start;
        (lanes.start - first) as usize..(lanes.end - first) as usize
    }

    fn width(&self, lane: usize) -> usize {
        self.order.width[self.order.component[lane] as usize] as usize
    }

    /// Events done by a lane.
    pub fn sequence(&self, lane: usize) -> u32 {
        self.sequence[lane]
    }

    /// The clock of a lane.
    pub fn of_lane(&self, lane: usize) -> &[u32] {
        &self.clocks[self.start[lane]..self.start[lane] + self.width(lane)]
    }

    /// The clock of a token that is on its way between lanes of `lane`'s component.
    pub fn of_token(&self, token: &Token, lane: usize) -> &[u32] {
        let width = self.width(lane);
        let start = token.clock as usize * width;
        &self.token_clocks[start..start + width]
    }

    /// Whether an earlier event is in the past of `clock`, a clock of `lane`'s component.
    #[inline]
    pub fn is_past(&self, event: u32, sequence: u32, lane: usize, clock: &[u32]) -> bool {
        let other = self.lane_of(event);
        self.order.component[other] == self.order.component[lane]
            && clock[self.order.position[other] as usize] >= sequence
    }

    /// Whether `clock`, a clock of `lane`'s component, has seen any event of lane `other`.
    pub fn has_seen(&self, other: usize, lane: usize, clock: &[u32]) -> bool {
        self.order.component[other] == self.order.component[lane]
            && clock[self.order.position[other] as usize] > 0
    }

    /// Lanes of the component of `lane`, in the order of its clock.
    pub fn mates(&self, lane: usize) -> impl Iterator<Item = usize> + '_ {
        let own = self.order.component[lane];
        (0..self.order.component.len()).filter(move |&lane| self.order.component[lane] == own)
    }

    /// An event begins: what its sources have seen, it has seen.
    pub fn begin(&mut self, event: &Event, lane: usize) {
        if self.order.component[lane] != self.component {
            self.component = self.order.component[lane];
            self.token_clocks.clear();
            self.free.clear();
        }
        if self.sequence[lane] == 0 && !self.block.follows.is_empty() {
            self.follow(lane);
        }
        for port in self.net.srcs(event) {
            self.join(lane, self.token_of(port));
        }
        self.sequence[lane] += 1;
        let own = self.start[lane] + self.order.position[lane] as usize;
        self.clocks[own] = self.sequence[lane];
    }

    /// A lane that shares a connection with an earlier lane of its rank starts after its end.
    fn follow(&mut self, lane: usize) {
        let (first, block) = (self.block.lanes.start, self.block);
        let pairs = block.follows.iter();
        for &(earlier, _) in pairs.filter(|&&(_, later)| (later - first) as usize == lane) {
            let (from, to) = (self.start[(earlier - first) as usize], self.start[lane]);
            for k in 0..self.width(lane) {
                self.clocks[to + k] = self.clocks[to + k].max(self.clocks[from + k]);
            }
        }
    }

    /// The token that a source port meets now.
    pub fn token_of(&self, port: &UsedEnd) -> usize {
        let start = self.block.sends.start[port.connection as usize];
        (start + self.received[port.reader as usize]) as usize
    }

    fn join(&mut self, lane: usize, token: usize) {
        let width = self.width(lane);
        let from = self.tokens[token].clock as usize * width;
        let start = self.start[lane];
        let clock = &mut self.clocks[start..start + width];
        let other = &self.token_clocks[from..from + width];
        for (mine, &theirs) in clock.iter_mut().zip(other) {
            *mine = (*mine).max(theirs);
        }
    }

    /// An event ends: it publishes on its destinations and releases its sources.
    pub fn end(&mut self, number: u32, lane: usize, region: [u32; 2]) {
        let net = self.net;
        let event = &net.events[number as usize];
        let (width, start) = (self.width(lane), self.start[lane]);
        for port in net.dsts(event) {
            let clock = self.free.pop().unwrap_or_else(|| {
                let number = self.token_clocks.len() / width;
                self.token_clocks.resize((number + 1) * width, 0);
                number as u32
            });
            let to = clock as usize * width;
            self.token_clocks[to..to + width].copy_from_slice(&self.clocks[start..start + width]);
            let sent = &mut self.sent[port.connection as usize];
            let token = self.block.sends.start[port.connection as usize] + *sent;
            *sent += 1;
            self.tokens[token as usize] = Token {
                event: number,
                clock,
                holders: net.wires[port.connection as usize].readers,
                region,
            };
        }
        for port in net.srcs(event).iter().filter(|port| !port.keep) {
            let token = self.token_of(port);
            self.received[port.reader as usize] += 1;
            self.tokens[token].holders -= 1;
            if self.tokens[token].holders == 0 {
                self.free.push(self.tokens[token].clock);
            }
        }
    }
}
