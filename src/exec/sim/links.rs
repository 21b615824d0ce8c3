//! Links: who carries how much, and for how long.

use super::queue::{Time, picoseconds};
use crate::price::{Cluster, Costs, Level, LinkPlace, Links};

/// Traffic between ranks of one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelLoad {
    /// Tokens, counted per reader.
    pub tokens: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Traffic of one link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkLoad {
    /// Its kind.
    pub kind: LinkPlace,
    /// Which of its kind.
    pub index: u32,
    /// Tokens that passed.
    pub tokens: u64,
    /// Bytes that passed.
    pub bytes: u64,
    /// Time during which it was taken, in nanoseconds.
    pub busy_ns: f64,
}

#[derive(Clone, Copy, Default)]
struct LinkState {
    free: Time,
    busy: Time,
    tokens: u64,
    bytes: u64,
}

/// The state of all links.
pub(super) struct LinkTable {
    links: Links,
    states: Vec<LinkState>,
    pub levels: [LevelLoad; 4],
}

impl LinkTable {
    pub fn new(machine: &Cluster) -> LinkTable {
        let links = Links::new(machine);
        LinkTable {
            states: vec![LinkState::default(); links.count()],
            links,
            levels: Default::default(),
        }
    }

    /// Counts a token of `bytes` between two ranks of `level`.
    pub fn count(&mut self, level: Level, bytes: u64) {
        let load = &mut self.levels[level as usize];
        load.tokens += 1;
        load.bytes += bytes;
    }

    /// The link number `hop` on the way between two ranks on a channel, and whether it is the last.
    pub fn hop(&self, writer: u32, reader: u32, channel: u16, hop: usize) -> (u32, bool) {
        let (path, length) = self.links.path(writer, reader, channel);
        (path[hop], hop + 1 == length)
    }

    /// A token that reaches `link` at `now`: when its head leaves it, and when its tail does.
    pub fn pass(
        &mut self,
        link: u32,
        now: Time,
        bytes: u64,
        (gap_ns, byte_ns): (f64, f64),
    ) -> (Time, Time) {
        let width = self.links.width(link);
        let taken = picoseconds((gap_ns + bytes as f64 * byte_ns) / width);
        let state = &mut self.states[link as usize];
        let start = state.free.max(now);
        state.free = start + taken;
        state.busy += taken;
        state.tokens += 1;
        state.bytes += bytes;
        (start, start + taken)
    }

    /// A token that the core of `reader` fetches: when memory, unless it `stays` in their cache,
    /// and the ways out of caches and sockets are done.
    pub fn fetch(
        &mut self,
        (writer, reader, level): (u32, u32, Level),
        now: Time,
        bytes: u64,
        stays: bool,
        costs: &Costs,
    ) -> Time {
        if level == Level::Cache && stays {
            return now;
        }
        let mut end = self.memory(reader, now, bytes, costs);
        if level == Level::Cache {
            return end;
        }
        // The line that announces a token comes the same way.
        let over = |byte_ns: f64| (Costs::LINE_BYTES * byte_ns, byte_ns);
        let out = self.links.cache_out(writer);
        end = end.max(self.pass(out, now, bytes, over(costs.cache_link_ns)).1);
        if level == Level::Node {
            let cross = self.links.cross(writer);
            end = end.max(self.pass(cross, now, bytes, over(costs.cross_ns)).1);
        }
        end
    }

    /// Bytes of the memory that `rank` is near to.
    pub fn memory(&mut self, rank: u32, now: Time, bytes: u64, costs: &Costs) -> Time {
        let memory = self.links.memory(rank);
        self.pass(memory, now, bytes, (0.0, costs.memory_ns)).1
    }

    /// Every link that carried something, busiest first, then by kind and number.
    pub fn loads(&self) -> Vec<LinkLoad> {
        let used = |(_, state): &(usize, &LinkState)| state.tokens > 0;
        let states = self.states.iter().enumerate().filter(used);
        let mut loads: Vec<LinkLoad> = states
            .map(|(link, state)| {
                let (kind, index) = self.links.describe(link as u32);
                LinkLoad {
                    kind,
                    index,
                    tokens: state.tokens,
                    bytes: state.bytes,
                    busy_ns: state.busy as f64 / 1e3,
                }
            })
            .collect();
        loads.sort_by(|a, b| {
            let by_time = b.busy_ns.total_cmp(&a.busy_ns);
            by_time.then((a.kind, a.index).cmp(&(b.kind, b.index)))
        });
        loads
    }

    pub fn memory_bytes(&self) -> usize {
        self.states.len() * size_of::<LinkState>()
    }
}
