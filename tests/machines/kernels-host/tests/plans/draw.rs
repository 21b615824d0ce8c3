//! Draws of calls, sizes, and how they run.

use super::call::{Call, Draft, Sizes};
use super::run::Run;
use kolo::algo::{Entry, REGISTRY};
use kolo::dtype::{DataType, ReduceOp};
use kolo::exec::cuda::launch::INLINE_BYTES;
use kolo::plan::{
    Algorithm, Collective, Emitter, Layout, Nodes, Plan, Program, Protocol, Shape, Window,
};

pub const PROTOCOLS: [Protocol; 3] = [Protocol::Simple, Protocol::Ll, Protocol::Ll128];

/// The seed of everything that is drawn; `KOLO_TEST_SEED` draws it again.
pub fn seed() -> u64 {
    let seed = std::env::var("KOLO_TEST_SEED").ok();
    let seed = seed.and_then(|text| text.parse().ok()).unwrap_or(15);
    println!("KOLO_TEST_SEED={seed}");
    seed
}

/// Algorithms whose plans all ranks run together.
pub fn entries() -> impl Iterator<Item = &'static Entry> {
    // A network that folds is no device's.
    let fits = |entry: &&Entry| {
        !entry.collective.is_point_to_point() && entry.algorithm != Algorithm::Switch
    };
    REGISTRY.iter().filter(fits)
}

pub fn entry(collective: Collective, algorithm: Algorithm) -> &'static Entry {
    let is_it = |entry: &&Entry| entry.collective == collective && entry.algorithm == algorithm;
    entries().find(is_it).expect("a registered algorithm")
}

/// An exchange whose lanes receive before they send: where a lane that waits held up the others,
/// nobody would ever send.
pub static RECEIVE_FIRST: Entry = Entry {
    algorithm: Algorithm::Bundle,
    collective: Collective::AllToAll,
    plan: receive_first,
    least_tokens: |_| 1,
    most_rounds: 0,
    all_blocks: false,
    channels: 1,
    most_pieces: |_, _| 1,
    most_ranks: 64,
    by_node: false,
    one_memory: false,
    direct: false,
};

fn receive_first(shape: &Shape, _: &Nodes) -> Plan {
    let mut e = Emitter::new(*shape, shape.nranks, Layout::Blocks);
    e.lane(0).copy(i64::from(shape.rank));
    let peers = || (0..shape.nranks).filter(|&peer| peer != shape.rank);
    for peer in peers() {
        let from = e.lane(0).from(peer);
        e.recv(from, i64::from(peer));
    }
    for peer in peers() {
        let to = e.lane(0).to(peer);
        e.send(to, i64::from(peer));
    }
    e.finish()
}

pub fn draft(
    entry: &'static Entry,
    ranks: u32,
    protocol: Protocol,
    random: &mut fastrand::Rng,
) -> Draft {
    let steps = [(1, 1), (4, 2), (4, 1), (2, 2), (4, 4)][random.usize(0..5)];
    let least = (entry.least_tokens)(steps.0 / steps.1);
    // Slots hold at least the tokens that the algorithm needs at once.
    let steps = if least * steps.1 <= 8 { steps } else { (1, 1) };
    let grid = (random.u32(1..=3), 32 * random.u32(2..=3));
    let count = match random.u32(0..4) {
        0 => random.usize(0..4),
        1 => random.usize(0..100),
        _ => random.usize(0..1200),
    };
    let folds = entry.collective.reduces();
    Draft {
        entry,
        ranks,
        root: match entry.collective.has_root() {
            true => random.u32(0..ranks),
            false => 0,
        },
        channels: random.u16(1..=2),
        protocol,
        dtype: DataType::NCCL[random.usize(0..12)],
        op: folds.then(|| ReduceOp::NCCL[random.usize(0..6)]),
        sizes: Sizes {
            slot_bytes: 512 * random.usize(1..=4),
            steps,
            grid,
            count,
        },
        in_place: random.bool(),
        shift: [0, 0, 1, 3][random.usize(0..4)],
        seed: random.u64(..),
    }
}

/// A sum of floats in a ring of 3 or 4 ranks, out of place: only results are written to the output.
pub fn sum(protocol: Protocol, random: &mut fastrand::Rng) -> Call {
    let ring = entry(Collective::AllReduce, Algorithm::Ring);
    let draft = Draft {
        dtype: DataType::Float32,
        op: Some(ReduceOp::Sum),
        in_place: false,
        ..draft(ring, random.u32(3..=4), protocol, random)
    };
    draft.call().expect("one piece fits")
}

/// A call with sizes that fit it.
pub fn call(
    entry: &'static Entry,
    ranks: u32,
    protocol: Protocol,
    random: &mut fastrand::Rng,
) -> Call {
    call_with(entry, ranks, protocol, |sizes| sizes, random)
}

/// Draws a call with some sizes given, until it fits.
pub fn call_with(
    entry: &'static Entry,
    ranks: u32,
    protocol: Protocol,
    fixed: impl Fn(Sizes) -> Sizes,
    random: &mut fastrand::Rng,
) -> Call {
    loop {
        let mut draft = draft(entry, ranks, protocol, random);
        draft.sizes = fixed(draft.sizes);
        if let Some(call) = draft.call() {
            return call;
        }
    }
}

/// How calls like this one run.
pub fn how(call: &Call, random: &mut fastrand::Rng) -> Run {
    Run {
        seed: random.u64(..),
        // Lanes of one block may wait for those of another.
        resident_blocks: random.u32(3..=4).max(call.sizes.grid.0),
        is_weak: true,
        most_switches: 100_000_000,
        abort: None,
    }
}

/// 0: the image of rank 0 travels in the launch; 1: it fits shared memory; 2: it does not.
pub fn image_kind(call: &Call) -> usize {
    let plan = &call.pairs[0];
    let bytes = Program::lower(plan).expect("a program").image().len()
        + plan.lanes.len() * size_of::<Window>();
    usize::from(bytes > INLINE_BYTES) + usize::from(bytes > 16_384)
}
