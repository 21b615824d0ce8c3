//! The way of a call to the first store that another rank sees: how many files somebody opens who
//! follows it. Only files of kolo count; inlined functions do as well. A direct call has two ways:
//! the first store of its card, and the first move of its data from where they lie.

#![cfg(debug_assertions)]

use kolo::base::first_store::{Store, await_store, found};
use kolo::bootstrap::ThreadsBootstrap;
use kolo::comm::RawCalls;
use kolo::comm::{Call, Collective, CommConfig, Communicator, RedOp};
use kolo::dtype::DataType;
use std::sync::Mutex;

/// There is one place for what is found.
static ALONE: Mutex<()> = Mutex::new(());

/// Files of kolo on the way from the call to its first store, the store first.
fn files(nodes: [u32; 2], bytes: usize, store: Store) -> Vec<String> {
    let _alone = ALONE.lock().unwrap_or_else(|broken| broken.into_inner());
    let config = |node: u32| CommConfig {
        overrides: vec![
            ("hostid".into(), format!("node{node}")),
            ("socket_ifname".into(), "=lo".into()),
        ],
        ..CommConfig::default()
    };
    let start = std::sync::Barrier::new(2);
    let run = |member: ThreadsBootstrap, node: u32| {
        let comm = Communicator::init_bootstrap(Box::new(member), &config(node)).expect("init");
        let send = vec![f64::from(comm.rank() + 1); bytes / 8];
        let mut recv = vec![f64::NAN; bytes / 8];
        let call = Call {
            collective: Collective::AllReduce,
            send: send.as_ptr().cast(),
            recv: recv.as_mut_ptr().cast(),
            count: bytes / 8,
            dtype: DataType::Float64,
            op: RedOp::SUM,
            peer: 0,
        };
        for last in [false, true] {
            start.wait();
            if last && comm.rank() == 0 {
                await_store(store);
            }
            start.wait();
            // SAFETY: both buffers have as many elements, and outlive the call.
            unsafe { kolo::comm::enqueue(&comm.queue, &call, None).expect("all-reduce") };
            assert!(recv.iter().all(|&sum| sum == 3.0), "the sum of 1 and 2");
            recv.fill(f64::NAN);
        }
        comm.destroy().expect("destroy");
    };
    std::thread::scope(|scope| {
        for (member, node) in ThreadsBootstrap::group(2).into_iter().zip(nodes) {
            let run = &run;
            scope.spawn(move || run(member, node));
        }
    });
    let way = found().expect("a store was reached");
    let mut files: Vec<String> = Vec::new();
    for line in way.lines() {
        let Some((_, place)) = line.split_once("at ./src/") else {
            continue;
        };
        let file = place.split(':').next().unwrap_or(place).to_string();
        if file != "base/first_store.rs" && !files.contains(&file) {
            files.push(file);
        }
    }
    println!(
        "{bytes} bytes, {store:?}: {} files: {}",
        files.len(),
        files.join(" ")
    );
    files
}

/// From C three more are passed: the call's own, `guard.rs` and `comms.rs`, which finds the
/// communicator; from Fortran two more than from C, `kolo_fortran.c` and
/// `kolo_fortran_quick.c`.
const FROM_C: usize = 3;

#[test]
fn a_small_call_is_followed_through_few_files() {
    let files = files([0, 0], 8, Store::Line);
    assert!(files.len() + FROM_C <= 8, "{files:?}");
    assert_eq!(files[0], "wire/line.rs");
    assert_eq!(
        files.last().map(String::as_str),
        Some("comm/calling/enqueue.rs")
    );
}

/// Bytes of a call whose ranks read each other's buffers where they lie.
const DIRECT: usize = 4 << 20;

#[test]
fn a_direct_call_is_followed_to_its_first_card_through_few_files() {
    let files = files([0, 0], DIRECT, Store::Line);
    assert!(files.len() + FROM_C <= 14, "{files:?}");
    assert_eq!(files[0], "wire/line.rs");
}

#[test]
fn a_direct_call_is_followed_to_its_first_data_through_few_files() {
    let files = files([0, 0], DIRECT, Store::Data);
    assert!(files.len() + FROM_C <= 11, "{files:?}");
    assert_eq!(files[0], "exec/host/direct.rs");
}

#[test]
fn a_call_is_followed_to_a_socket_through_few_files() {
    let files = files([0, 1], 64 << 10, Store::Socket);
    assert!(files.len() + FROM_C <= 12, "{files:?}");
}
