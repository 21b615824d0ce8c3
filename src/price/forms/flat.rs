//! Ring, one-shot and bundle.

use super::Call;
use super::hop::{FOLD_ON, Hop, PASS_ON, Work, lock_step};
use crate::plan::Collective;
use crate::price::cluster::Level;
use crate::price::costs::Carrier;

impl Call<'_> {
    /// Hand-overs to the next rank: which part of them crosses which level.
    fn ring_levels(&self) -> Vec<(f64, Level)> {
        let machine = &self.site.machine;
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
        let per_socket = f64::from(self.site.machine.per_node);
        let hop = |level| {
            let flows = if level == Level::Network {
                1.0
            } else {
                per_socket
            };
            self.site.hop(level, work, flows)
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

    pub fn ring(&self) -> Option<f64> {
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
    pub fn pipeline(&self, work: Work) -> f64 {
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

    /// Time between pieces of a chain whose ranks do `work` for each.
    pub fn pace(&self, work: Work, bytes: f64) -> f64 {
        let (parts, slowest) = self.around(self.n - 1.0, work);
        let turns = parts.iter().map(|(_, hop)| hop.turn(bytes, self.depth()));
        slowest.busy(1.0, bytes).max(turns.fold(0.0, f64::max))
    }

    /// Publish once, and read everybody's or the root's.
    pub fn one_shot(&self) -> Option<f64> {
        let others = self.n - 1.0;
        let (reads, all_write) = match self.collective {
            Collective::AllReduce | Collective::AllGather | Collective::Barrier => (others, true),
            Collective::Reduce | Collective::Scan | Collective::Exscan => (others, true),
            Collective::ReduceScatter | Collective::AllToAll => (others, true),
            Collective::Broadcast | Collective::Scatter => (1.0, false),
            _ => return None,
        };
        let (machine, costs) = (&self.site.machine, &self.site.costs);
        let bytes = match self.collective {
            Collective::Barrier => 0.0,
            // A token holds the blocks of all.
            Collective::ReduceScatter | Collective::AllToAll | Collective::Scatter => {
                self.bytes * self.n
            }
            _ => self.bytes,
        };
        let work = Work {
            steps: 1.0,
            sends: 1.0,
            locals: 1.0,
            ..Work::default()
        };
        let publish = self.site.hop(machine.widest(), work, 1.0);
        let switches = match machine.crowded() {
            true => costs.switch_ns,
            false => 0.0,
        };
        let turns = |all: bool| if all { publish.crowd } else { 1.0 };
        let writing = publish.core_ns + switches + bytes * publish.core_byte_ns;
        let reading = self.read_all(reads, bytes) + switches;
        let all_read = self.collective != Collective::Reduce;
        let reading = (reading * turns(all_read)).max(self.shared_by_readers(reads, bytes));
        let links = self.one_shot_links(reads, bytes);
        Some(writing * turns(all_write) + publish.latency_ns + links + reading)
    }

    /// Time of a core to read `reads` tokens, which come from near and far, and fold or store them.
    fn read_all(&self, reads: f64, bytes: f64) -> f64 {
        let costs = &self.site.costs;
        let (mut token_ns, mut byte_ns) = (0.0, 0.0);
        for (part, level) in self.everybody() {
            let cost = costs.level(level);
            token_ns += reads * part * cost.overhead_ns;
            let fetch_ns = match cost.carrier {
                Carrier::Reader => cost.byte_ns,
                Carrier::Wire => costs.read_ns + cost.carry_ns,
            };
            byte_ns += reads * part * fetch_ns;
        }
        let steps = match self.collective {
            // The first rank of a scan drops all tokens, one by one.
            Collective::AllGather | Collective::Scan | Collective::Exscan => reads,
            Collective::AllToAll | Collective::Scatter => 2.0 * reads,
            _ => 1.0,
        };
        let stores = match self.collective {
            Collective::Broadcast => 1.0,
            _ if self.collective.reduces() => 1.0,
            _ => reads,
        };
        byte_ns += costs.write_ns * stores;
        if self.collective.reduces() {
            byte_ns += costs.read_ns + costs.fold_ns * reads;
        }
        steps * costs.step_ns + token_ns + bytes * byte_ns
    }

    /// Time that the interfaces of a node need for tokens from and to other nodes.
    fn one_shot_links(&self, reads: f64, bytes: f64) -> f64 {
        let machine = &self.site.machine;
        let cost = self.site.costs.level(Level::Network);
        let everybody = self.everybody();
        let far = everybody.iter().find(|(_, level)| *level == Level::Network);
        let Some((part, _)) = far.filter(|_| cost.carrier == Carrier::Wire) else {
            return 0.0;
        };
        let far = (self.n - 1.0) * part;
        let flows = f64::from(machine.per_node) / f64::from(machine.nics.max(1));
        let (tokens, sends) = match self.collective {
            Collective::Broadcast | Collective::Scatter => (far, far),
            Collective::Reduce => (reads * part, 0.0),
            _ => (reads * part * flows, far),
        };
        let sent = cost.overhead_ns + bytes * cost.carry_ns;
        tokens * (cost.gap_ns + bytes * cost.byte_ns) + sends * sent
    }

    /// Time of memory, and of the way between sockets, for what all readers read.
    fn shared_by_readers(&self, reads: f64, bytes: f64) -> f64 {
        let (machine, costs) = (&self.site.machine, &self.site.costs);
        let per_socket = f64::from(machine.per_node) / f64::from(machine.sockets.max(1));
        let outside = f64::from(machine.per_node) - per_socket;
        let (readers, crossing) = match self.collective {
            Collective::Broadcast | Collective::Scatter => (per_socket, outside),
            Collective::Reduce => (1.0, per_socket),
            _ => (per_socket, outside * per_socket),
        };
        let crossed = match machine.sockets {
            0 | 1 => 0.0,
            _ => crossing * bytes * costs.cross_ns,
        };
        (readers * reads * bytes * costs.memory_ns).max(crossed)
    }

    /// Every pair has a connection of its own; the busiest core or interface decides.
    pub fn bundle(&self) -> Option<f64> {
        let machine = &self.site.machine;
        let costs = &self.site.costs;
        let others = self.n - 1.0;
        let (sends, receives) = match self.collective {
            Collective::AllToAll => (others, others),
            Collective::Gather => (0.0, others),
            Collective::Scatter => (others, 0.0),
            Collective::Send | Collective::Recv => (0.0, 1.0),
            Collective::ReduceScatter => return self.ordered(),
            _ => return None,
        };
        let chunk = self.geometry.chunk_bytes() as f64;
        let rounds = (self.bytes / chunk).ceil().max(1.0);
        let mut core = 0.0;
        let mut way: f64 = 0.0;
        let mut link: f64 = 0.0;
        // The whole of one message at its other end.
        let mut beyond: f64 = 0.0;
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
            let copied = costs.write_ns + cost.carry_ns;
            let out = rounds * token + self.bytes * (costs.read_ns + copied);
            let taken = rounds * token + self.bytes * (fetch_ns + copied);
            core += part * (sends * out + receives * taken);
            // The other side's share of the first or last token.
            let other = if sends < receives { out } else { taken };
            way = way.max(cost.latency_ns + other / rounds);
            beyond = beyond.max(other);
            if cost.carrier == Carrier::Wire {
                let flows = match self.collective {
                    Collective::AllToAll => {
                        f64::from(machine.per_node) / f64::from(machine.nics.max(1))
                    }
                    _ => 1.0,
                };
                let tokens = part * others.max(1.0) * flows;
                let bytes = self.bytes * cost.byte_ns * self.site.taper(level);
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
        Some(way + (core + own).max(link).max(beyond))
    }
}
