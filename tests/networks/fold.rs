//! Communicators whose network folds: the small one of `tests/net_plugin/fold.c`, which counts.

use super::compile::compile;
use super::support;
use kolo::comm::{Communicator, RedOp};
use std::ffi::c_long;

/// Names the library to a process of its own, whose counters nobody else moves.
const LIBRARY: &str = "KOLO_TEST_FOLD_LIBRARY";

fn alone(version: u32) {
    let library = compile("fold.c", &format!("fold{version}"), version, &[]);
    let text = crate::alone::alone("fold::alone_folds", &[(LIBRARY, library.as_os_str())]);
    assert!(!text.contains("deregMr"), "version {version}: {text}");
}

#[test]
fn version_8_folds() {
    alone(8);
}

#[test]
fn version_9_folds() {
    alone(9);
}

#[test]
fn version_10_folds() {
    alone(10);
}

/// Reads a count of the library.
fn counted(name: &str) -> u64 {
    let library = std::env::var_os(LIBRARY).expect("the parent names the library");
    // SAFETY: the library is this test's own; the function takes nothing and gives a number.
    unsafe {
        let library = libloading::Library::new(library).unwrap();
        let count: libloading::Symbol<unsafe extern "C" fn() -> c_long> =
            library.get(name.as_bytes()).unwrap();
        u64::try_from(count()).unwrap()
    }
}

fn settings(library: &str, enable: &'static str) -> [(&'static str, String); 6] {
    [
        ("algo", "allreduce:collnet".to_string()),
        ("collnet_enable", enable.to_string()),
        ("net", "socket".to_string()),
        ("net_plugin", library.to_string()),
        ("buffsize", "64K".to_string()),
        ("direct", "false".to_string()),
    ]
}

fn threads(nodes: &[usize], enable: &'static str, body: impl Fn(&Communicator) + Sync) {
    let library = std::env::var(LIBRARY).unwrap();
    let settings = settings(&library, enable);
    let settings = settings
        .each_ref()
        .map(|(key, value)| (*key, value.as_str()));
    support::threads(nodes, &settings, body);
}

fn value(rank: u32, element: usize, iteration: usize) -> i64 {
    let mixed = u64::from(rank) * 7919 + element as u64 * 104_729 + iteration as u64 * 1_299_709;
    (mixed % 2003) as i64 - 1001
}

/// Sums, maxima and averages of one type, of every size: what all ranks should have.
fn all_reduces(comm: &Communicator, count: usize, iteration: usize) {
    let ranks = 0..comm.nranks();
    let of = |rank| move |e| value(rank, e, iteration);
    let send: Vec<i64> = (0..count).map(of(comm.rank())).collect();
    let mut recv = vec![i64::MIN; count];
    comm.all_reduce(&send, &mut recv, RedOp::SUM).unwrap();
    let sum = |e| {
        ranks
            .clone()
            .map(|rank| value(rank, e, iteration))
            .sum::<i64>()
    };
    assert!((0..count).all(|e| recv[e] == sum(e)), "sum of {count}");
    recv.fill(i64::MIN);
    comm.all_reduce(&send, &mut recv, RedOp::MAX).unwrap();
    let most = |e| {
        ranks
            .clone()
            .map(|rank| value(rank, e, iteration))
            .max()
            .unwrap()
    };
    assert!((0..count).all(|e| recv[e] == most(e)), "maximum of {count}");
    let mut halves: Vec<f64> = send.iter().map(|&x| x as f64 / 2.0).collect();
    comm.all_reduce_in_place(&mut halves, RedOp::AVG).unwrap();
    let mean = |e| sum(e) as f64 / 2.0 / f64::from(comm.nranks());
    assert!(
        (0..count).all(|e| halves[e] == mean(e)),
        "average of {count}"
    );
}

/// A type and an operation that the network does not fold: ranks do.
fn others(comm: &Communicator, count: usize) {
    let ranks = 0..comm.nranks();
    let small = |rank: u32, e: usize| (rank as usize + e) as u8 % 7;
    let send: Vec<u8> = (0..count).map(|e| small(comm.rank(), e)).collect();
    let mut recv = vec![0xaa; count];
    comm.all_reduce(&send, &mut recv, RedOp::SUM).unwrap();
    let sum = |e| ranks.clone().map(|rank| small(rank, e)).sum::<u8>();
    assert!((0..count).all(|e| recv[e] == sum(e)), "bytes");
    let send: Vec<i64> = (0..count).map(|e| value(comm.rank(), e, 0)).collect();
    let mut recv = vec![0; count];
    comm.all_reduce(&send, &mut recv, RedOp::MIN).unwrap();
    let least = |e| ranks.clone().map(|rank| value(rank, e, 0)).min().unwrap();
    assert!((0..count).all(|e| recv[e] == least(e)), "minimum");
}

const COUNTS: [usize; 7] = [1, 5, 700, 4097, 40_001, 0, 130_000];

/// Run alone in a process by the tests above. Nodes of equal and unequal sizes, more columns than
/// one, ranks without a column; every byte that heads have for each other goes through the network,
/// which folds as many tokens as the plan has, and no head sends data to another one.
#[test]
#[ignore = "the body of a test that needs a process of its own"]
fn alone_folds() {
    for nodes in [&[0, 1][..], &[0, 1, 2], &[0, 1, 0, 1], &[0, 0, 1, 1, 1]] {
        let before = (counted("kolo_test_folds"), counted("kolo_test_fold_bytes"));
        let heads = *nodes.iter().max().unwrap() + 1;
        threads(nodes, "1", |comm| {
            for (iteration, count) in COUNTS.into_iter().enumerate() {
                all_reduces(comm, count, iteration);
            }
            comm.barrier().unwrap();
        });
        let folds = counted("kolo_test_folds") - before.0;
        let bytes = counted("kolo_test_fold_bytes") - before.1;
        // Three all-reduces of 8 bytes an element, of which each head gives its share.
        let elements = COUNTS.iter().sum::<usize>();
        assert_eq!(bytes, (3 * 8 * elements * heads) as u64, "nodes {nodes:?}");
        assert!(folds >= 3 * 6, "{folds} folds, nodes {nodes:?}");
        assert_eq!(counted("kolo_test_fold_open"), 0, "nodes {nodes:?}");
    }
    let before = counted("kolo_test_folds");
    threads(&[0, 1, 0, 1], "1", |comm| {
        others(comm, 5000);
        all_reduces(comm, 100, 3);
        others(comm, 300);
    });
    let some = counted("kolo_test_folds");
    assert!(
        some > before,
        "only what the network does not know is left to ranks"
    );
    threads(&[0, 1, 0, 1], "0", |comm| all_reduces(comm, 5000, 1));
    assert_eq!(counted("kolo_test_folds"), some, "nobody asked for it");
    aborted_under_way();
}

/// The network may still write where an operation under way has its result: the memory stays
/// registered until the group is closed (the library refuses otherwise, which the parent reads).
fn aborted_under_way() {
    let settings = settings(&std::env::var(LIBRARY).unwrap(), "1");
    let settings = settings
        .each_ref()
        .map(|(key, value)| (*key, value.as_str()));
    support::threads_that_own(&[0, 1], &settings, |comm| {
        if comm.rank() == 1 {
            while counted("kolo_test_fold_flying") == 0 {
                std::thread::yield_now();
            }
            comm.abort().unwrap();
        } else {
            let mut recv = vec![i64::MIN; 4097];
            let error = comm.all_reduce(&vec![7; 4097], &mut recv, RedOp::SUM);
            let error = error.expect_err("rank 1 has not come").to_string();
            assert!(error.contains("rank 1 called CommAbort"), "{error}");
        }
        comm.destroy().unwrap();
    });
    let left = ["kolo_test_fold_open", "kolo_test_fold_flying"].map(counted);
    assert_eq!(left, [0, 0], "groups are closed");
}

/// Where no library folds, ranks do, and say why.
#[test]
fn ranks_fold_where_the_network_does_not() {
    let settings = settings("that-nobody-has", "1");
    let settings = settings
        .each_ref()
        .map(|(key, value)| (*key, value.as_str()));
    support::threads(&[0, 1, 1], &settings, |comm| all_reduces(comm, 3000, 2));
}
