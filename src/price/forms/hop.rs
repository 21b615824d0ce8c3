//! Hand-overs: what one costs, and what many in a row do.

use super::call::Call;
use crate::price::Site;
use crate::price::cluster::Level;
use crate::price::costs::{Carrier, Costs};

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

/// Something that many ranks use at once: time for a token beside its bytes, and for a byte, of all
/// of them together.
#[derive(Clone, Copy, Default)]
struct Shared {
    token_ns: f64,
    byte_ns: f64,
}

impl Shared {
    fn taken(&self, tokens: f64, bytes: f64) -> f64 {
        tokens * self.token_ns + bytes * self.byte_ns
    }
}

/// One kind of hand-over.
#[derive(Clone, Copy)]
pub(super) struct Hop {
    pub latency_ns: f64,
    pub core_ns: f64,
    pub core_byte_ns: f64,
    /// The interface of a node, where wires carry the bytes.
    link: Shared,
    /// The memory of a socket, the way out of a cache, and that out of a socket.
    beside: [Shared; 3],
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
    pub fn among(call: &Call, parts: [f64; 4], work: Work, flows: f64) -> Hop {
        let (costs, machine) = (&call.site.costs, &call.site.machine);
        let met = Level::ALL
            .into_iter()
            .filter(|&level| parts[level as usize] > 0.0);
        let level = met.last().unwrap_or(Level::Cache);
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
        let interface = (flows / f64::from(machine.nics.max(1))).max(1.0);
        let link = match by_reader {
            true => Shared::default(),
            false => Shared {
                token_ns: cost.gap_ns * interface,
                byte_ns: cost.byte_ns * interface * taper(call.site, level),
            },
        };
        Hop {
            latency_ns: cost.latency_ns,
            core_ns,
            core_byte_ns,
            link,
            beside: beside(call, parts, work, flows),
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
        let beside = self.beside.iter().map(|shared| shared.taken(1.0, bytes));
        beside.fold(self.work(bytes) * turns, f64::max)
    }

    fn work(&self, bytes: f64) -> f64 {
        self.switch_ns + self.core_ns + bytes * self.core_byte_ns
    }

    /// Time of the interface, where wires carry the bytes.
    fn way(&self, bytes: f64) -> f64 {
        self.link.taken(1.0, bytes)
    }

    /// Time of the busiest thing beside the cores.
    fn shared(&self, tokens: f64, bytes: f64) -> f64 {
        let taken = self.beside.iter().map(|shared| shared.taken(tokens, bytes));
        taken.fold(self.link.taken(tokens, bytes), f64::max)
    }

    /// [`Hop::busy`] while the other ranks of the core wait.
    pub fn busy_alone(&self, tokens: f64, bytes: f64) -> f64 {
        let core = tokens * self.core_ns + bytes * self.core_byte_ns;
        core.max(self.shared(tokens, bytes))
    }

    /// Time for which the busiest place is taken by `tokens` tokens of `bytes` together.
    pub fn busy(&self, tokens: f64, bytes: f64) -> f64 {
        let work = tokens * self.core_ns + bytes * self.core_byte_ns;
        let core = (self.switch_ns + work) * self.crowd;
        core.max(self.shared(tokens, bytes))
    }
}

/// Memory of a socket, and the ways out of a cache and of a socket, for `flows` hand-overs of a node
/// at once.
fn beside(call: &Call, parts: [f64; 4], work: Work, flows: f64) -> [Shared; 3] {
    let (costs, machine) = (&call.site.costs, &call.site.machine);
    let [cache, socket, node, _] = parts;
    let (sockets, caches) = (
        f64::from(machine.sockets.max(1)),
        f64::from(machine.caches.max(1)),
    );
    let away = socket + node;
    let fetched = match call.cached.tokens {
        true => away,
        false => away + cache,
    };
    let own = match call.cached.buffers {
        true => 0.0,
        false => work.locals + work.writes,
    };
    let way = |part: f64, byte_ns: f64| {
        let byte_ns = work.reads * part * byte_ns;
        Shared {
            token_ns: Costs::LINE_BYTES * byte_ns,
            byte_ns,
        }
    };
    let memory = Shared {
        token_ns: 0.0,
        byte_ns: (work.reads * fetched + own) * costs.memory_ns * flows / sockets,
    };
    let out = way(away * flows / (sockets * caches), costs.cache_link_ns);
    [memory, out, way(node * flows / sockets, costs.cross_ns)]
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
