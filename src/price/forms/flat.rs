//! Ring and one-shot.

use super::call::Call;
use super::hop::Hop;
use super::shared::{Commons, Flows};
use super::work::{FOLD_ON, PASS_ON, Work};
use crate::plan::Collective;
use crate::price::cluster::Level;
use crate::price::costs::Carrier;

/// A row of ranks, each of which hands over to the next one.
#[derive(Clone, Copy)]
pub(super) enum ChainOrder {
    /// Around the nodes, passing each cache once.
    Ring,
    /// By number.
    Numbers,
}

/// Hand-overs to the next rank: which part of them crosses which level.
fn row_levels(call: &Call, row: ChainOrder) -> Vec<(f64, Level)> {
    let machine = &call.site.machine;
    let per_node = f64::from(machine.per_node);
    let counts = match row {
        ChainOrder::Ring => call.site.pairs.around,
        ChainOrder::Numbers => {
            let mut counts = call.site.pairs.by_number;
            let on = if machine.nodes > 1 {
                Level::Network
            } else {
                Level::Cache
            };
            counts[on as usize] += 1.0;
            counts
        }
    };
    let counts = counts.into_iter().zip(Level::ALL);
    // The farthest first, as they are met when a node is left.
    let parts = counts.rev().map(|(count, level)| (count / per_node, level));
    parts.filter(|(part, _)| *part > 0.0).collect()
}

/// Hand-overs along a row: how many of each kind, while nobody else is at work, and what all of
/// them at once do.
pub(super) struct Along {
    hops: Vec<(f64, Hop)>,
    all: Hop,
}

/// `steps` hand-overs along a row, `flows` of which are made at once on each node.
fn along(call: &Call, row: ChainOrder, steps: f64, work: Work, flows: f64) -> Along {
    let levels = row_levels(call, row);
    let hop = |level| {
        let flows = f64::from(u8::from(level == Level::Network));
        Hop::at(call, level, work, flows)
    };
    let hops = levels
        .iter()
        .map(|&(part, level)| (part * steps, hop(level)));
    let mut parts = [0.0; 4];
    for &(part, level) in levels.iter().filter(|(_, level)| *level != Level::Network) {
        parts[level as usize] = part;
    }
    let inside = parts.iter().sum::<f64>() > 0.0;
    Along {
        hops: hops.collect(),
        all: if inside {
            Hop::among(call, parts, work, flows)
        } else {
            hop(Level::Network)
        },
    }
}

impl Along {
    /// The time of all hand-overs one after the other.
    pub(super) fn way(&self, bytes: f64) -> f64 {
        let hops = self.hops.iter();
        hops.map(|(count, hop)| count * hop.path(bytes)).sum()
    }

    /// The time for which the busiest place is taken by tokens of so many bytes together.
    pub(super) fn busy(&self, tokens: f64, bytes: f64) -> f64 {
        let hops = self.hops.iter().map(|(_, hop)| hop.busy(tokens, bytes));
        hops.fold(self.all.busy(tokens, bytes), f64::max)
    }

    /// The longest [`Hop::turn`].
    fn turn(&self, bytes: f64, depth: f64) -> f64 {
        let hops = self.hops.iter().map(|(_, hop)| hop.turn(bytes, depth));
        hops.fold(0.0, f64::max)
    }

    /// All hand-overs where every rank takes part: `bytes` each, in `slices`, over connections of
    /// `depth` slices.
    fn lock_step(&self, bytes: f64, (slices, depth): (f64, f64)) -> f64 {
        let slice = bytes / slices;
        let hops = self.hops.iter();
        let steps: f64 = hops.clone().map(|(count, _)| count).sum();
        let path: f64 = hops
            .map(|(count, hop)| count * hop.crowded_path(slice))
            .sum();
        let rest = self.busy(slices - 1.0, bytes - slice);
        let turn = self.turn(slice, depth) * slices;
        (path + rest).max(steps * self.busy(slices, bytes).max(turn))
    }
}

pub(super) fn ring(call: &Call) -> Option<f64> {
    let chunk = call.geometry.chunk_bytes() as f64;
    let slices = f64::from(call.geometry.slices()) * call.channels;
    let depth = call.depth() * call.channels;
    let hops = call.n - 1.0;
    let lock = |steps: f64, work: Work, (rounds, bytes): (f64, f64)| {
        let around = along(
            call,
            ChainOrder::Ring,
            steps,
            work,
            f64::from(call.site.machine.per_node),
        );
        rounds * around.lock_step(bytes, (slices, depth))
    };
    Some(match call.collective {
        Collective::AllReduce => {
            let (rounds, bytes) = call.rounds(chunk * call.n);
            let each = (rounds, bytes / call.n);
            lock(hops, FOLD_ON, each) + lock(hops, PASS_ON, each)
        }
        Collective::AllGather => lock(hops, PASS_ON, call.rounds(chunk)),
        Collective::ReduceScatter => lock(hops, FOLD_ON, call.rounds(chunk)),
        Collective::Broadcast => pipeline(call, ChainOrder::Ring, PASS_ON),
        Collective::Reduce => pipeline(call, ChainOrder::Ring, FOLD_ON),
        _ => return None,
    })
}

/// A chain through all ranks: the first piece goes all the way, the others follow.
pub(super) fn pipeline(call: &Call, row: ChainOrder, work: Work) -> f64 {
    pipeline_beside(call, row, work, work)
}

/// [`pipeline`], where a rank hands a piece on by the first part of its work.
pub(super) fn pipeline_beside(call: &Call, row: ChainOrder, first: Work, work: Work) -> f64 {
    let chunk = call.geometry.chunk_bytes() as f64;
    let (rounds, bytes) = call.rounds(chunk);
    let (piece, pieces) = (bytes / call.channels, rounds * call.channels);
    let chain = along(call, row, call.n - 1.0, work, at_work(call, pieces));
    let turn = chain.turn(piece, call.depth()) / call.channels;
    let way = along(call, row, call.n - 1.0, first, 0.0).way(piece);
    way + (pieces - 1.0) * chain.busy(1.0, piece).max(turn)
}

/// The chain inside a node, through which so many pieces pass.
pub(super) fn inside(call: &Call, work: Work, pieces: f64) -> Along {
    let parts = call.site.pairs.along;
    let counted = parts.into_iter().zip(Level::ALL);
    let hop = |(count, level)| (count, Hop::at(call, level, work, 0.0));
    let hops = counted.filter(|(count, _)| *count > 0.0).map(hop);
    let last = f64::from((call.site.machine.per_node - 1).max(1));
    Along {
        hops: hops.collect(),
        all: Hop::among(
            call,
            parts.map(|count| count / last),
            work,
            at_work(call, pieces),
        ),
    }
}

/// Ranks of a node that have a piece at once: those of the busiest socket, times the sockets.
fn at_work(call: &Call, pieces: f64) -> f64 {
    let machine = &call.site.machine;
    let sockets = f64::from(machine.sockets.max(1));
    f64::from(machine.per_node).min(pieces * sockets)
}

/// Time between pieces of a chain whose ranks do `work` for each.
pub(super) fn pace(call: &Call, row: ChainOrder, work: Work, pieces: f64, bytes: f64) -> f64 {
    let chain = along(call, row, call.n - 1.0, work, at_work(call, pieces));
    chain.busy(1.0, bytes).max(chain.turn(bytes, call.depth()))
}

/// Publish once, and read everybody's or the root's.
pub(super) fn one_shot(call: &Call) -> Option<f64> {
    let others = call.n - 1.0;
    let (reads, all_write) = match call.collective {
        Collective::AllReduce | Collective::AllGather | Collective::Barrier => (others, true),
        Collective::Reduce | Collective::Scan | Collective::Exscan => (others, true),
        Collective::ReduceScatter | Collective::AllToAll => (others, true),
        Collective::Broadcast | Collective::Scatter => (1.0, false),
        _ => return None,
    };
    let (machine, costs) = (&call.site.machine, &call.site.costs);
    let bytes = match call.collective {
        Collective::Barrier => 0.0,
        // A token holds the blocks of all.
        Collective::ReduceScatter | Collective::AllToAll | Collective::Scatter => {
            call.bytes * call.n
        }
        _ => call.bytes,
    };
    let work = Work {
        steps: 1.0,
        sends: 1.0,
        locals: 1.0,
        ..Work::default()
    };
    let publish = Hop::at(call, machine.widest(), work, 1.0);
    let switches = match machine.crowded() {
        true => costs.switch_ns,
        false => 0.0,
    };
    let turns = |all: bool| if all { publish.crowd } else { 1.0 };
    let writing = publish.core_ns + switches + bytes * publish.core_byte_ns;
    let reading = read_all(call, reads, bytes) + switches;
    let all_read = call.collective != Collective::Reduce;
    let reading = reading * turns(all_read);
    let shared = shared_by_readers(call, reads, bytes);
    let links = one_shot_links(call, reads, bytes);
    let written = writing * turns(all_write) + links;
    Some(match call.collective {
        // Over pairs.
        Collective::Reduce => written + publish.latency_ns + reading.max(shared),
        // While readers wait for the line, the links carry it to those before.
        _ if !all_write => written + (call.served_ns() + reading).max(publish.latency_ns + shared),
        _ => written + call.served_ns() + reading.max(shared),
    })
}

/// Time of a core to read `reads` tokens, which come from near and far, and fold or store them.
fn read_all(call: &Call, reads: f64, bytes: f64) -> f64 {
    let costs = &call.site.costs;
    let (mut token_ns, mut byte_ns) = (0.0, 0.0);
    for (part, level) in call.everybody() {
        let cost = costs.level(level);
        token_ns += reads * part * cost.overhead_ns;
        byte_ns += reads * part * cost.fetch_ns(costs.read_ns);
    }
    let steps = match call.collective {
        // The first rank of a scan drops all tokens, one by one.
        Collective::AllGather | Collective::Scan | Collective::Exscan => reads,
        Collective::AllToAll | Collective::Scatter => 2.0 * reads,
        _ => 1.0,
    };
    let stores = match call.collective {
        Collective::Broadcast => 1.0,
        _ if call.collective.reduces() => 1.0,
        _ => reads,
    };
    byte_ns += costs.write_ns * stores;
    if call.collective.reduces() {
        byte_ns += costs.read_ns + costs.fold_ns * reads;
    }
    steps * costs.step_ns + token_ns + bytes * byte_ns
}

/// Time that the interfaces of a node need for tokens from and to other nodes.
fn one_shot_links(call: &Call, reads: f64, bytes: f64) -> f64 {
    let machine = &call.site.machine;
    let cost = call.site.costs.level(Level::Network);
    let everybody = call.everybody();
    let far = everybody.iter().find(|(_, level)| *level == Level::Network);
    let Some((part, _)) = far.filter(|_| cost.carrier == Carrier::Wire) else {
        return 0.0;
    };
    let far = (call.n - 1.0) * part;
    let flows = f64::from(machine.per_node) / f64::from(machine.nics.max(1));
    let (tokens, sends) = match call.collective {
        Collective::Broadcast | Collective::Scatter => (far, far),
        Collective::Reduce => (reads * part, 0.0),
        _ => (reads * part * flows, far),
    };
    let sent = cost.overhead_ns + bytes * cost.carry_ns;
    tokens * (cost.gap_ns + bytes * cost.byte_ns) + sends * sent
}

/// Time of memory, and of the ways out of caches and sockets, for what all readers read.
fn shared_by_readers(call: &Call, reads: f64, bytes: f64) -> f64 {
    let reduces = call.collective.reduces();
    let work = Work {
        reads,
        locals: f64::from(u8::from(reduces)),
        writes: if reduces { 1.0 } else { reads },
        ..Work::default()
    };
    let flows = match call.collective {
        Collective::Broadcast | Collective::Scatter => Flows::FromOne,
        Collective::Reduce => Flows::ToOne,
        _ => Flows::Spread(f64::from(call.site.machine.per_node)),
    };
    Commons::of(call, call.parts(), work, flows).taken(1.0, bytes)
}
