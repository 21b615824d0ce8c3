//! Hand-overs: what one costs, and what many in a row do.

use crate::price::Site;
use crate::price::cluster::Level;
use crate::price::costs::Carrier;

/// Work of a step on the bytes of a token.
#[derive(Clone, Copy, Default)]
pub(super) struct Work {
    /// Steps that are interpreted.
    pub steps: f64,
    /// Tokens that it reads from connections and that it publishes.
    pub reads: f64,
    pub sends: f64,
    /// Own buffers that it reads and writes.
    pub locals: f64,
    pub writes: f64,
    /// Sources beside the first.
    pub folds: f64,
}

/// `prev -> output, next`
pub(super) const PASS_ON: Work = Work {
    steps: 1.0,
    reads: 1.0,
    sends: 1.0,
    locals: 0.0,
    writes: 1.0,
    folds: 0.0,
};
/// `prev + input -> next`
pub(super) const FOLD_ON: Work = Work {
    steps: 1.0,
    reads: 1.0,
    sends: 1.0,
    locals: 1.0,
    writes: 0.0,
    folds: 1.0,
};

/// One kind of hand-over.
#[derive(Clone, Copy)]
pub(super) struct Hop {
    pub latency_ns: f64,
    pub core_ns: f64,
    pub core_byte_ns: f64,
    link_ns: f64,
    link_byte_ns: f64,
    /// Ranks of a core.
    pub crowd: f64,
    /// Time in which a core turns to another rank.
    switch_ns: f64,
    by_reader: bool,
}

impl Hop {
    /// Times of one round of hand-overs at `level`, `flows` of which at once leave each node.
    pub fn at(site: &Site, level: Level, work: Work, flows: f64) -> Hop {
        let (costs, machine) = (&site.costs, &site.machine);
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
            + work.folds * costs.fold_ns
            + (work.reads + work.sends) * cost.carry_ns;
        let core_ns = work.steps * costs.step_ns + (work.reads + work.sends) * cost.overhead_ns;
        let mut crowd = 1.0;
        let mut switch_ns = 0.0;
        if machine.crowded() {
            crowd = f64::from(machine.per_node) / f64::from(machine.cores);
            switch_ns = costs.switch_ns;
        }
        let shared = match level {
            Level::Network => flows / f64::from(machine.nics.max(1)),
            _ => flows / f64::from(machine.sockets.max(1)),
        };
        let (link_ns, link_byte_ns) = match by_reader {
            false => (
                cost.gap_ns * shared.max(1.0),
                cost.byte_ns * shared.max(1.0) * taper(site, level),
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
            switch_ns,
            by_reader,
        }
    }

    /// From the readiness of a token of `bytes` at one rank to that at the next one, while nobody
    /// else wants the core.
    pub fn path(&self, bytes: f64) -> f64 {
        self.latency_ns + self.work(bytes) + self.way(bytes)
    }

    /// [`Hop::path`] while all ranks of the core are at work: the reader waits for its turn behind
    /// half of the others.
    pub fn crowded_path(&self, bytes: f64) -> f64 {
        let turns = 1.0 + (self.crowd - 1.0) / 2.0;
        self.latency_ns + self.work(bytes) * turns + self.way(bytes)
    }

    /// [`Hop::path`] while all ranks of the core have such a hand-over to make, and none its next
    /// one before: each waits for all others, whose work hides the latency.
    pub fn path_of_all(&self, bytes: f64) -> f64 {
        let others = self.work(bytes) * (self.crowd - 1.0);
        self.work(bytes) + self.way(bytes) + others.max(self.latency_ns)
    }

    /// Time between tokens where slots for `depth` of them are all there is: a slot is free again
    /// when its token has been read and the credit is back.
    pub fn turn(&self, bytes: f64, depth: f64) -> f64 {
        (self.path(bytes) + self.latency_ns) / depth
    }

    fn work(&self, bytes: f64) -> f64 {
        self.switch_ns + self.core_ns + bytes * self.core_byte_ns
    }

    fn way(&self, bytes: f64) -> f64 {
        match self.by_reader {
            true => 0.0,
            false => self.link_ns + bytes * self.link_byte_ns,
        }
    }

    /// [`Hop::busy`] while the other ranks of the core wait.
    pub fn busy_alone(&self, tokens: f64, bytes: f64) -> f64 {
        let core = tokens * self.core_ns + bytes * self.core_byte_ns;
        core.max(tokens * self.link_ns + bytes * self.link_byte_ns)
    }

    /// Time for which the busiest place is taken by `tokens` tokens of `bytes` together.
    pub fn busy(&self, tokens: f64, bytes: f64) -> f64 {
        let work = tokens * self.core_ns + bytes * self.core_byte_ns;
        let core = (self.switch_ns + work) * self.crowd;
        core.max(tokens * self.link_ns + bytes * self.link_byte_ns)
    }
}

/// How much narrower the network is where many nodes cross leaf switches at once.
pub(super) fn taper(site: &Site, level: Level) -> f64 {
    let machine = &site.machine;
    let crosses = machine.leaf_nodes > 0 && machine.nodes > machine.leaf_nodes;
    match level == Level::Network && crosses && machine.leaf_nodes > 1 {
        true => f64::from(machine.taper.max(1)),
        false => 1.0,
    }
}

/// Hand-overs in a row in which every rank takes part: `bytes` each, in `slices`, over connections
/// of `depth` slices.
pub(super) fn lock_step(
    parts: &[(f64, Hop)],
    bytes: f64,
    (slices, depth): (f64, f64),
    slowest: Hop,
) -> f64 {
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
