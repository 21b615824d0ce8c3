//! Exchanges whose tokens hold many blocks, and casts: one writes what all read.

use super::call::Call;
use super::exchange::{
    EXCHANGE, EXCHANGE_FOLD, Exchanged, cores, doubling_blocks, exchange, guests_in, guests_out,
    tokens,
};
use super::hop::Hop;
use super::shared::{Commons, Flows};
use super::spread::{RECEIVE, phase, two_shot, two_shot_by_cast};
use super::work::Work;
use crate::plan::Collective;
use crate::price::cluster::Level;
use crate::price::costs::Carrier;

/// Blocks that PAT aggregates in one token at most.
const AGGREGATED: f64 = 32.0;
/// Bytes of the smallest piece that is not the last: 64 elements, of four bytes.
const LEAST_PIECE: f64 = 256.0;

/// Halves out, and back.
pub(super) fn halving_doubling(call: &Call) -> Option<f64> {
    let n = call.site.machine.nranks();
    Some(match call.collective {
        Collective::AllReduce => {
            let per_round = 2.0 * call.geometry.chunk_bytes() as f64;
            let (rounds, bytes) = call.rounds(per_round);
            rounds * halve_and_double(call, (n, 1), bytes)
        }
        Collective::ReduceScatter | Collective::AllGather => {
            let (rounds, bytes) = call.packed_rounds(call.n / 2.0);
            rounds * halve_blocks(call, (n, 1), bytes)
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
pub(super) fn halve_and_double(call: &Call, among: (u32, u32), bytes: f64) -> f64 {
    let exchanges = halvings(among);
    let cores = cores(among.0);
    // Pieces begin at lines, so that of few bytes the first ones have all.
    let piece = (bytes / f64::from(cores)).max(LEAST_PIECE.min(bytes));
    let held = |&(distance, pieces): &(u32, f64)| (distance, pieces.min(bytes / piece.max(1.0)));
    let exchanges: Vec<_> = exchanges.iter().map(held).collect();
    let out = tokens(call, Exchanged::Partner, &exchanges, piece, EXCHANGE_FOLD);
    let back = tokens(call, Exchanged::Partner, &exchanges, piece, EXCHANGE);
    let guest = match among.0 == cores {
        true => 0.0,
        false => {
            guests_out(call, among.1, EXCHANGE).path(bytes)
                + guests_in(call, among.1, EXCHANGE_FOLD).path(bytes)
        }
    };
    out + back + guest
}

/// Reduce-scatter or all-gather of a block of `bytes` for each member.
pub(super) fn halve_blocks(call: &Call, among: (u32, u32), bytes: f64) -> f64 {
    let work = match call.collective {
        Collective::AllGather => EXCHANGE,
        _ => EXCHANGE_FOLD,
    };
    let cores = cores(among.0);
    let members = f64::from(among.0);
    // Blocks of all members that a core stands for.
    let each = members / f64::from(cores);
    let path = tokens(
        call,
        Exchanged::Partner,
        &halvings(among),
        bytes * each,
        work,
    );
    if among.0 == cores {
        return path;
    }
    // All blocks go in two tokens, in or out, and the own one by itself the other way.
    let all = bytes * members;
    let (one, two) = match call.collective {
        Collective::AllGather => (
            guests_in(call, among.1, work),
            guests_out(call, among.1, work),
        ),
        _ => (
            guests_out(call, among.1, EXCHANGE),
            guests_in(call, among.1, work),
        ),
    };
    let ends = one.path(bytes) + two.path(all) + two.busy_alone(1.0, 0.0);
    path + ends + 2.0 * call.own(bytes)
}

/// One token for every bit of the distance.
pub(super) fn bruck(call: &Call) -> Option<f64> {
    let n = call.site.machine.nranks();
    match call.collective {
        Collective::AllGather => {
            let exchanges: Vec<_> = call
                .distances()
                .map(|d| (d, f64::from(d.min(n - d))))
                .collect();
            Some(doubling_blocks(call, &exchanges))
        }
        Collective::AllToAll => {
            // Blocks that were there and blocks that came go in one token each.
            let (rounds, bytes) = call.packed_rounds(call.n / 2.0);
            let token = bytes * call.n / 4.0;
            let both = |d| {
                let hop = exchange(call, Exchanged::Ahead, d, EXCHANGE);
                2.0 * hop.crowded_path(token)
            };
            let costs = &call.site.costs;
            let own = costs.step_ns + bytes * (costs.read_ns + costs.write_ns);
            Some(rounds * (own + call.distances().map(both).sum::<f64>()))
        }
        _ => None,
    }
}

/// Trees of all blocks, walked together: log n hand-overs, and one more for each further
/// token.
pub(super) fn pat(call: &Call) -> Option<f64> {
    let work = match call.collective {
        Collective::AllGather => EXCHANGE,
        Collective::ReduceScatter => EXCHANGE_FOLD,
        _ => return None,
    };
    let width = 2f64.powf((call.n / AGGREGATED).max(1.0).log2().ceil());
    let most = (call.n / width / 2.0).ceil();
    let (rounds, bytes) = call.packed_rounds(most);
    let distances: Vec<u32> = call.distances().collect();
    let far = distances.iter().filter(|&&d| f64::from(d) >= width);
    let mut time = 0.0;
    for &distance in far {
        let blocks = (call.n / f64::from(distance) / 2.0).ceil();
        time += exchange(call, Exchanged::Ahead, distance, work).path_of_all(blocks * bytes);
    }
    // Below `width` each token holds the blocks of that distance in all trees.
    let blocks = (call.n / width).ceil();
    for step in 1..width as u32 {
        let distance = 1u32 << step.trailing_zeros();
        time += exchange(call, Exchanged::Ahead, distance, work).path_of_all(blocks * bytes);
    }
    if call.collective == Collective::ReduceScatter {
        // Sums begin as copies of the own blocks, those of half of the ranks.
        let copied = Work {
            locals: 1.0,
            writes: 1.0,
            ..Work::default()
        };
        let begun = if width > 1.0 { call.n / 2.0 } else { call.n };
        let flows = f64::from(call.site.machine.per_node);
        time += Hop::at(call, Level::Cache, copied, flows).busy(1.0, begun * bytes);
    }
    Some(rounds * time)
}

/// Two-shot, whose results are cast on one node.
pub(super) fn two_shot_or_casts(call: &Call) -> Option<f64> {
    match call.collective {
        Collective::AllReduce | Collective::AllGather if call.site.machine.nodes == 1 => nvls(call),
        _ => two_shot(call),
    }
}

/// Two-shot and one-shot, with casts for results.
pub(super) fn nvls(call: &Call) -> Option<f64> {
    let others = call.n - 1.0;
    match call.collective {
        Collective::ReduceScatter => two_shot(call),
        Collective::AllReduce => two_shot_by_cast(call),
        Collective::AllGather => {
            let chunk = call.geometry.chunk_bytes() as f64;
            let (rounds, bytes) = call.rounds(chunk);
            Some(rounds * cast_to_all(call, bytes, others))
        }
        Collective::Broadcast => {
            let chunk = call.geometry.chunk_bytes() as f64;
            let (rounds, bytes) = call.rounds(chunk);
            let one = cast_to_all(call, bytes, 1.0);
            let next = cast_busy(call, bytes);
            Some(one + (rounds - 1.0) * next)
        }
        _ => None,
    }
}

/// One token of `bytes` cast by each rank (or one), and `reads` of them read by each.
fn cast_to_all(call: &Call, bytes: f64, reads: f64) -> f64 {
    let publish = cast_write(call, bytes) + call.site.costs.step_ns;
    let read = phase(call, reads, bytes, RECEIVE, true);
    let links = cast_links(call, bytes);
    if reads > 1.0 {
        return publish + call.served_ns() + links * flows(call) + read.core;
    }
    // While readers wait for the line, the links carry it to those before.
    let shared = shared_by_all(call, bytes);
    publish + links + (call.served_ns() + read.core).max(read.latency + shared)
}

/// Time of memory and of the ways between caches for one cast.
fn shared_by_all(call: &Call, bytes: f64) -> f64 {
    Commons::of(call, call.parts(), RECEIVE, Flows::FromOne).taken(1.0, bytes)
}

fn cast_busy(call: &Call, bytes: f64) -> f64 {
    let read = phase(call, 1.0, bytes, RECEIVE, true).core;
    cast_write(call, bytes)
        .max(read.max(shared_by_all(call, bytes)))
        .max(cast_links(call, bytes))
}

/// Time of a core to write a token that all read.
fn cast_write(call: &Call, bytes: f64) -> f64 {
    let work = Work {
        steps: 1.0,
        sends: 1.0,
        locals: 1.0,
        writes: 1.0,
        ..Work::default()
    };
    let hop: Hop = Hop::at(call, Level::Cache, work, 1.0);
    let far = call.site.costs.level(Level::Network);
    let sent = outside(call) * (far.overhead_ns + bytes * far.carry_ns);
    (hop.core_ns + bytes * hop.core_byte_ns) * hop.crowd + sent
}

/// Ranks on other nodes.
fn outside(call: &Call) -> f64 {
    let far = call.site.costs.level(Level::Network);
    match far.carrier {
        Carrier::Wire => call.n - f64::from(call.site.machine.per_node),
        Carrier::Reader => 0.0,
    }
}

fn flows(call: &Call) -> f64 {
    let machine = &call.site.machine;
    f64::from(machine.per_node) / f64::from(machine.nics.max(1))
}

/// Time that the messages of one cast to other nodes take on an interface.
fn cast_links(call: &Call, bytes: f64) -> f64 {
    let far = call.site.costs.level(Level::Network);
    outside(call) * (far.gap_ns + bytes * far.byte_ns)
}
