//! The cost model: how long a collective takes, by a closed form per algorithm.
//!
//! **Idea.** An algorithm is a row of *hand-overs* (a writer's step, the way, a reader's step). In a
//! *lock-step* algorithm every rank is busy in every hand-over, so its time is that of the chain of
//! hand-overs or that of the busiest core or link, whichever is longer. In a *pipelined* one pieces
//! follow each other: the first piece travels the whole way, and each further one adds what the
//! busiest place needs for it. Both are sums of the costs of the levels that are really crossed
//! (see [`crate::plan::machine`]).
//!
//! The forms are estimates: contention is counted, but orders of arrival are not. Tests hold them
//! against the simulator, which runs the plans themselves (`tests/tuner.rs`).

use super::geometry::geometry;
use crate::plan::machine::Carrier;
use crate::plan::{Algorithm, Collective, Costs, Geometry, Level, Machine};

/// What times depend on beside the call: where ranks are, what hand-overs cost, how large slots
/// are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// Where the ranks are.
    pub machine: Machine,
    /// What everything costs.
    pub costs: Costs,
    /// Memory of a Simple connection, in bytes.
    pub buffer_bytes: usize,
    /// Memory of an eager slot, in bytes.
    pub eager_bytes: usize,
}

/// What a step does with the bytes of a token.
#[derive(Clone, Copy)]
struct Work {
    /// Tokens that it reads from connections and that it publishes.
    reads: f64,
    sends: f64,
    /// Own buffers that it reads and writes.
    locals: f64,
    writes: f64,
    /// Sources beside the first.
    folds: f64,
}

/// `prev -> output, next`
const PASS_ON: Work = Work {
    reads: 1.0,
    sends: 1.0,
    locals: 0.0,
    writes: 1.0,
    folds: 0.0,
};
/// `prev + input -> next`
const FOLD_ON: Work = Work {
    reads: 1.0,
    sends: 1.0,
    locals: 1.0,
    writes: 0.0,
    folds: 1.0,
};

impl Setting {
    /// Times of one round of hand-overs at `level`, `flows` of which at once leave each node.
    fn hop(&self, level: Level, work: Work, flows: f64) -> Hop {
        let (costs, machine) = (&self.costs, &self.machine);
        let cost = costs.level(level);
        let by_reader = cost.carrier == Carrier::Reader;
        let fetch_ns = if by_reader {
            cost.byte_ns
        } else {
            costs.read_ns
        };
        let core_byte_ns = work.reads * fetch_ns
            + work.locals * costs.read_ns
            + (work.writes + work.sends) * costs.write_ns
            + work.folds * costs.fold_ns;
        let mut core_ns = costs.step_ns + (work.reads + work.sends) * cost.overhead_ns;
        let mut crowd = 1.0;
        if machine.crowded() {
            crowd = f64::from(machine.per_node) / f64::from(machine.cores);
            core_ns += costs.switch_ns;
        }
        let shared = match level {
            Level::Network => flows / f64::from(machine.nics.max(1)),
            _ => flows / f64::from(machine.sockets.max(1)),
        };
        let (link_ns, link_byte_ns) = match by_reader {
            false => (
                cost.gap_ns * shared.max(1.0),
                cost.byte_ns * shared.max(1.0) * self.taper(level),
            ),
            true => (0.0, costs.memory_ns * shared),
        };
        Hop {
            latency_ns: cost.latency_ns,
            core_ns,
            core_byte_ns,
            link_ns,
            link_byte_ns,
            crowd,
            by_reader,
        }
    }

    /// How much narrower the network is where many nodes cross leaf switches at once.
    fn taper(&self, level: Level) -> f64 {
        let machine = &self.machine;
        let crosses = machine.leaf_nodes > 0 && machine.nodes > machine.leaf_nodes;
        match level == Level::Network && crosses && machine.leaf_nodes > 1 {
            true => f64::from(machine.taper.max(1)),
            false => 1.0,
        }
    }
}

/// One kind of hand-over.
#[derive(Clone, Copy)]
struct Hop {
    latency_ns: f64,
    core_ns: f64,
    core_byte_ns: f64,
    link_ns: f64,
    link_byte_ns: f64,
    /// Ranks of a core.
    crowd: f64,
    by_reader: bool,
}

impl Hop {
    /// From the readiness of a token of `bytes` at one rank to that at the next one, while nobody
    /// else wants the core.
    fn path(&self, bytes: f64) -> f64 {
        self.latency_ns + self.work(bytes) + self.way(bytes)
    }

    /// As [`Hop::path`], while all ranks of the core are at work: the reader waits for its turn
    /// behind half of the others.
    fn crowded_path(&self, bytes: f64) -> f64 {
        let turns = 1.0 + (self.crowd - 1.0) / 2.0;
        self.latency_ns + self.work(bytes) * turns + self.way(bytes)
    }

    /// Time between tokens where slots for `depth` of them are all there is: a slot is free again
    /// when its token has been read and the credit is back.
    fn turn(&self, bytes: f64, depth: f64) -> f64 {
        (self.path(bytes) + self.latency_ns) / depth
    }

    fn work(&self, bytes: f64) -> f64 {
        self.core_ns + bytes * self.core_byte_ns
    }

    fn way(&self, bytes: f64) -> f64 {
        match self.by_reader {
            true => 0.0,
            false => self.link_ns + bytes * self.link_byte_ns,
        }
    }

    /// Time for which the busiest place is taken by `tokens` tokens of `bytes` together.
    fn busy(&self, tokens: f64, bytes: f64) -> f64 {
        let core = (tokens * self.core_ns + bytes * self.core_byte_ns) * self.crowd;
        core.max(tokens * self.link_ns + bytes * self.link_byte_ns)
    }
}

/// Hand-overs in a row in which every rank takes part: `bytes` each, in `slices`, over connections
/// of `depth` slices.
fn lock_step(parts: &[(f64, Hop)], bytes: f64, (slices, depth): (f64, f64), slowest: Hop) -> f64 {
    let slice = bytes / slices;
    let steps: f64 = parts.iter().map(|(count, _)| count).sum();
    let hops = parts.iter();
    let path: f64 = hops
        .map(|(count, hop)| count * hop.crowded_path(slice))
        .sum();
    let rest = slowest.busy(slices - 1.0, bytes - slice);
    let turns = parts.iter().map(|(_, hop)| hop.turn(slice, depth));
    let turn = turns.fold(0.0, f64::max) * slices;
    (path + rest).max(steps * slowest.busy(slices, bytes).max(turn))
}

/// The time of a call in nanoseconds; `None` where there is no closed form. `bytes` is what the
/// call's count says: all data, or one rank's block.
pub fn predict(
    collective: Collective,
    algorithm: Algorithm,
    bytes: usize,
    channels: u16,
    setting: &Setting,
) -> Option<f64> {
    let geometry = geometry(
        collective,
        algorithm,
        setting.buffer_bytes,
        setting.eager_bytes,
    );
    let call = Call {
        collective,
        bytes: bytes as f64,
        channels: f64::from(channels.max(1)),
        geometry,
        setting,
        n: f64::from(setting.machine.nranks()),
    };
    let time = match algorithm {
        Algorithm::Local => bytes as f64 * (setting.costs.read_ns + setting.costs.write_ns),
        Algorithm::Ring => call.ring()?,
        Algorithm::OneShot => call.one_shot()?,
        Algorithm::Bundle => call.bundle()?,
        _ => return None,
    };
    Some(time + setting.costs.call_ns)
}

struct Call<'a> {
    collective: Collective,
    bytes: f64,
    channels: f64,
    geometry: Geometry,
    setting: &'a Setting,
    n: f64,
}

impl Call<'_> {
    fn level(&self, distance: u32) -> Level {
        self.setting.machine.level(0, distance)
    }

    /// Slices that a connection holds.
    fn depth(&self) -> f64 {
        f64::from(self.geometry.slots / self.geometry.slice_steps)
    }

    /// Rounds of `per_round` bytes of the call, and the bytes of each.
    fn rounds(&self, per_round: f64) -> (f64, f64) {
        let rounds = (self.bytes / self.channels / per_round).ceil().max(1.0);
        (rounds, self.bytes / rounds)
    }

    /// Hand-overs to the next rank: which part of them crosses which level.
    fn ring_levels(&self) -> Vec<(f64, Level)> {
        let machine = &self.setting.machine;
        let per_node = f64::from(machine.per_node);
        let (sockets, caches) = (f64::from(machine.sockets), f64::from(machine.caches));
        let edges = |groups: f64| groups.min(per_node);
        let (node, socket, cache) = (1.0, edges(sockets), edges(sockets * caches));
        // The last rank of a node has its next one on another node, or around the same node.
        let outside = match machine.nodes {
            1 => machine.level(0, machine.per_node - 1),
            _ => Level::Network,
        };
        let mut levels = vec![(node / per_node, outside)];
        levels.push(((socket - node) / per_node, Level::Node));
        levels.push(((cache - socket) / per_node, Level::Socket));
        levels.push(((per_node - cache) / per_node, Level::Cache));
        levels.retain(|(part, _)| *part > 0.0);
        levels
    }

    /// `steps` hand-overs around the ring.
    fn around(&self, steps: f64, work: Work) -> (Vec<(f64, Hop)>, Hop) {
        let levels = self.ring_levels();
        let per_socket = f64::from(self.setting.machine.per_node);
        let hop = |level| {
            let flows = if level == Level::Network {
                1.0
            } else {
                per_socket
            };
            self.setting.hop(level, work, flows)
        };
        let parts: Vec<_> = levels
            .iter()
            .map(|&(part, level)| (part * steps, hop(level)))
            .collect();
        let slowest = levels.iter().map(|&(_, level)| hop(level));
        let slowest = slowest.max_by(|a, b| a.busy(1.0, 1e6).total_cmp(&b.busy(1.0, 1e6)));
        let slowest = slowest.unwrap_or_else(|| hop(Level::Cache));
        (parts, slowest)
    }

    fn ring(&self) -> Option<f64> {
        let chunk = self.geometry.chunk_bytes() as f64;
        let slices = f64::from(self.geometry.slices()) * self.channels;
        let depth = self.depth() * self.channels;
        let hops = self.n - 1.0;
        let lock = |steps: f64, work: Work, (rounds, bytes): (f64, f64)| {
            let (parts, slowest) = self.around(steps, work);
            rounds * lock_step(&parts, bytes, (slices, depth), slowest)
        };
        Some(match self.collective {
            Collective::AllReduce => {
                let (rounds, bytes) = self.rounds(chunk * self.n);
                let each = (rounds, bytes / self.n);
                lock(hops, FOLD_ON, each) + lock(hops, PASS_ON, each)
            }
            Collective::AllGather => lock(hops, PASS_ON, self.rounds(chunk)),
            Collective::ReduceScatter => lock(hops, FOLD_ON, self.rounds(chunk)),
            Collective::Broadcast => self.pipeline(PASS_ON),
            Collective::Reduce => self.pipeline(FOLD_ON),
            _ => return None,
        })
    }

    /// A chain through all ranks: the first piece goes all the way, the others follow.
    fn pipeline(&self, work: Work) -> f64 {
        let chunk = self.geometry.chunk_bytes() as f64;
        let (pieces, bytes) = self.rounds(chunk);
        let piece = bytes / self.channels;
        let (parts, slowest) = self.around(self.n - 1.0, work);
        let way: f64 = parts
            .iter()
            .map(|(count, hop)| count * hop.path(piece))
            .sum();
        let turns = parts.iter().map(|(_, hop)| hop.turn(piece, self.depth()));
        let turn = turns.fold(0.0, f64::max) / self.channels;
        way + (pieces * self.channels - 1.0) * slowest.busy(1.0, piece).max(turn)
    }

    /// Publish once, and read everybody's or the root's.
    fn one_shot(&self) -> Option<f64> {
        let machine = &self.setting.machine;
        let others = self.n - 1.0;
        let (reads, writers, folds) = match self.collective {
            Collective::AllReduce => (others, self.n, true),
            Collective::AllGather => (others, self.n, false),
            Collective::Barrier => (others, self.n, false),
            Collective::Broadcast => (1.0, 1.0, false),
            Collective::Reduce => (others, self.n, true),
            _ => return None,
        };
        let widest = machine.widest();
        let costs = &self.setting.costs;
        let bytes = if self.collective == Collective::Barrier {
            0.0
        } else {
            self.bytes
        };
        let publish = self.setting.hop(
            widest,
            Work {
                reads: 0.0,
                sends: 1.0,
                locals: 1.0,
                writes: 0.0,
                folds: 0.0,
            },
            1.0,
        );
        // What the busiest reader reads comes from near and far; the way is that of the farthest.
        let mut read_ns = 0.0;
        let mut read_byte_ns = 0.0;
        let mut links: f64 = 0.0;
        for (part, level) in self.everybody() {
            let cost = costs.level(level);
            let count = reads * part;
            read_ns += count * cost.overhead_ns;
            read_byte_ns += count
                * match cost.carrier {
                    Carrier::Reader => cost.byte_ns,
                    Carrier::Wire => costs.read_ns,
                };
            if cost.carrier == Carrier::Wire {
                let flows = f64::from(machine.per_node) / f64::from(machine.nics.max(1));
                let tokens = match self.collective {
                    Collective::Broadcast => others * part,
                    Collective::Reduce => count,
                    _ => count * flows,
                };
                let sends = match self.collective {
                    Collective::Reduce => 0.0,
                    _ => others * part * cost.overhead_ns,
                };
                links = links.max(tokens * (cost.gap_ns + bytes * cost.byte_ns) + sends);
            }
        }
        let steps = match self.collective {
            Collective::AllGather => reads,
            _ => 1.0,
        };
        let stores = match self.collective {
            Collective::AllReduce | Collective::Reduce | Collective::Broadcast => 1.0,
            _ => reads,
        };
        let mut byte_ns = read_byte_ns + costs.write_ns * stores;
        if folds {
            byte_ns += costs.read_ns + costs.fold_ns * reads;
        }
        let crowd = publish.crowd;
        let switches = if machine.crowded() {
            costs.switch_ns
        } else {
            0.0
        };
        let reading = steps * costs.step_ns + read_ns + bytes * byte_ns + switches;
        let readers = match self.collective {
            Collective::Reduce => 1.0,
            _ => crowd,
        };
        let writing = publish.core_ns + bytes * publish.core_byte_ns;
        let writing = writing * if writers > 1.0 { crowd } else { 1.0 };
        // Memory that all readers share.
        let sockets = f64::from(machine.sockets.max(1));
        let per_socket = f64::from(machine.per_node) / sockets;
        let many = if self.collective == Collective::Reduce {
            1.0
        } else {
            per_socket
        };
        let shared = many * reads * bytes * costs.memory_ns;
        let outside = f64::from(machine.per_node) - per_socket;
        let crossing = match self.collective {
            Collective::Broadcast => outside,
            Collective::Reduce => per_socket,
            _ => outside * per_socket,
        };
        let crossed = match machine.sockets {
            0 | 1 => 0.0,
            _ => crossing * bytes * costs.cross_ns,
        };
        let reading = (reading * readers).max(shared).max(crossed);
        Some(writing + publish.latency_ns + links + reading)
    }

    /// Which part of the other ranks is how far away.
    fn everybody(&self) -> Vec<(f64, Level)> {
        let machine = &self.setting.machine;
        let others = f64::from(machine.nranks() - 1);
        let same = |groups: u32| {
            let ranks = machine.per_node.div_ceil(groups.max(1));
            f64::from(ranks - 1)
        };
        let node = same(1);
        let socket = same(machine.sockets);
        let cache = same(machine.sockets.max(1) * machine.caches.max(1));
        let mut parts = vec![
            ((others - node) / others, Level::Network),
            ((node - socket) / others, Level::Node),
            ((socket - cache) / others, Level::Socket),
            (cache / others, Level::Cache),
        ];
        parts.retain(|(part, _)| *part > 0.0);
        parts
    }

    /// Every pair has a connection of its own; the busiest core or interface decides.
    fn bundle(&self) -> Option<f64> {
        let machine = &self.setting.machine;
        let costs = &self.setting.costs;
        let others = self.n - 1.0;
        let (sends, receives) = match self.collective {
            Collective::AllToAll => (others, others),
            Collective::Gather => (0.0, others),
            Collective::Scatter => (others, 0.0),
            Collective::Send | Collective::Recv => (0.0, 1.0),
            _ => return None,
        };
        let chunk = self.geometry.chunk_bytes() as f64;
        let rounds = (self.bytes / chunk).ceil().max(1.0);
        let mut core = 0.0;
        let mut way: f64 = 0.0;
        let mut link: f64 = 0.0;
        let everybody = match self.collective {
            Collective::Send | Collective::Recv => vec![(1.0, self.level(1))],
            _ => self.everybody(),
        };
        for (part, level) in everybody {
            let cost = costs.level(level);
            let fetch_ns = match cost.carrier {
                Carrier::Reader => cost.byte_ns,
                Carrier::Wire => costs.read_ns,
            };
            let token = costs.step_ns + cost.overhead_ns;
            let out = rounds * token + self.bytes * (costs.read_ns + costs.write_ns);
            let taken = rounds * token + self.bytes * (fetch_ns + costs.write_ns);
            core += part * (sends * out + receives * taken);
            // The other side's share of the first or last token.
            let other = if sends < receives { out } else { taken } / rounds;
            way = way.max(cost.latency_ns + other);
            if cost.carrier == Carrier::Wire {
                let flows = match self.collective {
                    Collective::AllToAll => {
                        f64::from(machine.per_node) / f64::from(machine.nics.max(1))
                    }
                    _ => 1.0,
                };
                let tokens = part * others.max(1.0) * flows;
                let bytes = self.bytes * cost.byte_ns * self.setting.taper(level);
                link += tokens * (rounds * cost.gap_ns + bytes);
            }
        }
        let mut own = costs.step_ns + self.bytes * (costs.read_ns + costs.write_ns);
        if self.collective.is_point_to_point() {
            own = 0.0;
        }
        if machine.crowded() {
            let crowd = f64::from(machine.per_node) / f64::from(machine.cores);
            core = match self.collective {
                Collective::AllToAll => (core + own + 2.0 * costs.switch_ns) * crowd,
                _ => core + (costs.switch_ns + way) * crowd,
            };
        }
        Some(way + (core + own).max(link))
    }
}
