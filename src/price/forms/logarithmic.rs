//! Exchanges at doubling distances, and binomial trees.

use super::Call;
use super::hop::{Hop, PASS_ON, Work};
use crate::plan::Collective;
use crate::price::cluster::Level;

/// `input -> next`, then `prev + output -> output`: two steps, because both sides do both.
pub(super) const EXCHANGE_FOLD: Work = Work {
    steps: 2.0,
    reads: 1.0,
    sends: 1.0,
    locals: 2.0,
    writes: 1.0,
    folds: 1.0,
};
/// `output -> next`, then `prev -> output`.
pub(super) const EXCHANGE: Work = Work {
    steps: 2.0,
    reads: 1.0,
    sends: 1.0,
    locals: 1.0,
    writes: 1.0,
    folds: 0.0,
};
/// A signal out and one in, by two steps.
pub(super) const SIGNAL: Work = Work {
    steps: 2.0,
    reads: 1.0,
    sends: 1.0,
    locals: 0.0,
    writes: 0.0,
    folds: 0.0,
};

/// Of `n` ranks a power of two take part in exchanges at doubling distances.
pub(super) fn cores(n: u32) -> u32 {
    1 << n.ilog2()
}

/// Hand-overs that the others, who are guests, add to the exchanges: in, and out again.
pub(super) fn guest_hops(n: u32) -> f64 {
    if n == cores(n) { 0.0 } else { 2.0 }
}

impl Call<'_> {
    /// An exchange in which every rank sends over `distance` ranks.
    fn exchange(&self, distance: u32, work: Work) -> Hop {
        let machine = &self.site.machine;
        let level = self.level(distance.min(machine.nranks() - 1));
        // Inside the first nodes' distance only the ranks at the edge leave the node.
        let leaving = distance.min(machine.per_node);
        let flows = match level {
            Level::Network => leaving,
            _ => machine.per_node,
        };
        self.site.hop(level, work, f64::from(flows))
    }

    /// Whether a rank that looks over `distance` ranks finds one on another node somewhere.
    pub fn crossing(&self, distance: u32, work: Work) -> Hop {
        let machine = &self.site.machine;
        if machine.nodes == 1 || distance >= machine.per_node {
            return self.exchange(distance, work);
        }
        // Some pair of this distance is cut by the edge of a node, unless both are powers of two.
        let aligned = machine.per_node.is_multiple_of(2 * distance) && self.is_power();
        match aligned {
            true => self.exchange(distance, work),
            false => self.site.hop(Level::Network, work, f64::from(distance)),
        }
    }

    fn is_power(&self) -> bool {
        self.site.machine.nranks().is_power_of_two()
    }

    pub fn distances(&self) -> impl Iterator<Item = u32> + use<> {
        let n = self.site.machine.nranks();
        (0..31).map(|k| 1 << k).take_while(move |&d| d < n)
    }

    /// Exchanges among the greatest power of two, and two more hand-overs where that is not all.
    pub fn recursive_doubling(&self) -> Option<f64> {
        let n = self.site.machine.nranks();
        let (cores, guests) = (cores(n), guest_hops(n));
        let powers = || self.distances().filter(move |&d| d < cores);
        Some(match self.collective {
            Collective::AllReduce => {
                let chunk = self.geometry.chunk_bytes() as f64;
                let (rounds, bytes) = self.rounds(chunk);
                let exchanges = powers().map(|d| self.crossing(d, EXCHANGE_FOLD));
                let path: f64 = exchanges.map(|hop| hop.path_of_all(bytes)).sum();
                let guest = self.crossing(1, EXCHANGE_FOLD).path(bytes);
                rounds * (path + guests * guest)
            }
            Collective::Barrier => {
                let path: f64 = powers()
                    .map(|d| self.crossing(d, SIGNAL).path_of_all(0.0))
                    .sum();
                path + guests * self.crossing(1, SIGNAL).path(0.0)
            }
            Collective::Scan | Collective::Exscan => self.doubling_scan(),
            Collective::AllGather => {
                let each = self.n / f64::from(cores);
                let blocks: Vec<_> = powers().map(|d| (d, f64::from(d) * each)).collect();
                let guest = match guests > 0.0 {
                    true => self.doubling_blocks(&[(1, self.n - 1.0)]),
                    false => 0.0,
                };
                self.doubling_blocks(&blocks) + guest
            }
            _ => return None,
        })
    }

    /// Of the distances that a way upwards through the ranks is made of, the largest that need not
    /// leave a node: a way crosses no more edges of nodes than there are, and in `aligned` groups
    /// of ranks only where it must.
    fn farthest_inside(&self, aligned: bool) -> u32 {
        let machine = &self.site.machine;
        let all = self.distances().count();
        let must = self.distances().filter(|&d| d >= machine.per_node).count();
        let may = (machine.nodes as usize - 1).min(all);
        let crossing = if aligned { must } else { must.max(may) };
        self.distances().take(all - crossing).last().unwrap_or(0)
    }

    /// Level of ranks that are `distance` apart on one node.
    fn inside(&self, distance: u32) -> Level {
        self.level(distance.min(self.site.machine.per_node - 1))
    }

    /// A hand-over to the rank 2^k further for each k, whatever the number of ranks; one more in
    /// front where the own input does not count.
    fn doubling_scan(&self) -> f64 {
        let machine = &self.site.machine;
        let chunk = self.geometry.chunk_bytes() as f64;
        let (rounds, bytes) = self.rounds(chunk);
        let near = self.farthest_inside(false);
        let shift = |distance: u32, work: Work| {
            let hop = match distance > near {
                false => self
                    .site
                    .hop(self.inside(distance), work, f64::from(machine.per_node)),
                true => {
                    let flows = f64::from(distance.min(machine.per_node));
                    self.site.hop(Level::Network, work, flows)
                }
            };
            hop.crowded_path(bytes)
        };
        let (first, least) = match self.collective {
            // One rank sends, and the other one receives.
            Collective::Exscan if machine.nranks() == 2 => return self.pipeline(PASS_ON),
            Collective::Exscan => (shift(1, EXCHANGE), 1),
            _ => (0.0, 0),
        };
        let last = machine.nranks() - least;
        let doubled = self.distances().filter(|&d| d < last);
        rounds * (first + doubled.map(|d| shift(d, EXCHANGE_FOLD)).sum::<f64>())
    }

    /// Exchange k goes to the rank 2^k ahead.
    pub fn dissemination(&self) -> Option<f64> {
        let n = self.site.machine.nranks();
        Some(match self.collective {
            Collective::Barrier => {
                let hops = self.distances().map(|d| self.crossing(d, SIGNAL));
                hops.map(|hop| hop.crowded_path(0.0)).sum()
            }
            Collective::AllGather => {
                let blocks = self.distances().map(|d| (d, f64::from(d.min(n - d))));
                self.doubling_blocks(&blocks.collect::<Vec<_>>())
            }
            _ => return None,
        })
    }

    /// Every pair in turn.
    pub fn pairwise(&self) -> Option<f64> {
        if self.collective != Collective::AllToAll {
            return None;
        }
        let chunk = self.geometry.chunk_bytes() as f64;
        let (rounds, bytes) = self.rounds(chunk);
        let per_node = f64::from(self.site.machine.per_node);
        let exchanges = self.everybody().into_iter().map(|(part, level)| {
            let hop = self.site.hop(level, EXCHANGE, per_node);
            part * (self.n - 1.0) * hop.crowded_path(bytes)
        });
        let costs = &self.site.costs;
        let own = costs.step_ns + bytes * (costs.read_ns + costs.write_ns);
        Some(rounds * (own + exchanges.sum::<f64>()))
    }

    /// A binomial tree from or to the root.
    pub fn binomial(&self) -> Option<f64> {
        match self.collective {
            Collective::Broadcast | Collective::Reduce => Some(self.binomial_pieces()),
            Collective::Gather | Collective::Scatter => Some(self.binomial_blocks()),
            _ => None,
        }
    }

    /// One step of a rank serves all its children: the root has log n, the ranks below fewer.
    fn binomial_pieces(&self) -> f64 {
        let chunk = self.geometry.chunk_bytes() as f64;
        let (pieces, bytes) = self.rounds(chunk);
        let per_node = self.site.machine.per_node;
        let near = self.farthest_inside(self.is_power() && per_node.is_power_of_two());
        let hop = |distance: u32, work: Work| match distance > near {
            true => self.site.hop(Level::Network, work, 1.0),
            false => (self.site).hop(self.inside(distance), work, f64::from(per_node)),
        };
        let core = |hop: &Hop| hop.core_ns + bytes * hop.core_byte_ns;
        // The child at distance 2^k has k children of its own.
        let (mut path, mut sent, mut below): (f64, f64, f64) = (0.0, 0.0, 0.0);
        let mut children = 0.0;
        for distance in self.distances() {
            let child = hop(distance, self.member(0.0, 1.0));
            path += child.path(bytes) + children;
            below = below.max(core(&child) + children);
            children += core(&hop(distance, self.member(1.0, 0.0)));
            sent += self.alone(distance, bytes);
        }
        let top = self.exchange(1, self.member(0.0, 0.0));
        path += core(&top) + children;
        if self.collective == Collective::Reduce {
            // The others of the core come first, once.
            path += (top.crowd - 1.0) * (top.path(bytes) - top.latency_ns);
        }
        let busy = top.busy(1.0, bytes) + children * top.crowd;
        let turn = top.turn(bytes, self.depth()) + children / self.depth();
        path + (pieces - 1.0) * busy.max(sent).max(below).max(turn)
    }

    /// Work of a rank of a tree for its children, or for its parent, or for itself alone.
    fn member(&self, children: f64, parents: f64) -> Work {
        let down = self.collective == Collective::Broadcast;
        match (down, children > 0.0) {
            (true, true) => Work {
                sends: children,
                ..Work::default()
            },
            (true, false) => Work {
                steps: 1.0,
                reads: parents,
                locals: 1.0 - parents,
                writes: 1.0,
                ..Work::default()
            },
            (false, true) => Work {
                reads: children,
                folds: children,
                ..Work::default()
            },
            (false, false) => Work {
                steps: 1.0,
                locals: 1.0,
                sends: parents,
                writes: 1.0 - parents,
                ..Work::default()
            },
        }
    }

    /// Time that a message of the root takes on the network, if it goes there.
    fn alone(&self, distance: u32, bytes: f64) -> f64 {
        match self.level(distance) {
            Level::Network => {
                let cost = self.site.costs.level(Level::Network);
                cost.gap_ns + bytes * cost.byte_ns
            }
            _ => 0.0,
        }
    }

    /// Blocks pass one by one: the root handles n - 1 of them, after the first has come.
    fn binomial_blocks(&self) -> f64 {
        let chunk = self.geometry.chunk_bytes() as f64;
        let (rounds, bytes) = self.rounds(chunk);
        let pass = Work {
            steps: 1.0,
            reads: 1.0,
            sends: 1.0,
            ..Work::default()
        };
        let end = Work {
            steps: 1.0,
            reads: 1.0,
            writes: 1.0,
            ..Work::default()
        };
        let far = self.exchange(self.site.machine.nranks() / 2, pass);
        let way: f64 = self
            .distances()
            .map(|d| self.exchange(d, pass).path(bytes))
            .sum();
        let level = self.site.machine.widest();
        let last = self.site.hop(level, end, 1.0);
        let pace = last
            .busy_alone(1.0, bytes)
            .max(far.turn(bytes, self.depth()));
        let costs = &self.site.costs;
        let own = costs.step_ns + bytes * (costs.read_ns + costs.write_ns);
        // The core of the root passes on half of all blocks for each doubling of its ranks.
        let shared = 1.0 + last.crowd.log2() / 2.0;
        way + ((rounds * (self.n - 1.0) - 1.0) * pace + rounds * own) * shared
    }
}
