//! Memory, and the ways out of caches and sockets: what the hand-overs of a node take of them
//! together.

use super::call::Call;
use super::work::Work;
use crate::price::cluster::Level;
use crate::price::costs::{Carrier, Costs};
use crate::price::pairs::Crossing;

/// Hand-overs that a node makes at once, by who makes them.
#[derive(Clone, Copy)]
pub(super) enum Flows {
    /// So many of its ranks, anywhere.
    Spread(f64),
    /// All of its ranks, from what one of them has written.
    FromOne,
    /// One rank, from what all have written.
    ToOne,
}

/// Time that something takes for a token beside its bytes, and for a byte.
#[derive(Clone, Copy, Default)]
pub(super) struct TokenTime {
    pub token_ns: f64,
    pub byte_ns: f64,
}

impl TokenTime {
    /// By the bytes of so many tokens.
    fn of_bytes(tokens: f64, byte_ns: f64) -> TokenTime {
        TokenTime {
            token_ns: 0.0,
            byte_ns: tokens * byte_ns,
        }
    }

    /// By them, and the lines that announce them.
    fn of_lines(tokens: f64, byte_ns: f64) -> TokenTime {
        TokenTime {
            token_ns: tokens * Costs::LINE_BYTES * byte_ns,
            byte_ns: tokens * byte_ns,
        }
    }

    pub fn by(&self, tokens: f64, bytes: f64) -> f64 {
        tokens * self.token_ns + bytes * self.byte_ns
    }
}

/// Time that the memory of a socket, the way out of a cache and that out of a socket are taken.
#[derive(Clone, Copy, Default)]
pub(super) struct Commons([TokenTime; 3]);

impl Commons {
    /// By ranks that do `work`, of which so many parts at each level.
    pub fn of(call: &Call, parts: [f64; 4], work: Work, flows: Flows) -> Commons {
        let (costs, machine) = (&call.site.costs, &call.site.machine);
        let at = |level: Level| match costs.level(level).carrier {
            Carrier::Reader => work.reads * parts[level as usize],
            Carrier::Wire => 0.0,
        };
        let [cache, socket, node] = [Level::Cache, Level::Socket, Level::Node].map(at);
        let away = socket + node;
        let fetched = if call.cached.tokens {
            away
        } else {
            away + cache
        };
        let own = if call.cached.buffers {
            0.0
        } else {
            work.locals + work.writes
        };
        let groups = |count: u32| f64::from(count.clamp(1, machine.per_node));
        let (sockets, caches) = (groups(machine.sockets), groups(machine.caches_of_node()));
        let others = f64::from(machine.per_node - 1);
        // Of all hand-overs: those that one memory, one cache and one socket has.
        let [memory, out, cross] = match flows {
            Flows::Spread(count) => [count / sockets, count / caches, count / sockets],
            Flows::FromOne => [others / sockets, others, others],
            Flows::ToOne => [
                1.0,
                1.0 / (caches - 1.0).max(1.0),
                1.0 / (sockets - 1.0).max(1.0),
            ],
        };
        Commons([
            TokenTime::of_bytes((fetched + own) * memory, costs.memory_ns),
            TokenTime::of_lines(away * out, costs.cache_link_ns),
            TokenTime::of_lines(node * cross, costs.cross_ns),
        ])
    }

    /// By pairs that were counted, whose readers do `work`.
    pub fn between(call: &Call, pairs: &Crossing, work: Work) -> Commons {
        let costs = &call.site.costs;
        let [away, near] = pairs.into;
        let fetched = away + if call.cached.tokens { 0.0 } else { near };
        let own = if call.cached.buffers {
            0.0
        } else {
            (work.locals + work.writes) * pairs.readers
        };
        Commons([
            TokenTime::of_bytes(work.reads * fetched + own, costs.memory_ns),
            TokenTime::of_lines(work.reads * pairs.cache, costs.cache_link_ns),
            TokenTime::of_lines(work.reads * pairs.socket, costs.cross_ns),
        ])
    }

    /// Both together.
    pub fn and(&self, other: &Commons) -> Commons {
        let sum = |kind: usize| TokenTime {
            token_ns: self.0[kind].token_ns + other.0[kind].token_ns,
            byte_ns: self.0[kind].byte_ns + other.0[kind].byte_ns,
        };
        Commons([0, 1, 2].map(sum))
    }

    /// The longest of them, for so many tokens of so many bytes together.
    pub fn taken(&self, tokens: f64, bytes: f64) -> f64 {
        let taken = self.0.iter().map(|taken| taken.by(tokens, bytes));
        taken.fold(0.0, f64::max)
    }
}
