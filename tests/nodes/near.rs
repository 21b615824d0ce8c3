//! Ranks of one node read each other's buffers where they lie, though the call goes to other nodes.

use super::support::{AbortOnPanic, POISON, input, made_on, sum, value};
use kolo::comm::Inspect;
use kolo::comm::{Communicator, RedOp};
use std::sync::atomic::{AtomicU64, Ordering};

/// Elements of a sum or a broadcast, so that the last chunk is a short one.
const COUNT: usize = 300_001;
const ALGORITHMS: [&str; 7] = ["hier", "ring", "hd", "tree", "binomial", "leader", "auto"];
/// The node of each rank: in order, dealt in turn, of unequal size, on three nodes.
const LAYOUTS: [&[u32]; 4] = [
    &[0, 0, 1, 1],
    &[0, 1, 0, 1],
    &[0, 0, 0, 1, 1],
    &[0, 0, 1, 1, 2, 2],
];

fn each(comms: &[Communicator], body: impl Fn(&Communicator) + Sync) {
    std::thread::scope(|scope| {
        for comm in comms {
            scope.spawn(|| {
                let _guard = AbortOnPanic(comm);
                body(comm);
            });
        }
    });
    std::thread::scope(|scope| {
        for comm in comms {
            scope.spawn(|| comm.destroy().unwrap());
        }
    });
}

fn sums(comm: &Communicator, iteration: usize) {
    let (rank, ranks) = (comm.rank() as usize, comm.nranks() as usize);
    let send = input(rank, COUNT, iteration);
    let mut recv = vec![POISON; COUNT];
    comm.all_reduce(&send, &mut recv, RedOp::SUM).unwrap();
    assert!((0..COUNT).all(|e| recv[e] == sum(ranks, e, iteration)));
    // What this rank has shown is its own again.
    let mut data = send;
    comm.all_reduce_in_place(&mut data, RedOp::SUM).unwrap();
    assert!((0..COUNT).all(|e| data[e] == sum(ranks, e, iteration)));
    let root = iteration as u32 % comm.nranks();
    recv.fill(POISON);
    comm.reduce(&input(rank, COUNT, iteration), &mut recv, RedOp::SUM, root)
        .unwrap();
    assert!(root != comm.rank() || (0..COUNT).all(|e| recv[e] == sum(ranks, e, iteration)));
}

fn copies(comm: &Communicator, iteration: usize) {
    let (rank, ranks) = (comm.rank() as usize, comm.nranks() as usize);
    let root = iteration as u32 % comm.nranks();
    let mut data = match root == comm.rank() {
        true => input(rank, COUNT, iteration),
        false => vec![POISON; COUNT],
    };
    comm.broadcast(&mut data, root).unwrap();
    assert!((0..COUNT).all(|e| data[e] == value(root as usize, e, iteration)));
    let block = COUNT / ranks;
    let mut all = vec![POISON; block * ranks];
    comm.all_gather(&input(rank, block, iteration), &mut all)
        .unwrap();
    assert!((0..block * ranks).all(|at| all[at] == value(at / block, at % block, iteration)));
    let mut part = vec![POISON; block];
    comm.reduce_scatter(
        &input(rank, block * ranks, iteration),
        &mut part,
        RedOp::SUM,
    )
    .unwrap();
    assert!((0..block).all(|e| part[e] == sum(ranks, rank * block + e, iteration)));
}

#[test]
fn mates_read_each_others_buffers_where_they_lie() {
    for nodes in LAYOUTS {
        for algorithm in ALGORITHMS {
            let settings = [("algo", algorithm), ("buffsize", "256K")];
            let comms = made_on(nodes.len() as u32, &settings, |rank| nodes[rank as usize]);
            let shown: Vec<AtomicU64> = nodes.iter().map(|_| AtomicU64::new(0)).collect();
            each(&comms, |comm| {
                for iteration in 0..3 {
                    sums(comm, iteration);
                    copies(comm, iteration);
                }
                let node = nodes[comm.rank() as usize] as usize;
                shown[node].fetch_add(comm.tokens_shown().unwrap(), Ordering::Relaxed);
            });
            for &node in nodes {
                let shown = shown[node as usize].load(Ordering::Relaxed);
                assert!(shown > 0, "{algorithm} on {nodes:?}, node {node}");
            }
        }
    }
}

/// With the setting off, and in small calls, everything passes slots.
#[test]
fn others_pass_slots() {
    for (settings, count) in [(&[("direct", "false")][..], COUNT), (&[], 1000)] {
        let comms = made_on(4, settings, |rank| rank / 2);
        each(&comms, |comm| {
            let send = input(comm.rank() as usize, count, 0);
            let mut recv = vec![POISON; count];
            comm.all_reduce(&send, &mut recv, RedOp::SUM).unwrap();
            assert!((0..count).all(|e| recv[e] == sum(4, e, 0)));
            assert_eq!(comm.tokens_shown().unwrap(), 0);
        });
    }
}

/// A root may write its buffer as soon as its call has returned, however late its mates read.
#[test]
fn a_call_returns_when_its_mates_have_read() {
    let comms = made_on(4, &[("algo", "ring")], |rank| rank / 2);
    each(&comms, |comm| {
        let is_root = comm.rank() == 0;
        let mut random = fastrand::Rng::with_seed(u64::from(comm.rank()));
        let mut data = vec![POISON; COUNT];
        for iteration in 0..20 {
            if is_root {
                data.copy_from_slice(&input(0, COUNT, iteration));
            } else {
                std::thread::sleep(std::time::Duration::from_micros(random.u64(..2000)));
            }
            comm.broadcast(&mut data, 0).unwrap();
            // From the end, which is read last.
            data.reverse();
            let is_right = |e: usize| data[COUNT - 1 - e] == value(0, e, iteration);
            assert!(is_root || (0..COUNT).all(is_right), "{iteration}");
            data.fill(POISON);
        }
        assert_eq!(
            comm.tokens_shown().unwrap() > 0,
            comm.rank() != 1 && comm.rank() != 3
        );
    });
}
