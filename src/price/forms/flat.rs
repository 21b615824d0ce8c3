//! Ring and one-shot.

use super::call::Call;
use super::hop::{FOLD_ON, Hop, PASS_ON, Work, lock_step};
use crate::plan::Collective;
use crate::price::cluster::Level;
use crate::price::costs::Carrier;

/// A row of ranks, each of which hands over to the next one.
#[derive(Clone, Copy)]
pub(super) enum Row {
    /// Around the nodes, passing each cache once.
    Ring,
    /// By number.
    Numbers,
}

/// Hand-overs to the next rank: which part of them crosses which level.
fn row_levels(call: &Call, row: Row) -> Vec<(f64, Level)> {
    let machine = &call.site.machine;
    let per_node = f64::from(machine.per_node);
    let counts = match row {
        Row::Ring => machine.around(),
        Row::Numbers => {
            let mut counts = machine.by_number();
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

/// `steps` hand-overs along a row.
fn along(call: &Call, row: Row, steps: f64, work: Work) -> (Vec<(f64, Hop)>, Hop) {
    let levels = row_levels(call, row);
    let per_socket = f64::from(call.site.machine.per_node);
    let hop = |level| {
        let flows = if level == Level::Network {
            1.0
        } else {
            per_socket
        };
        Hop::at(call.site, level, work, flows)
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

pub(super) fn ring(call: &Call) -> Option<f64> {
    let chunk = call.geometry.chunk_bytes() as f64;
    let slices = f64::from(call.geometry.slices()) * call.channels;
    let depth = call.depth() * call.channels;
    let hops = call.n - 1.0;
    let lock = |steps: f64, work: Work, (rounds, bytes): (f64, f64)| {
        let (parts, slowest) = along(call, Row::Ring, steps, work);
        rounds * lock_step(&parts, bytes, (slices, depth), slowest)
    };
    Some(match call.collective {
        Collective::AllReduce => {
            let (rounds, bytes) = call.rounds(chunk * call.n);
            let each = (rounds, bytes / call.n);
            lock(hops, FOLD_ON, each) + lock(hops, PASS_ON, each)
        }
        Collective::AllGather => lock(hops, PASS_ON, call.rounds(chunk)),
        Collective::ReduceScatter => lock(hops, FOLD_ON, call.rounds(chunk)),
        Collective::Broadcast => pipeline(call, Row::Ring, PASS_ON),
        Collective::Reduce => pipeline(call, Row::Ring, FOLD_ON),
        _ => return None,
    })
}

/// A chain through all ranks: the first piece goes all the way, the others follow.
pub(super) fn pipeline(call: &Call, row: Row, work: Work) -> f64 {
    let chunk = call.geometry.chunk_bytes() as f64;
    let (pieces, bytes) = call.rounds(chunk);
    let piece = bytes / call.channels;
    let (parts, slowest) = along(call, row, call.n - 1.0, work);
    let way: f64 = parts
        .iter()
        .map(|(count, hop)| count * hop.path(piece))
        .sum();
    let turns = parts.iter().map(|(_, hop)| hop.turn(piece, call.depth()));
    let turn = turns.fold(0.0, f64::max) / call.channels;
    way + (pieces * call.channels - 1.0) * slowest.busy(1.0, piece).max(turn)
}

/// Time between pieces of a chain whose ranks do `work` for each.
pub(super) fn pace(call: &Call, row: Row, work: Work, bytes: f64) -> f64 {
    let (parts, slowest) = along(call, row, call.n - 1.0, work);
    let turns = parts.iter().map(|(_, hop)| hop.turn(bytes, call.depth()));
    slowest.busy(1.0, bytes).max(turns.fold(0.0, f64::max))
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
    let publish = Hop::at(call.site, machine.widest(), work, 1.0);
    let switches = match machine.crowded() {
        true => costs.switch_ns,
        false => 0.0,
    };
    let turns = |all: bool| if all { publish.crowd } else { 1.0 };
    let writing = publish.core_ns + switches + bytes * publish.core_byte_ns;
    let reading = read_all(call, reads, bytes) + switches;
    let all_read = call.collective != Collective::Reduce;
    let reading = (reading * turns(all_read)).max(shared_by_readers(call, reads, bytes));
    let links = one_shot_links(call, reads, bytes);
    Some(writing * turns(all_write) + publish.latency_ns + links + reading)
}

/// Time of a core to read `reads` tokens, which come from near and far, and fold or store them.
fn read_all(call: &Call, reads: f64, bytes: f64) -> f64 {
    let costs = &call.site.costs;
    let (mut token_ns, mut byte_ns) = (0.0, 0.0);
    for (part, level) in call.everybody() {
        let cost = costs.level(level);
        token_ns += reads * part * cost.overhead_ns;
        let fetch_ns = match cost.carrier {
            Carrier::Reader => cost.byte_ns,
            Carrier::Wire => costs.read_ns + cost.carry_ns,
        };
        byte_ns += reads * part * fetch_ns;
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

/// Time of memory, and of the way between sockets, for what all readers read.
fn shared_by_readers(call: &Call, reads: f64, bytes: f64) -> f64 {
    let (machine, costs) = (&call.site.machine, &call.site.costs);
    let per_socket = f64::from(machine.per_node) / f64::from(machine.sockets.max(1));
    let outside = f64::from(machine.per_node) - per_socket;
    let (readers, crossing) = match call.collective {
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
