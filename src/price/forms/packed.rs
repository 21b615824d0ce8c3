//! Exchanges whose tokens hold many blocks, and casts: one writes what all read.

use super::Call;
use super::hop::{Hop, Work};
use super::logarithmic::{EXCHANGE, EXCHANGE_FOLD, cores};
use crate::plan::Collective;
use crate::price::cluster::Level;
use crate::price::costs::Carrier;

/// Blocks that PAT aggregates in one token at most.
const AGGREGATED: f64 = 32.0;

impl Call<'_> {
    /// Rounds of a plan whose largest token holds `blocks` blocks, and a block's bytes in each.
    pub fn packed_rounds(&self, blocks: f64) -> (f64, f64) {
        self.rounds(self.geometry.chunk_bytes() as f64 / blocks.max(1.0))
    }

    /// Exchanges of one token each: (distance, blocks), of `bytes` a block.
    fn tokens(&self, exchanges: &[(u32, f64)], bytes: f64, work: Work) -> f64 {
        let hop = |&(distance, blocks): &(u32, f64)| {
            self.crossing(distance, work).path_of_all(blocks * bytes)
        };
        exchanges.iter().map(hop).sum()
    }

    /// Exchanges that double the blocks a rank knows: one token each.
    pub fn doubling_blocks(&self, exchanges: &[(u32, f64)]) -> f64 {
        let most = exchanges
            .iter()
            .map(|(_, blocks)| *blocks)
            .fold(1.0, f64::max);
        let (rounds, bytes) = self.packed_rounds(most);
        rounds * self.tokens(exchanges, bytes, EXCHANGE)
    }

    /// Halves out, and back.
    pub fn halving_doubling(&self) -> Option<f64> {
        let n = self.site.machine.nranks();
        Some(match self.collective {
            Collective::AllReduce => {
                let per_round = 2.0 * self.geometry.chunk_bytes() as f64;
                let (rounds, bytes) = self.rounds(per_round);
                rounds * self.halve_and_double((n, 1), bytes)
            }
            Collective::ReduceScatter | Collective::AllGather => {
                let (rounds, bytes) = self.packed_rounds(self.n / 2.0);
                rounds * self.halve_blocks((n, 1), bytes)
            }
            _ => return None,
        })
    }

    /// The exchanges among `members` ranks, each `stride` ranks from the next: distance, and how
    /// many of the cores' pieces a token holds; the nearest exchange the most.
    fn halvings((members, stride): (u32, u32)) -> Vec<(u32, f64)> {
        let cores = cores(members);
        let half = f64::from(cores) / 2.0;
        let exchange = |k: u32| (stride << k, half / f64::from(1u32 << k));
        (0..cores.ilog2()).map(exchange).collect()
    }

    /// All-reduce of `bytes` among members.
    pub fn halve_and_double(&self, among: (u32, u32), bytes: f64) -> f64 {
        let exchanges = Call::halvings(among);
        let cores = cores(among.0);
        let piece = bytes / f64::from(cores);
        let out = self.tokens(&exchanges, piece, EXCHANGE_FOLD);
        let back = self.tokens(&exchanges, piece, EXCHANGE);
        let guest = match among.0 == cores {
            true => 0.0,
            false => {
                self.crossing(among.1, EXCHANGE).path(bytes)
                    + self.crossing(among.1, EXCHANGE_FOLD).path(bytes)
            }
        };
        out + back + guest
    }

    /// Reduce-scatter or all-gather of a block of `bytes` for each member.
    pub fn halve_blocks(&self, among: (u32, u32), bytes: f64) -> f64 {
        let work = match self.collective {
            Collective::AllGather => EXCHANGE,
            _ => EXCHANGE_FOLD,
        };
        let cores = cores(among.0);
        let members = f64::from(among.0);
        // Blocks of all members that a core stands for.
        let each = members / f64::from(cores);
        let path = self.tokens(&Call::halvings(among), bytes * each, work);
        let guest = match among.0 == cores {
            true => 0.0,
            false => self.crossing(among.1, work).path(bytes * members),
        };
        path + guest
    }

    /// One token for every bit of the distance.
    pub fn bruck(&self) -> Option<f64> {
        let n = self.site.machine.nranks();
        match self.collective {
            Collective::AllGather => {
                let exchanges: Vec<_> = self
                    .distances()
                    .map(|d| (d, f64::from(d.min(n - d))))
                    .collect();
                Some(self.doubling_blocks(&exchanges))
            }
            Collective::AllToAll => {
                // Blocks that were there and blocks that came go in one token each.
                let (rounds, bytes) = self.packed_rounds(self.n / 2.0);
                let token = bytes * self.n / 4.0;
                let exchange = |d| {
                    let hop = self.crossing(d, EXCHANGE);
                    hop.crowded_path(token) + hop.crowded_path(token) - hop.latency_ns
                };
                let costs = &self.site.costs;
                let own = costs.step_ns + bytes * (costs.read_ns + costs.write_ns);
                Some(rounds * (own + self.distances().map(exchange).sum::<f64>()))
            }
            _ => None,
        }
    }

    /// Trees of all blocks, walked together: log n hand-overs, and one more for each further
    /// token.
    pub fn pat(&self) -> Option<f64> {
        let work = match self.collective {
            Collective::AllGather => EXCHANGE,
            Collective::ReduceScatter => EXCHANGE_FOLD,
            _ => return None,
        };
        let width = 2f64.powf((self.n / AGGREGATED).max(1.0).log2().ceil());
        let most = (self.n / width / 2.0).ceil();
        let (rounds, bytes) = self.packed_rounds(most);
        let distances: Vec<u32> = self.distances().collect();
        let far = distances.iter().filter(|&&d| f64::from(d) >= width);
        let mut time = 0.0;
        for &distance in far {
            let blocks = (self.n / f64::from(distance) / 2.0).ceil();
            time += self.crossing(distance, work).path_of_all(blocks * bytes);
        }
        // Below `width` each token holds the blocks of that distance in all trees.
        let blocks = (self.n / width).ceil();
        for step in 1..width as u32 {
            let distance = 1u32 << step.trailing_zeros();
            time += self.crossing(distance, work).path_of_all(blocks * bytes);
        }
        Some(rounds * time)
    }

    /// As two-shot and one-shot, with casts for results.
    pub fn nvls(&self) -> Option<f64> {
        let others = self.n - 1.0;
        match self.collective {
            Collective::ReduceScatter => self.two_shot(),
            Collective::AllReduce => self.two_shot_by_cast(),
            Collective::AllGather => {
                let chunk = self.geometry.chunk_bytes() as f64;
                let (rounds, bytes) = self.rounds(chunk);
                Some(rounds * self.cast_to_all(bytes, others))
            }
            Collective::Broadcast => {
                let chunk = self.geometry.chunk_bytes() as f64;
                let (rounds, bytes) = self.rounds(chunk);
                let one = self.cast_to_all(bytes, 1.0);
                let next = self.cast_busy(bytes);
                Some(one + (rounds - 1.0) * next)
            }
            _ => None,
        }
    }

    /// One token of `bytes` cast by each rank (or one), and `reads` of them read by each.
    fn cast_to_all(&self, bytes: f64, reads: f64) -> f64 {
        let costs = &self.site.costs;
        let publish = self.cast_write(bytes);
        let read = self.phase(reads, bytes, super::spread::RECEIVE, true);
        let links = self.cast_links(bytes) * if reads > 1.0 { self.flows() } else { 1.0 };
        publish + costs.step_ns + read.latency + links + read.core
    }

    fn cast_busy(&self, bytes: f64) -> f64 {
        let read = self.phase(1.0, bytes, super::spread::RECEIVE, true).core;
        self.cast_write(bytes).max(read).max(self.cast_links(bytes))
    }

    /// Time of a core to write a token that all read.
    fn cast_write(&self, bytes: f64) -> f64 {
        let work = Work {
            steps: 1.0,
            sends: 1.0,
            locals: 1.0,
            writes: 1.0,
            ..Work::default()
        };
        let hop: Hop = self.site.hop(Level::Cache, work, 1.0);
        let far = self.site.costs.level(Level::Network);
        let sent = self.outside() * (far.overhead_ns + bytes * far.carry_ns);
        (hop.core_ns + bytes * hop.core_byte_ns) * hop.crowd + sent
    }

    /// Ranks on other nodes.
    fn outside(&self) -> f64 {
        let far = self.site.costs.level(Level::Network);
        match far.carrier {
            Carrier::Wire => self.n - f64::from(self.site.machine.per_node),
            Carrier::Reader => 0.0,
        }
    }

    fn flows(&self) -> f64 {
        let machine = &self.site.machine;
        f64::from(machine.per_node) / f64::from(machine.nics.max(1))
    }

    /// Time that the messages of one cast to other nodes take on an interface.
    pub fn cast_links(&self, bytes: f64) -> f64 {
        let far = self.site.costs.level(Level::Network);
        self.outside() * (far.gap_ns + bytes * far.byte_ns)
    }
}
