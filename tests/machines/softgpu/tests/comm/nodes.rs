//! Ranks on several nodes: devices whose data pass through memory of the host and a network. The
//! nodes are threads of one process that are told different names; between them are sockets.

use super::calls::{COLLECTIVES, draw, seed};
use super::drawn;
use super::graphs::{Graphs, replay};
use super::groups::all_to_all;
use super::ranks::{POISON, on_nodes, sum};
use kolo::base::Code;
use kolo::comm::Inspect;
use std::sync::Barrier;

#[test]
fn every_collective_crosses_nodes() {
    let seed = seed();
    for (per_node, nranks) in [(1, 2), (2, 4), (2, 5)] {
        let devices: Vec<u32> = (0..nranks).collect();
        on_nodes(per_node, &devices, &[], |rank| {
            let mut random = fastrand::Rng::with_seed(seed ^ u64::from(nranks));
            for collective in COLLECTIVES {
                let calls = if drawn::is_full() { 2 } else { 1 };
                for _ in 0..calls {
                    draw(collective, nranks, &mut random).check(rank);
                }
            }
            rank.has_done_its_steps();
        });
    }
}

/// Lines stay within a node, whatever the protocol: between nodes there are counts.
#[test]
fn protocols_and_algorithms_that_are_named_cross_nodes() {
    let seed = seed();
    let of = |proto| ["ring", "tree", "rd"].map(|algo| (proto, algo));
    let all = ["simple", "ll", "ll128"].map(|proto| of(proto).to_vec());
    for (proto, algo) in drawn::of_each("named between nodes", all, 1) {
        let settings = [("proto", proto), ("algo", algo)];
        on_nodes(2, &[2, 0, 5, 1], &settings, |rank| {
            let mut random = fastrand::Rng::with_seed(seed);
            for collective in COLLECTIVES {
                draw(collective, 4, &mut random).check(rank);
            }
            rank.has_done_its_steps();
        });
    }
}

#[test]
fn messages_of_a_group_cross_nodes() {
    let seed = seed();
    on_nodes(2, &[0, 1, 2, 3], &[], |rank| all_to_all(rank, seed));
}

/// Several rounds of all slots on every channel, one call behind the other.
#[test]
fn large_sums_follow_each_other_across_nodes() {
    const COUNT: usize = 300_001;
    on_nodes(2, &[0, 1, 2, 3], &[], |rank| {
        let word = |call: u64, of: u64, i: usize| (call + 1) * (of + 1) * (i as u64 + 7);
        let mut kept = Vec::new();
        for call in 0..3 {
            let mine = (0..COUNT).map(|i| word(call, rank.number().into(), i));
            let mine: Vec<u8> = mine.flat_map(u64::to_le_bytes).collect();
            let (send, recv) = (rank.buffer(&mine), rank.poisoned(mine.len()));
            rank.put(&sum(send.at(0), recv.at(0), COUNT)).expect("put");
            kept.push((send, recv));
        }
        for (call, (_, recv)) in (0..).zip(&kept) {
            let wanted = (0..COUNT).map(|i| (0..4).map(|of| word(call, of, i)).sum::<u64>());
            let wanted: Vec<u8> = wanted.flat_map(u64::to_le_bytes).collect();
            assert!(rank.read(recv) == wanted, "rank {}", rank.number());
        }
        rank.has_done_its_steps();
    });
}

/// At each replay the graph says by itself what will pass between nodes.
#[test]
fn graphs_replay_across_nodes_between_other_calls() {
    on_nodes(1, &[0, 1], &[], |rank| {
        replay(rank, if drawn::is_full() { 1000 } else { 250 });
        // Nothing but calls on the device has connected.
        assert_ne!(rank.comm.network_connections(), (0, 0));
    });
    on_nodes(2, &[0, 1, 2], &[], |rank| replay(rank, 60));
}

/// Kernels that wait for a rank of another node leave when that aborts, and write nothing.
#[test]
fn an_abort_on_one_node_ends_kernels_on_another() {
    let (called, aborted) = (Barrier::new(4), Barrier::new(4));
    on_nodes(2, &[0, 1, 2, 3], &[], |rank| {
        let send = rank.buffer(&[1; 40_000]);
        let recv = rank.poisoned(40_000);
        // The connections are there already.
        rank.put(&sum(send.at(0), recv.at(0), 5000)).expect("put");
        assert!(rank.read(&recv).iter().all(|&byte| byte == 4));
        let recv = rank.poisoned(40_000);
        let is_last = rank.number() == 3;
        if !is_last {
            rank.put(&sum(send.at(0), recv.at(0), 5000)).expect("put");
        }
        called.wait();
        if is_last {
            rank.comm.abort().expect("aborted");
        }
        aborted.wait();
        let got = rank.read(&recv);
        let written = got.iter().filter(|&&byte| byte != POISON);
        assert_eq!(
            written.count(),
            0,
            "rank {}: nothing is whole",
            rank.number()
        );
        let error = rank.comm.async_error().expect_err("it has stopped");
        assert!(error.to_string().contains("rank 3"), "{error}");
    });
}

/// Nobody would move the data of a graph whose communicator is gone.
#[test]
fn a_communicator_stays_while_graphs_need_it_between_nodes() {
    on_nodes(1, &[0, 1], &[], |rank| {
        let (send, recv) = (rank.buffer(&[1; 80]), rank.poisoned(80));
        let graphs = Graphs::load();
        let graph = graphs.capture(rank, || {
            rank.put(&sum(send.at(0), recv.at(0), 10))
                .expect("captured");
        });
        let error = rank.comm.destroy().expect_err("a graph needs it");
        let text = error.to_string();
        assert_eq!(error.code, Code::InvalidUsage, "{text}");
        assert!(text.contains("1 calls of this communicator"), "{text}");
        // Nothing was done: it works as before.
        graphs.launch(rank, graph[1]);
        assert!(rank.read(&recv).iter().all(|&byte| byte == 2));
        graphs.destroy(graph);
    });
}
