//! Communicators that share devices: all that is in flight fits a device, in whichever order it
//! comes.
//!
//! Each test runs in a process of its own, whose devices run few blocks.

use super::graphs::Graphs;
use super::processes::{part, run_in_processes};
use super::ranks::{BLOCKS_SET, Buffer, Rank, software_gpu, sum};
use super::streams::{one, wanted};
use kolo::bootstrap::ThreadsBootstrap;
use kolo::cuda::{copy_async, drop_unused};
use kolo::exec::cuda::blocks::held;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Words of a call.
const COUNT: usize = 1500;
/// Every call takes as many channels as it may.
const ALL_CHANNELS: [(&str, &str); 1] = [("min_nchannels", "4")];

/// Runs a test in a process whose devices run so many blocks; false in this process.
fn runs_elsewhere(test: &str, blocks: &str, variables: &[(&str, &str)]) -> bool {
    if part().is_some() {
        software_gpu();
        return false;
    }
    let variables = [&[(BLOCKS_SET, blocks)], variables].concat();
    run_in_processes(("ledger", test), 1, &variables, None);
    true
}

/// Runs `body` as each rank of so many communicators, all of which are on these devices.
fn each_of(comms: usize, devices: &[u32], body: impl Fn(&[Rank]) + Sync) {
    let mut groups: Vec<_> = (0..comms)
        .map(|_| ThreadsBootstrap::group(devices.len() as u32).into_iter())
        .collect();
    std::thread::scope(|scope| {
        let body = &body;
        for &device in devices {
            let next = |group: &mut std::vec::IntoIter<_>| group.next().expect("a member");
            let members: Vec<ThreadsBootstrap> = groups.iter_mut().map(next).collect();
            scope.spawn(move || {
                let join = |member| Rank::join(member, device, &ALL_CHANNELS).expect("it is made");
                let ranks: Vec<Rank> = members.into_iter().map(join).collect();
                body(&ranks);
                for rank in &ranks {
                    rank.comm.async_error().expect("it works");
                    rank.comm.destroy().expect("a clean end");
                }
            });
        }
    });
}

/// A call's buffers, with data for a value.
fn buffers(rank: &Rank, value: u64) -> (Buffer, Buffer) {
    let data = one(rank, value, COUNT);
    (rank.buffer(&data), rank.poisoned(8 * COUNT))
}

fn put(rank: &Rank, (send, recv): &(Buffer, Buffer)) {
    let call = sum(send.at(0), recv.at(0), COUNT);
    rank.put(&call).expect("begun");
}

fn check(rank: &Rank, recv: &Buffer, value: u64) {
    let wanted = wanted(rank.comm.nranks(), value, COUNT);
    assert!(rank.read(recv) == wanted, "value {value}");
}

/// Even ranks begin with one communicator and odd ones with the other, by turns; nobody waits
/// between the calls.
fn cross(ranks: &[Rank]) {
    for round in 0..25 {
        let steps: Vec<_> = (0..3)
            .map(|step| {
                let value = |comm: u64| 1000 * round + 100 * comm + step;
                [0, 1].map(|comm| (value(comm), buffers(&ranks[comm as usize], value(comm))))
            })
            .collect();
        for (step, pair) in steps.iter().enumerate() {
            let first = (ranks[0].number() as usize + step) % 2;
            for comm in [first, 1 - first] {
                put(&ranks[comm], &pair[comm].1);
            }
        }
        for pair in &steps {
            for (rank, (value, (_, recv))) in ranks.iter().zip(pair) {
                check(rank, recv, *value);
            }
        }
    }
    ranks.iter().for_each(Rank::has_done_its_steps);
}

#[test]
fn calls_of_two_communicators_begin_in_opposite_orders() {
    let name = "calls_of_two_communicators_begin_in_opposite_orders";
    if !runs_elsewhere(name, "4", &[]) {
        each_of(2, &[0, 1], cross);
    }
}

/// Four kernels on each device, whose four blocks are all that it runs.
#[test]
fn ranks_that_share_devices_begin_in_opposite_orders() {
    let name = "ranks_that_share_devices_begin_in_opposite_orders";
    if !runs_elsewhere(name, "4", &[]) {
        each_of(2, &[0, 0, 1, 1], cross);
    }
}

/// Some ranks replay a graph of one communicator and then call on the other, some begin with the
/// call.
#[test]
fn graphs_of_one_communicator_cross_calls_of_another() {
    let name = "graphs_of_one_communicator_cross_calls_of_another";
    if runs_elsewhere(name, "4", &[]) {
        return;
    }
    each_of(2, &[0, 1], |ranks| {
        let graphs = Graphs::load();
        let (of_graph, of_calls) = (&ranks[0], &ranks[1]);
        let summed = buffers(of_graph, 0);
        let graph = graphs.capture(of_graph, || put(of_graph, &summed));
        for round in 0..25 {
            let new = of_graph.buffer(&one(of_graph, 50 * round, COUNT));
            let (from, to) = (new.at(0) as u64, summed.0.at(0) as u64);
            // SAFETY: both are buffers of that length.
            unsafe { copy_async(&of_graph.context, to, from, 8 * COUNT, of_graph.stream.id()) }
                .expect("new data");
            // Both streams are idle, so that what is put first begins first.
            of_graph.stream.synchronize().expect("copied");
            let values: Vec<u64> = (0..3).map(|step| 7000 + 10 * round + step).collect();
            let calls: Vec<_> = values.iter().map(|&it| buffers(of_calls, it)).collect();
            for (step, call) in (0..).zip(&calls) {
                if (of_graph.number() + step) % 2 == 0 {
                    graphs.launch(of_graph, graph[1]);
                    put(of_calls, call);
                } else {
                    put(of_calls, call);
                    graphs.launch(of_graph, graph[1]);
                }
            }
            for (value, (_, recv)) in values.iter().zip(&calls) {
                check(of_calls, recv, *value);
            }
            check(of_graph, &summed.1, 50 * round);
        }
        graphs.destroy(graph);
    });
}

/// Blocks are free again when their communicator is gone, and its graphs.
#[test]
fn blocks_are_given_back() {
    if runs_elsewhere("blocks_are_given_back", "16", &[]) {
        return;
    }
    let barrier = Barrier::new(2);
    let all_hold = |blocks: [u32; 2], when: &str| {
        barrier.wait();
        assert_eq!([held(0), held(1)], blocks, "{when}");
        barrier.wait();
    };
    let mut groups = [(); 4].map(|()| ThreadsBootstrap::group(2).into_iter());
    std::thread::scope(|scope| {
        for device in 0..2 {
            let members = groups.each_mut().map(|group| group.next().expect("it"));
            scope.spawn(move || {
                let mut members = members.into_iter();
                let mut join = || {
                    let member = members.next().expect("a member");
                    Rank::join(member, device, &ALL_CHANNELS).expect("a communicator")
                };
                let end = |rank: Rank| rank.comm.destroy().expect("a clean end");
                let first = join();
                all_hold([4; 2], "a quarter");
                end(first);
                all_hold([0; 2], "nothing is left");
                let second = join();
                all_hold([4; 2], "a full share again");
                let graphs = Graphs::load();
                let call = buffers(&second, 3);
                let graph = graphs.capture(&second, || put(&second, &call));
                graphs.launch(&second, graph[1]);
                check(&second, &call.1, 3);
                end(second);
                all_hold([4; 2], "the graph has them");
                let third = join();
                all_hold([7; 2], "a quarter of what the graph leaves");
                graphs.destroy(graph);
                // A thread of the driver tells that it is gone.
                let since = Instant::now();
                while held(device) != 3 && since.elapsed() < Duration::from_secs(20) {
                    std::thread::sleep(Duration::from_millis(1));
                    drop_unused();
                }
                all_hold([3; 2], "the graph is gone");
                end(third);
                let fourth = join();
                all_hold([4; 2], "a full share again");
                end(fourth);
            });
        }
    });
}

/// More communicators than blocks: each works as long as they take turns, and a warning names each
/// device once for each communicator that found none.
#[test]
fn communicators_beyond_the_blocks_work_by_turns() {
    let name = "communicators_beyond_the_blocks_work_by_turns";
    if part().is_none() {
        let log = std::env::temp_dir().join(format!("kolo-{}-ledger.log", std::process::id()));
        let file = log.to_str().expect("a path");
        runs_elsewhere(name, "2", &[("KOLO_DEBUG_FILE", file)]);
        let text = std::fs::read_to_string(&log).expect("a log");
        let _ = std::fs::remove_file(&log);
        for (device, others, lines) in [(0, 1, 1), (0, 2, 1), (1, 2, 1), (1, 1, 0)] {
            let line = format!(
                "CUDA device {device} runs 2 blocks at a time, and {others} other communicators"
            );
            assert_eq!(text.matches(&line).count(), lines, "{line}: {text}");
        }
        assert!(text.contains("Destroy communicators") && text.contains("KOLO_NTHREADS"));
        return;
    }
    software_gpu();
    each_of(3, &[0, 0, 1], |ranks| {
        for round in 0..10 {
            for (rank, comm) in ranks.iter().zip(0..) {
                let value = 100 * round + comm;
                let call = buffers(rank, value);
                put(rank, &call);
                check(rank, &call.1, value);
            }
        }
        ranks.iter().for_each(Rank::has_done_its_steps);
    });
}
