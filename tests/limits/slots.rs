//! Scenarios of the memory of slots, as the ranks of a job play them.

use super::job::Context;
use super::scenarios::{all, bytes_of_files};
use kolo::comm::{CommConfig, Communicator, RedOp};
use kolo::transport::slots;

/// Calls of each kind and size, often enough that each slot had its turn.
pub fn small_calls(context: &Context) {
    let comm = context.join(&[]).expect("init");
    comm.barrier().expect("a barrier");
    let before = bytes_of_files();
    comm.barrier().expect("a barrier");
    let ranks = comm.nranks() as usize;
    for bytes in [2048, 16 << 10, 32 << 10, 64 << 10] {
        let mut sums = vec![1_f32; bytes / 4];
        let (blocks, mut got) = (vec![7_u8; bytes], vec![0_u8; bytes]);
        for _ in 0..9 {
            comm.all_reduce_in_place(&mut sums, RedOp::MAX)
                .expect("a sum");
            comm.all_to_all(&blocks, &mut got).expect("blocks");
            let mine = &blocks[..bytes / ranks];
            comm.all_gather(mine, &mut got).expect("blocks");
            comm.broadcast(&mut got, 0).expect("data");
        }
        assert!(sums.iter().all(|&sum| sum == 1.0) && got == blocks);
    }
    comm.barrier().expect("a barrier");
    let taken = bytes_of_files() - before;
    assert!(taken <= (1 << 20) * ranks as u64, "{} KiB", taken >> 10);
    comm.barrier().expect("a barrier");
}

/// Bytes of the largest call.
const MOST_BYTES: usize = 300 << 10;
/// Bytes beyond the bound that one rank takes, at most, as tokens that a peer has not taken yet
/// cannot be given back. Without giving back words, or slots, a rank takes more.
const OF_A_CALL: usize = 512 << 10;
/// Bytes that one communicator of two ranks keeps, at most.
const OF_A_HEAD: u64 = 700 << 10;

/// One call, drawn alike on all ranks, whose result is looked at.
fn any_call(comm: &Communicator, rng: &mut fastrand::Rng, place: &str) {
    let (me, ranks) = (comm.rank() as usize, comm.nranks() as usize);
    let (kind, seed) = (rng.u8(..5), rng.u8(..));
    let most = [600, 20_000, MOST_BYTES / ranks][rng.usize(..3)];
    let count = rng.usize(1..most);
    let value = |rank: usize, at: usize| (rank * 31 + at * 7) as u8 ^ seed;
    match kind {
        0 => {
            let mine: Vec<u8> = (0..count * ranks).map(|at| value(me, at)).collect();
            let mut got = vec![0; count * ranks];
            comm.all_to_all(&mine, &mut got).expect("blocks");
            let wanted = |at: usize| value(at / count, me * count + at % count);
            let is_right = got.iter().enumerate().all(|(at, &byte)| byte == wanted(at));
            assert!(is_right, "all-to-all of {count}, {place}");
        }
        // Some messages in a row, which may all be under way.
        1 => {
            let (from, to) = (rng.usize(..ranks), rng.usize(..ranks));
            for number in 0..if from == to { 0 } else { rng.usize(1..40) } {
                let value = |at: usize| value(from, at + number);
                let mut data: Vec<u8> = (0..count).map(value).collect();
                if me == from {
                    comm.send(&data, to as u32).expect("sent");
                } else if me == to {
                    data.fill(0);
                    comm.recv(&mut data, from as u32).expect("received");
                    let is_right = (0..count).all(|at| data[at] == value(at));
                    assert!(is_right, "message {number} of {count}, {place}");
                }
            }
        }
        2 => {
            let mine: Vec<u8> = (0..count).map(|at| value(me, at)).collect();
            let mut got = vec![0; count * ranks];
            comm.all_gather(&mine, &mut got).expect("blocks");
            let is_right = got
                .iter()
                .enumerate()
                .all(|(at, &byte)| byte == value(at / count, at % count));
            assert!(is_right, "all-gather of {count}, {place}");
        }
        3 => {
            let mut data: Vec<u8> = (0..count).map(|at| value(me, at)).collect();
            comm.all_reduce_in_place(&mut data, RedOp::MAX)
                .expect("maxima");
            let most = |at: usize| (0..ranks).map(|rank| value(rank, at)).max();
            let is_right = (0..count).all(|at| Some(data[at]) == most(at));
            assert!(is_right, "all-reduce of {count}, {place}");
        }
        _ => {
            let root = rng.usize(..ranks);
            let mut data: Vec<u8> = (0..count).map(|at| value(me, at)).collect();
            comm.broadcast(&mut data, root as u32).expect("data");
            let is_right = (0..count).all(|at| data[at] == value(root, at));
            assert!(is_right, "broadcast of {count}, {place}");
        }
    }
}

/// Each family of communicators uses another protocol, or any.
fn config(of_rank: &str, family: usize) -> CommConfig {
    let protocol = ["LL", "LL128", "Simple", ""][family % 4];
    let overrides = [
        ("direct", "off"),
        ("slot_memory", of_rank),
        ("proto", protocol),
    ];
    let overrides = overrides.iter().filter(|(_, value)| !value.is_empty());
    CommConfig {
        overrides: overrides
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .collect(),
        ..CommConfig::default()
    }
}

/// Far more communicators than the bound has room for, used in a drawn order.
pub fn bounded(context: &Context) {
    const BOUND: usize = 2 << 20;
    let parent = context.join(&[("direct", "off"), ("slot_memory", "2M")]);
    let parent = parent.expect("init");
    let mut seed = [fastrand::u64(..)];
    parent.broadcast(&mut seed, 0).expect("a seed");
    let mut rng = fastrand::Rng::with_seed(seed[0]);
    let children: Vec<Communicator> = (0..30)
        .map(|number| parent.split(Some(0), 0, &config("2M", number)))
        .map(|child| child.expect("a split").expect("a color"))
        .collect();
    for call in 0..300 {
        let at = rng.usize(..children.len());
        let place = format!("seed {}, call {call} on {at}", seed[0]);
        any_call(&children[at], &mut rng, &place);
        let taken = slots::taken();
        assert!(taken <= BOUND + OF_A_CALL, "{} KiB, {place}", taken >> 10);
    }
    parent.barrier().expect("a barrier");
    // Heads are never given back, nor are the first pages of connections.
    let bytes = bytes_of_files();
    let most = 2 * (BOUND + OF_A_CALL) as u64 + 31 * OF_A_HEAD;
    assert!(bytes <= most, "{} KiB", bytes >> 10);
    parent.barrier().expect("a barrier");
    drop(children);
    assert!(slots::taken() <= OF_A_CALL, "{}", slots::taken());
}

/// Ranks are threads, and so are the users of communicators: each gives back beside the others.
pub fn bounded_threads(_: &Context) {
    const BOUND: usize = 3 * (256 << 10);
    let families: Vec<_> = (0..5)
        .map(|number| Communicator::init_all(3, &config("256K", number)).expect("init"))
        .collect();
    let seed = fastrand::u64(..);
    std::thread::scope(|scope| {
        for (number, family) in families.iter().enumerate() {
            scope.spawn(move || {
                all(family, |comm| {
                    let mut rng = fastrand::Rng::with_seed(seed ^ number as u64);
                    for call in 0..60 {
                        let place = format!("seed {seed}, call {call} of family {number}");
                        any_call(comm, &mut rng, &place);
                    }
                });
            });
        }
    });
    // Now nothing is in flight: who comes next has all others give back.
    all(&families[0], |comm| {
        let mut data = vec![1_u8; MOST_BYTES];
        for _ in 0..3 {
            comm.all_reduce_in_place(&mut data, RedOp::MAX)
                .expect("ones");
        }
    });
    let taken = slots::taken();
    assert!(
        taken <= BOUND + 3 * OF_A_CALL,
        "{} KiB, seed {seed}",
        taken >> 10
    );
}
