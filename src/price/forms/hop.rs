//! Hand-overs: what one costs, alone and beside others.

use super::call::Call;
use super::shared::{Commons, Flows, TokenTime};
use super::work::Work;
use crate::price::Site;
use crate::price::cluster::Level;
use crate::price::costs::{Carrier, LevelCost};
use crate::price::pairs::{Crossing, LevelParts};

/// One kind of hand-over.
#[derive(Clone, Copy)]
pub(super) struct Hop {
    pub latency_ns: f64,
    pub core_ns: f64,
    pub core_byte_ns: f64,
    /// The interface of a node, where wires carry the bytes.
    link: TokenTime,
    beside: Commons,
    /// Ranks of a core.
    pub crowd: f64,
    /// Time in which a core turns to another rank.
    switch_ns: f64,
}

impl Hop {
    /// Times of one round of hand-overs at `level`, `flows` of which at once leave each node, or
    /// are made on it.
    pub fn at(call: &Call, level: Level, work: Work, flows: f64) -> Hop {
        let mut parts = [0.0; 4];
        parts[level as usize] = 1.0;
        Hop::among(call, parts, work, flows)
    }

    /// Times of one round of hand-overs, by parts of them at each level: the farthest decides.
    pub fn among(call: &Call, parts: LevelParts, work: Work, flows: f64) -> Hop {
        let shared = Commons::of(call, parts, work, Flows::Spread(flows));
        let level = farthest(parts);
        let cost = call.site.costs.level(level);
        Hop::costing(call, cost, level, work, flows, shared)
    }

    /// Times of one round of hand-overs between pairs of a node, which wait for the farthest.
    pub fn between(call: &Call, pairs: &Crossing, work: Work) -> Hop {
        let shared = Commons::between(call, pairs, work);
        let level = farthest(pairs.parts);
        let cost = call.site.costs.level(level);
        Hop::costing(call, cost, level, work, 1.0, shared)
    }

    /// [`Hop::between`] pairs of which a chain of hand-overs meets now one and now another.
    pub fn by_turns(call: &Call, pairs: &Crossing, work: Work) -> Hop {
        let shared = Commons::between(call, pairs, work);
        let cost = mean(call, pairs.parts);
        Hop::costing(call, &cost, farthest(pairs.parts), work, 1.0, shared)
    }

    fn costing(
        call: &Call,
        cost: &LevelCost,
        level: Level,
        work: Work,
        flows: f64,
        beside: Commons,
    ) -> Hop {
        let (costs, machine) = (&call.site.costs, &call.site.machine);
        let by_reader = cost.carrier == Carrier::Reader;
        let core_byte_ns = work.reads * cost.fetch_ns(costs.read_ns)
            + work.locals * costs.read_ns
            + (work.writes + work.sends) * costs.write_ns
            + work.folds * costs.fold_ns
            + work.sends * cost.carry_ns;
        let core_ns = work.steps * costs.step_ns + (work.reads + work.sends) * cost.overhead_ns;
        let mut crowd = 1.0;
        let mut switch_ns = 0.0;
        if machine.crowded() {
            crowd = f64::from(machine.per_node) / f64::from(machine.cores);
            switch_ns = costs.switch_ns;
        }
        // Channels of one rank begin on interfaces that are far apart.
        let nics = f64::from(machine.nics.max(1));
        let interface = (flows / nics).max(1.0 / call.channels.clamp(1.0, nics));
        let link = match by_reader {
            true => TokenTime::default(),
            false => TokenTime {
                token_ns: cost.gap_ns * interface,
                byte_ns: cost.byte_ns * interface * taper(call.site, level),
            },
        };
        Hop {
            latency_ns: cost.latency_ns,
            core_ns,
            core_byte_ns,
            link,
            beside,
            crowd,
            switch_ns,
        }
    }

    /// From the readiness of a token of `bytes` at one rank to that at the next one, while nobody
    /// else wants the core.
    pub fn path(&self, bytes: f64) -> f64 {
        self.latency_ns + self.at_work(bytes, 1.0) + self.way(bytes)
    }

    /// [`Hop::path`] while all ranks of the core are at work: the reader waits for its turn behind
    /// half of the others.
    pub fn crowded_path(&self, bytes: f64) -> f64 {
        let turns = 1.0 + (self.crowd - 1.0) / 2.0;
        self.latency_ns + self.at_work(bytes, turns) + self.way(bytes)
    }

    /// [`Hop::path`] while all ranks of the core have such a hand-over to make, and none its next
    /// one before: each waits for all others, whose work hides the latency.
    pub fn path_of_all(&self, bytes: f64) -> f64 {
        let others = self.work(bytes) * (self.crowd - 1.0);
        self.at_work(bytes, 1.0) + self.way(bytes) + others.max(self.latency_ns)
    }

    /// Time between tokens where slots for `depth` of them are all there is: a slot is free again
    /// when its token has been read and the credit is back.
    pub fn turn(&self, bytes: f64, depth: f64) -> f64 {
        (self.path(bytes) + self.latency_ns) / depth
    }

    /// Work of so many ranks of a core in turn, or time of memory and of the ways between caches,
    /// whichever is longer.
    fn at_work(&self, bytes: f64, turns: f64) -> f64 {
        (self.work(bytes) * turns).max(self.beside.taken(1.0, bytes))
    }

    fn work(&self, bytes: f64) -> f64 {
        self.switch_ns + self.core_ns + bytes * self.core_byte_ns
    }

    /// Time of the interface, where wires carry the bytes.
    fn way(&self, bytes: f64) -> f64 {
        self.link.by(1.0, bytes)
    }

    /// Time of the busiest thing beside the cores.
    pub fn shared(&self, tokens: f64, bytes: f64) -> f64 {
        self.beside
            .taken(tokens, bytes)
            .max(self.link.by(tokens, bytes))
    }

    /// [`Hop::busy`] while the other ranks of the core wait.
    pub fn busy_alone(&self, tokens: f64, bytes: f64) -> f64 {
        let core = tokens * self.core_ns + bytes * self.core_byte_ns;
        core.max(self.shared(tokens, bytes))
    }

    /// Time for which the busiest place is taken by one token of `bytes` of each hop.
    pub fn busy_in_a_row(hops: &[Hop], bytes: f64) -> f64 {
        let core = hops
            .iter()
            .map(|hop| hop.work(bytes) * hop.crowd)
            .sum::<f64>();
        let link = hops.iter().map(|hop| hop.way(bytes)).sum::<f64>();
        let beside = hops
            .iter()
            .fold(Commons::default(), |all, hop| all.and(&hop.beside));
        core.max(link).max(beside.taken(1.0, bytes))
    }

    /// Time for which the busiest place is taken by `tokens` tokens of `bytes` together.
    pub fn busy(&self, tokens: f64, bytes: f64) -> f64 {
        let work = tokens * self.core_ns + bytes * self.core_byte_ns;
        let core = (self.switch_ns + work) * self.crowd;
        core.max(self.shared(tokens, bytes))
    }
}

/// The farthest level that some parts are at.
fn farthest(parts: LevelParts) -> Level {
    let mut levels = Level::ALL.into_iter();
    let met = levels.rfind(|&level| parts[level as usize] > 0.0);
    met.unwrap_or(Level::Cache)
}

/// The mean costs of some parts inside a node.
fn mean(call: &Call, parts: LevelParts) -> LevelCost {
    let costs = &call.site.costs;
    let sum = |of: fn(&LevelCost) -> f64| {
        let levels = Level::ALL.into_iter();
        let parts = levels.map(|level| parts[level as usize] * of(costs.level(level)));
        parts.sum()
    };
    LevelCost {
        latency_ns: sum(|cost| cost.latency_ns),
        overhead_ns: sum(|cost| cost.overhead_ns),
        byte_ns: sum(|cost| cost.byte_ns),
        ..*costs.level(farthest(parts))
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
