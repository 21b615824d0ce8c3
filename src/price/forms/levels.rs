//! Compositions, one algorithm inside every node and another one between the nodes, and the chain
//! in the order of ranks.
//!
//! A lane runs its levels one after the other, and its rounds: the time of a round is the sum of
//! the levels. Inside, the form of two-shot (or of a tree to and from the leader) is that of a
//! machine of one node. Between the nodes as many columns as a node has ranks work at once, and
//! share its interfaces; or the leaders alone do.

use super::Call;
use super::hop::{FOLD_ON, Hop, PASS_ON, Work};
use super::logarithmic::{EXCHANGE_FOLD, SIGNAL, guest_hops};
use super::spread::RECEIVE;
use crate::price::Site;
use crate::price::cluster::Cluster;

use crate::plan::Collective;
use crate::price::cluster::Level;

/// `input -> next`
const SEND: Work = Work {
    steps: 1.0,
    reads: 0.0,
    sends: 1.0,
    locals: 1.0,
    writes: 0.0,
    folds: 0.0,
};

impl Call<'_> {
    /// One node of the machine.
    fn one_node(&self) -> Site {
        Site {
            machine: Cluster {
                nodes: 1,
                ..self.site.machine
            },
            ..*self.site
        }
    }

    /// Nodes, and ranks of each.
    fn grid(&self) -> (f64, f64) {
        let machine = &self.site.machine;
        (f64::from(machine.nodes), f64::from(machine.per_node))
    }

    /// The members of a column: how many, and their distance.
    fn column(&self) -> (u32, u32) {
        let machine = &self.site.machine;
        (machine.nodes, machine.per_node)
    }

    /// A hand-over between the nodes in which every rank takes part.
    fn between(&self, work: Work) -> Hop {
        let (_, per_node) = self.grid();
        self.site.hop(Level::Network, work, per_node)
    }

    /// Rounds of a call whose data are cut into a slice for each rank of a node, and its bytes.
    fn slices(&self) -> (f64, f64) {
        let (_, per_node) = self.grid();
        let chunk = self.geometry.chunk_bytes() as f64;
        let (rounds, bytes) = self.rounds(chunk * per_node);
        (rounds, bytes / per_node)
    }

    fn scatter_inside(&self, bytes: f64) -> f64 {
        self.on(&self.one_node()).scatter_slices(bytes)
    }

    fn gather_inside(&self, bytes: f64) -> f64 {
        match self.site.machine.per_node {
            1 => 0.0,
            _ => self.on(&self.one_node()).gather_slices(bytes, false),
        }
    }

    /// Two-shot inside, halving and doubling between.
    pub fn hierarchical(&self) -> Option<f64> {
        let (nodes, _) = self.grid();
        Some(match self.collective {
            Collective::AllReduce => {
                let (rounds, slice) = self.slices();
                let column = match self.site.machine.nodes {
                    1 => 0.0,
                    _ => self.halve_and_double(self.column(), slice),
                };
                rounds * (self.scatter_inside(slice) + column + self.gather_inside(slice))
            }
            Collective::AllGather => {
                let (rounds, block) = self.packed_rounds(nodes);
                let column = self.blocks_between(block);
                rounds * (self.own(block) + column + self.gather_inside(nodes * block))
            }
            Collective::ReduceScatter => {
                let (rounds, block) = self.packed_rounds(nodes);
                let column = self.blocks_between(block);
                rounds * (self.scatter_inside(nodes * block) + column + self.own(block))
            }
            Collective::Broadcast | Collective::Reduce => self.by_leaders(),
            Collective::Barrier => self.signals(),
            _ => return None,
        })
    }

    fn blocks_between(&self, block: f64) -> f64 {
        match self.site.machine.nodes {
            1 => 0.0,
            _ => self.halve_blocks(self.column(), block),
        }
    }

    /// With a root: slices between it and the leaders of its node, binomial trees in the columns,
    /// two-shot inside. Rounds follow each other at the pace of the busiest rank.
    fn by_leaders(&self) -> f64 {
        let (rounds, slice) = self.slices();
        let (_, per_node) = self.grid();
        let down = self.collective == Collective::Broadcast;
        let inner = self.one_node();
        let inside = self.on(&inner);
        let work = if down { SEND } else { RECEIVE };
        let dealt = inside.phase(per_node - 1.0, slice, work, false);
        let dealing = dealt.core + dealt.latency + self.own(slice);
        let shared = match down {
            true => self.gather_inside(slice),
            false => self.scatter_inside(slice),
        };
        let work = if down { PASS_ON } else { EXCHANGE_FOLD };
        let hop = self.between(work);
        // The most ones in the binary number of a node.
        let depth = f64::from(self.site.machine.nodes.ilog2());
        let links = depth * (hop.busy_alone(1.0, slice) - hop.core_ns - slice * hop.core_byte_ns);
        let tree = depth * hop.path(slice);
        let pace = (dealt.core + self.own(slice) + shared)
            .max(shared + depth * hop.busy_alone(1.0, slice) + links.max(0.0));
        dealing + tree + shared + (rounds - 1.0) * pace
    }

    /// A signal to the leader, recursive doubling between the leaders, a signal back.
    fn signals(&self) -> f64 {
        let (_, per_node) = self.grid();
        let inner = self.one_node();
        let inside = self.on(&inner);
        let others = per_node - 1.0;
        let signal = Work {
            steps: 0.0,
            reads: 1.0,
            ..Work::default()
        };
        let mut time = 0.0;
        if others > 0.0 {
            // The leader waits for all, and then tells all.
            let gathered = inside.phase(others, 0.0, signal, false);
            let hop = self.site.hop(inner.machine.widest(), SIGNAL, 1.0);
            time += 2.0 * (gathered.core + hop.path(0.0));
        }
        time + self.between_leaders(SIGNAL, 0.0)
    }

    /// A binomial tree to the leader of each node, recursive doubling between them, and back.
    pub fn leader(&self) -> Option<f64> {
        if self.collective != Collective::AllReduce {
            return None;
        }
        let (rounds, bytes) = self.rounds(self.geometry.chunk_bytes() as f64);
        let (_, per_node) = self.grid();
        let inner = self.one_node();
        let inside = |collective| {
            let round = Call {
                collective,
                bytes,
                ..self.on(&inner)
            };
            round.binomial().unwrap_or(0.0)
        };
        let ways = match per_node > 1.0 {
            true => inside(Collective::Reduce) + inside(Collective::Broadcast),
            false => 0.0,
        };
        Some(rounds * (ways + self.between_leaders(EXCHANGE_FOLD, bytes)))
    }

    /// Recursive doubling between the first ranks of all nodes; their mates wait.
    fn between_leaders(&self, work: Work, bytes: f64) -> f64 {
        let nodes = self.site.machine.nodes;
        let far = self.site.hop(Level::Network, work, 1.0);
        (f64::from(nodes.ilog2()) + guest_hops(nodes)) * far.path(bytes)
    }

    /// Two-shot inside, and in each column up a binary tree and down again.
    pub fn nvls_tree(&self) -> Option<f64> {
        if self.collective != Collective::AllReduce {
            return None;
        }
        let (rounds, slice) = self.slices();
        let (nodes, _) = self.grid();
        let depth = nodes.log2().ceil();
        let up = Work {
            reads: 1.5,
            folds: 1.5,
            ..FOLD_ON
        };
        let down = Work {
            sends: 1.5,
            ..PASS_ON
        };
        // Channels share cores, but overlap on their way between nodes.
        let piece = slice / self.channels;
        let hops = [up, down].map(|work| self.between(work).crowded_path(piece));
        let inside = self.scatter_inside(piece) + self.gather_inside(piece);
        Some(rounds * (self.channels * inside + depth * (hops[0] + hops[1])))
    }

    /// Two-shot inside; in each column one head takes from all others, folds, and hands back.
    pub fn collnet(&self) -> Option<f64> {
        if self.collective != Collective::AllReduce {
            return None;
        }
        let (rounds, slice) = self.slices();
        let (nodes, per_node) = self.grid();
        let column = match self.site.machine.nodes {
            1 => 0.0,
            _ => self.reducer(slice, (per_node / nodes).ceil()),
        };
        Some(rounds * (self.scatter_inside(slice) + column + self.gather_inside(slice)))
    }

    /// A reducer that is played by a head, `switches` of which are on one node.
    fn reducer(&self, slice: f64, switches: f64) -> f64 {
        let (nodes, _) = self.grid();
        let (costs, machine) = (&self.site.costs, &self.site.machine);
        let others = nodes - 1.0;
        let cost = costs.level(Level::Network);
        let to = self.site.hop(Level::Network, SEND, 1.0);
        let work = Work {
            steps: 1.0,
            reads: others,
            sends: others,
            locals: 1.0,
            writes: 1.0,
            folds: others,
        };
        let fold = self.site.hop(Level::Network, work, 1.0);
        let from = self.site.hop(Level::Network, RECEIVE, 1.0);
        let messages = others * (switches / f64::from(machine.nics.max(1))).max(1.0);
        let token = cost.gap_ns + slice * cost.byte_ns * self.site.taper(Level::Network);
        let core = |hop: &Hop| hop.core_ns + slice * hop.core_byte_ns;
        2.0 * (messages * token + cost.latency_ns) + core(&to) + core(&fold) + core(&from)
    }

    /// Up the chain of ranks and back, or from its end to the root; blocks as in two-shot.
    pub fn ordered(&self) -> Option<f64> {
        let chunk = self.geometry.chunk_bytes() as f64;
        let (pieces, bytes) = self.rounds(chunk);
        let alone = || Call {
            bytes,
            ..self.on(self.site)
        };
        let (up, down) = (alone().pipeline(FOLD_ON), alone().pipeline(PASS_ON));
        Some(match self.collective {
            Collective::AllReduce => {
                let both = Work {
                    steps: 2.0,
                    reads: 2.0,
                    sends: 2.0,
                    locals: 1.0,
                    writes: 1.0,
                    folds: 1.0,
                };
                up + down + (pieces - 1.0) * self.pace(both, bytes)
            }
            Collective::Reduce => {
                let last = self.site.machine.widest();
                let last = self.site.hop(last, RECEIVE, 1.0).path(bytes);
                up + last + (pieces - 1.0) * self.pace(FOLD_ON, bytes)
            }
            Collective::ReduceScatter => pieces * self.scatter_slices(bytes),
            _ => return None,
        })
    }
}
