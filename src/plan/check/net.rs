//! The network of all ranks' plans, in flat arrays.
//!
//! The checker walks the same steps many times (per capacity, per slice count, per form of a
//! connection), so operands are resolved once: a repetition of a step becomes an *event*, a
//! connection operand becomes a *port* that names the connection and the reading end by number.
//! What the k-th send on a connection meets is the k-th receive, whatever the timing; so senders
//! and receivers are paired here, before anything runs.

use super::contents::Contents;
use super::report::Counterexample;
use super::structure::structure;
use crate::plan::places::Places;
use crate::plan::{ConnectionUse, Direction, Link, ListId, Plan};
use std::collections::HashMap;
use std::ops::Range;

/// No lane, no end, no event.
pub(super) const NONE: u32 = u32::MAX;

/// A connection operand of a step.
#[derive(Clone, Copy)]
pub(super) struct UsedEnd {
    pub connection: u32,
    /// The reading end; [`NONE`] where the port writes.
    pub reader: u32,
    pub keep: bool,
}

/// One repetition of a step, or all of a packed one.
#[derive(Clone, Copy)]
pub(super) struct Event {
    /// Index into the steps of the plan.
    pub step: u32,
    pub lane: u32,
    /// Chunk number of this repetition, or of the first piece.
    pub chunk: u32,
    /// Chunks in a token of this event; 0 for a token without payload.
    pub pieces: u32,
    /// Content of a token of this event, equal where the lengths of its pieces are: see
    /// [`super::contents`].
    pub carries: u32,
    pub srcs: u32,
    pub dsts: u32,
    pub src_count: u16,
    pub dst_count: u16,
}

/// One plan of one rank in one call.
pub(super) struct Instance<'a> {
    /// Its index in [`Net::instances`].
    pub number: u32,
    pub plan: &'a Plan,
    pub rank: u32,
    /// Rounds of its lanes, where the call does not set them.
    pub rounds: u32,
    pub lanes: Range<u32>,
    /// Its (connection, reading end), a part of [`Net::instance_readers`].
    pub readers: Range<u32>,
    pub places: Places,
}

impl Instance<'_> {
    /// A counterexample that shows at the return of the call.
    pub fn at_end(&self, message: String) -> Counterexample {
        let lane = self.plan.lanes.len().saturating_sub(1);
        let steps = self.plan.lanes.get(lane).map_or(1, |lane| lane.steps.len());
        Counterexample::new(self.plan, self.rank, lane, steps - 1, message)
    }
}

/// One lane of an instance.
pub(super) struct Lane {
    pub instance: u32,
    /// Number in its plan.
    pub number: u32,
    pub channel: u16,
    pub first: u32,
    pub end: u32,
    /// How many earlier lanes of this rank must end before it starts, because they share a
    /// connection.
    pub predecessors: u32,
}

/// A connection and its reading ends.
pub(super) struct Wire {
    pub link: Link,
    pub first_reader: u32,
    pub readers: u32,
}

/// Lists of events by key, in one array.
#[derive(Default)]
pub(super) struct Table {
    pub start: Vec<u32>,
    items: Vec<u32>,
}

impl Table {
    fn new(keys: usize, pairs: impl Iterator<Item = (u32, u32)> + Clone) -> Table {
        let mut start = vec![0; keys + 1];
        for (key, _) in pairs.clone() {
            start[key as usize + 1] += 1;
        }
        for key in 0..keys {
            start[key + 1] += start[key];
        }
        let mut next = start.clone();
        let mut items = vec![0; start[keys] as usize];
        for (key, item) in pairs {
            items[next[key as usize] as usize] = item;
            next[key as usize] += 1;
        }
        Table { start, items }
    }

    /// All items, in order of keys.
    pub fn items(&self) -> &[u32] {
        &self.items
    }

    pub fn get(&self, key: u32) -> &[u32] {
        let range = self.start[key as usize]..self.start[key as usize + 1];
        &self.items[range.start as usize..range.end as usize]
    }

    pub fn len(&self) -> usize {
        self.items.len()
    }
}

/// Events that all ranks run in one call.
pub(super) struct Block {
    pub instances: Range<u32>,
    pub lanes: Range<u32>,
    pub events: Range<u32>,
    /// Lanes of each rank.
    pub rank_lanes: Vec<Range<u32>>,
    /// Events that publish, by connection, in order.
    pub sends: Table,
    /// Events that release, by reading end, in order.
    pub receives: Table,
    /// (earlier lane, later lane) of one rank on one connection, sorted.
    pub follows: Vec<(u32, u32)>,
    /// Places in user memory and scratch of all instances.
    pub places: u32,
}

/// One plan to add to a block.
#[derive(Clone, Copy)]
pub(super) struct Item<'a> {
    pub rank: u32,
    pub plan: &'a Plan,
    pub rounds: u32,
}

/// All plans of one or more calls over common connections.
pub(super) struct Net<'a> {
    pub nranks: u32,
    pub instances: Vec<Instance<'a>>,
    pub lanes: Vec<Lane>,
    pub events: Vec<Event>,
    pub ports: Vec<UsedEnd>,
    pub wires: Vec<Wire>,
    /// Reading ends of all wires.
    pub readers: u32,
    /// (connection, reading end) of all instances.
    pub instance_readers: Vec<(u32, u32)>,
    pub blocks: Vec<Block>,
    pub contents: Contents,
    by_link: HashMap<Link, u32>,
}

impl<'a> Net<'a> {
    pub fn new(nranks: u32) -> Net<'a> {
        Net {
            nranks,
            instances: Vec::new(),
            lanes: Vec::new(),
            events: Vec::new(),
            ports: Vec::new(),
            wires: Vec::new(),
            readers: 0,
            instance_readers: Vec::new(),
            blocks: Vec::new(),
            contents: Contents::default(),
            by_link: HashMap::new(),
        }
    }

    /// Adds what all ranks run in one call; `items` come in order of ranks, and the plans of one
    /// rank in the order of issue. Returns the number of the block.
    pub fn add_unpaired(&mut self, items: &[Item<'a>]) -> Result<usize, Counterexample> {
        let starts = (self.instances.len(), self.lanes.len(), self.events.len());
        let mut places = 0;
        for item in items {
            structure(item.plan, item.rank, self.nranks)?;
            self.add_instance(item, &mut places);
        }
        let instances = starts.0 as u32..self.instances.len() as u32;
        let lanes = starts.1 as u32..self.lanes.len() as u32;
        let events = starts.2 as u32..self.events.len() as u32;
        let rank_lanes = self.lanes_by_rank(&instances);
        let follows = self.order_lanes(&lanes);
        let numbers = events.clone();
        let sends = numbers.clone().flat_map(|e| {
            let ports = self.dsts(&self.events[e as usize]);
            ports.iter().map(move |port| (port.connection, e))
        });
        let receives = numbers.flat_map(|e| {
            let ports = self.srcs(&self.events[e as usize]);
            let released = ports.iter().filter(|port| !port.keep);
            released.map(move |port| (port.reader, e))
        });
        let block = Block {
            instances,
            lanes,
            events,
            rank_lanes,
            sends: Table::new(self.wires.len(), sends),
            receives: Table::new(self.readers as usize, receives),
            follows,
            places,
        };
        self.blocks.push(block);
        Ok(self.blocks.len() - 1)
    }

    fn add_instance(&mut self, item: &Item<'a>, places: &mut u32) {
        let plan = item.plan;
        let ends: Vec<UsedEnd> = plan
            .connections
            .iter()
            .map(|used| self.end(used, item.rank))
            .collect();
        let readers = self.instance_readers.len() as u32;
        let reading = ends.iter().filter(|end| end.reader != NONE);
        self.instance_readers
            .extend(reading.map(|end| (end.connection, end.reader)));
        let lists: Vec<(u32, u16)> = (0..plan.lists.len())
            .map(|list| {
                let start = self.ports.len();
                let operands = plan.lists.get(ListId(list as u16)).iter();
                self.ports.extend(operands.filter_map(|operand| {
                    let end = ends[operand.as_connection()?];
                    Some(UsedEnd {
                        keep: operand.keep,
                        ..end
                    })
                }));
                (start as u32, (self.ports.len() - start) as u16)
            })
            .collect();
        let first_lane = self.lanes.len() as u32;
        for (number, lane) in plan.lanes.iter().enumerate() {
            let first = self.events.len() as u32;
            for index in lane.steps.clone() {
                self.add_step(plan, index, &lists);
            }
            self.lanes.push(Lane {
                instance: self.instances.len() as u32,
                number: number as u32,
                channel: lane.channel,
                first,
                end: self.events.len() as u32,
                predecessors: 0,
            });
        }
        let instance_places = Places::new(plan, *places);
        *places += instance_places.count();
        self.instances.push(Instance {
            number: self.instances.len() as u32,
            plan,
            rank: item.rank,
            rounds: item.rounds,
            lanes: first_lane..self.lanes.len() as u32,
            readers: readers..self.instance_readers.len() as u32,
            places: instance_places,
        });
    }

    fn add_step(&mut self, plan: &Plan, index: usize, lists: &[(u32, u16)]) {
        let step = &plan.steps[index];
        let (srcs, dsts) = (
            lists[usize::from(step.srcs.0)],
            lists[usize::from(step.dsts.0)],
        );
        let lane = self.lanes.len() as u32;
        let contents = &mut self.contents;
        self.events.extend((0..step.tokens()).map(|k| Event {
            step: index as u32,
            lane,
            chunk: step.piece_at(k, 0, plan.chunks),
            pieces: step.pieces(),
            carries: contents.of(plan, step, k),
            srcs: srcs.0,
            dsts: dsts.0,
            src_count: srcs.1,
            dst_count: dsts.1,
        }));
    }

    /// The end of a connection that `rank` uses, with a number for a connection seen first.
    fn end(&mut self, used: &ConnectionUse, rank: u32) -> UsedEnd {
        let connection = *self.by_link.entry(used.link).or_insert_with(|| {
            let readers = used.link.readers(self.nranks);
            self.wires.push(Wire {
                link: used.link,
                first_reader: self.readers,
                readers,
            });
            self.readers += readers;
            self.wires.len() as u32 - 1
        });
        let first = self.wires[connection as usize].first_reader;
        let reader = match (used.direction, used.link) {
            (Direction::Send, _) => NONE,
            (Direction::Recv, link) => first + link.number_of(rank),
        };
        UsedEnd {
            connection,
            reader,
            keep: false,
        }
    }

    fn lanes_by_rank(&self, instances: &Range<u32>) -> Vec<Range<u32>> {
        let end = self.lanes.len() as u32;
        let mut ranges = vec![end..end; self.nranks as usize];
        for index in instances.clone().rev() {
            let instance = &self.instances[index as usize];
            let range = &mut ranges[instance.rank as usize];
            let last = if range.start == range.end {
                instance.lanes.end
            } else {
                range.end
            };
            *range = instance.lanes.start..last;
        }
        ranges
    }

    /// Lanes of one rank on one connection run in the order of issue.
    fn order_lanes(&mut self, lanes: &Range<u32>) -> Vec<(u32, u32)> {
        let mut last = vec![NONE; self.wires.len() + self.readers as usize];
        let mut follows = Vec::new();
        for number in lanes.clone() {
            let lane = &self.lanes[number as usize];
            for event in &self.events[lane.first as usize..lane.end as usize] {
                for port in self.srcs(event).iter().chain(self.dsts(event)) {
                    let key = match port.reader {
                        NONE => port.connection as usize,
                        reader => self.wires.len() + reader as usize,
                    };
                    let earlier = std::mem::replace(&mut last[key], number);
                    if earlier != NONE && earlier != number {
                        follows.push((earlier, number));
                    }
                }
            }
        }
        follows.sort_unstable();
        follows.dedup();
        for &(_, later) in &follows {
            self.lanes[later as usize].predecessors += 1;
        }
        follows
    }

    /// Connection sources of an event.
    #[inline]
    pub fn srcs(&self, event: &Event) -> &[UsedEnd] {
        &self.ports[event.srcs as usize..event.srcs as usize + usize::from(event.src_count)]
    }

    /// Connection destinations of an event.
    #[inline]
    pub fn dsts(&self, event: &Event) -> &[UsedEnd] {
        &self.ports[event.dsts as usize..event.dsts as usize + usize::from(event.dst_count)]
    }

    /// Chunk number of a piece of an event.
    #[inline]
    pub fn piece(&self, event: &Event, piece: u32) -> u32 {
        if piece == 0 {
            return event.chunk;
        }
        let plan = self.instance_of(event).plan;
        plan.steps[event.step as usize].piece_at(0, piece, plan.chunks)
    }

    /// The plan instance of an event.
    pub fn instance_of(&self, event: &Event) -> &Instance<'a> {
        &self.instances[self.lanes[event.lane as usize].instance as usize]
    }

    /// A counterexample at an event.
    pub fn fault(&self, event: u32, message: String) -> Counterexample {
        let event = &self.events[event as usize];
        let lane = self.lanes[event.lane as usize].number as usize;
        let instance = self.instance_of(event);
        let start = instance.plan.lanes[lane].steps.start;
        let step = event.step as usize - start;
        Counterexample::new(instance.plan, instance.rank, lane, step, message)
    }

    /// Rank and step of an event, for the second half of a message.
    pub fn place(&self, event: u32) -> String {
        let event = &self.events[event as usize];
        let lane = self.lanes[event.lane as usize].number as usize;
        let instance = self.instance_of(event);
        let start = instance.plan.lanes[lane].steps.start;
        format!(
            "rank {}, lane {lane}, step {}",
            instance.rank,
            event.step as usize - start
        )
    }

    /// The rank at a reading end of a wire.
    pub fn reader_rank(&self, wire: &Wire, reader: u32) -> u32 {
        match wire.link {
            Link::Pair { reader, .. } => reader,
            link => {
                let mut readers = link.read_by(self.nranks);
                let number = (reader - wire.first_reader) as usize;
                readers.nth(number).unwrap_or(NONE)
            }
        }
    }
}
