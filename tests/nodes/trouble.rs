//! Tests of trouble on one node: all nodes are told.

use super::support::{input, made, made_on};
use kolo::base::Code;
use kolo::comm::{Communicator, RedOp};
use std::time::{Duration, Instant};

/// Runs `body` on a thread for each rank.
fn each(comms: &[Communicator], body: impl Fn(&Communicator) + Sync) {
    std::thread::scope(|scope| {
        for comm in comms {
            scope.spawn(|| body(comm));
        }
    });
}

/// The rank that aborts is on one node of four; ranks of all nodes wait for it.
#[test]
fn an_abort_is_heard_on_every_node() {
    let comms = made_on(7, &[], |rank| rank / 2);
    each(&comms, |comm| {
        if comm.rank() == 6 {
            std::thread::sleep(Duration::from_millis(300));
            comm.abort().unwrap();
            return;
        }
        let start = Instant::now();
        let error = comm.barrier().unwrap_err();
        assert_eq!(error.code, Code::RemoteError, "{error}");
        assert!(error.what.contains("rank 6 called CommAbort"), "{error}");
        assert!(start.elapsed() < Duration::from_secs(10), "{error}");
    });
    comms.iter().for_each(|comm| comm.destroy().unwrap());
}

/// The lookouts' ranks have left, and ranks without a connection to the aborting one wait for it.
#[test]
fn an_abort_is_heard_where_lookouts_have_left() {
    let comms = made_on(6, &[("timeout", "20")], |rank| rank / 2);
    each(&comms, |comm| {
        if comm.rank() % 2 == 0 {
            return comm.destroy().unwrap();
        }
        if comm.rank() == 1 {
            std::thread::sleep(Duration::from_millis(300));
            comm.abort().unwrap();
            return;
        }
        let start = Instant::now();
        let error = comm.recv(&mut [0_i64; 10], 1).unwrap_err();
        assert!(error.what.contains("rank 1 called CommAbort"), "{error}");
        assert!(start.elapsed() < Duration::from_secs(10), "{error}");
    });
    comms.iter().for_each(|comm| comm.destroy().unwrap());
}

/// Ranks of different nodes that call different things are named, with both calls.
#[test]
fn ranks_that_call_something_else_are_named() {
    let comms = made(4, &[]);
    each(&comms, |comm| {
        let mut data = input(comm.rank() as usize, 100, 0);
        let result = match comm.rank() {
            3 => comm.broadcast(&mut data, 0),
            _ => comm.all_reduce_in_place(&mut data, RedOp::SUM),
        };
        let error = result
            .and_then(|()| comm.barrier())
            .unwrap_err()
            .to_string();
        assert!(error.contains("rank 3"), "{error}");
        assert!(
            error.contains("Broadcast") && error.contains("AllReduce"),
            "{error}"
        );
    });
    comms.iter().for_each(|comm| comm.destroy().unwrap());
}

/// A rank that has sent leaves at once, and its peer reads later: all of it arrives.
#[test]
fn what_was_sent_arrives_after_its_sender_has_left() {
    for (iteration, count) in [1, 5000, 150_000, 2_000_000].into_iter().enumerate() {
        let comms = made(2, &[]);
        each(&comms, |comm| {
            let mut data = input(comm.rank() as usize, count, iteration);
            if comm.rank() == 0 {
                comm.send(&data, 1).unwrap();
            } else {
                std::thread::sleep(Duration::from_millis(300));
                data.fill(-1);
                comm.recv(&mut data, 0).unwrap();
                assert!(data == input(0, count, iteration), "{count}");
            }
            comm.destroy().unwrap();
        });
    }
}

/// Two ranks that leave with what neither of them will read do not wait for each other.
#[test]
fn what_nobody_reads_keeps_nobody() {
    // The message needs no connection but that of the sum, which is there.
    let comms = made(2, &[("max_nchannels", "1")]);
    let start = Instant::now();
    each(&comms, |comm| {
        let mut data = input(comm.rank() as usize, 1000, 0);
        comm.all_reduce_in_place(&mut data, RedOp::SUM).unwrap();
        comm.send(&data, 1 - comm.rank()).unwrap();
        comm.destroy().unwrap();
    });
    assert!(start.elapsed() < Duration::from_secs(10));
}

/// A rank of another node that has left is named by those who wait for it.
#[test]
fn a_rank_that_has_left_is_named() {
    for leaver in [0, 3] {
        let comms = made(4, &[]);
        each(&comms, |comm| {
            comm.barrier().unwrap();
            if comm.rank() == leaver {
                // It hears of it, too, if the others have called by then.
                if let Err(error) = comm.destroy() {
                    let error = error.to_string();
                    assert!(error.contains("without it"), "{error}");
                }
                return;
            }
            let error = comm.barrier().unwrap_err().to_string();
            assert!(error.contains(&format!("rank {leaver}")), "{error}");
            assert!(error.contains("has let go of the communicator"), "{error}");
        });
        comms.iter().for_each(|comm| comm.destroy().unwrap());
    }
}

/// With a limit, waiting for a rank of another node ends by an error that names it; those who have
/// called are not accused.
#[test]
fn a_late_rank_of_another_node_is_named() {
    let comms = made(4, &[("timeout", "2")]);
    each(&comms, |comm| {
        comm.barrier().unwrap();
        if comm.rank() == 2 {
            std::thread::sleep(Duration::from_secs(4));
            return;
        }
        let error = comm.barrier().unwrap_err().to_string();
        assert!(
            error.contains("rank 2 on") && error.contains("not called yet"),
            "{error}"
        );
    });
    comms.iter().for_each(|comm| comm.destroy().unwrap());
}
