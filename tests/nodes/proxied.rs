//! Ranks that send through another rank of their node.

use super::support::{AbortOnPanic, POISON, input, made_on, sum};
use kolo::comm::Inspect;
use kolo::comm::{Communicator, RedOp};
use std::time::{Duration, Instant};

const THROUGH: &[(&str, &str)] = &[("pxn", "always"), ("buffsize", "64K"), ("timeout", "60")];

/// Ranks on nodes of three; the first of each sends for all.
fn made(nranks: u32) -> Vec<Communicator> {
    made_on(nranks, THROUGH, |rank| rank / 3)
}

fn each(comms: &[Communicator], body: impl Fn(&Communicator) + Sync) {
    std::thread::scope(|scope| {
        for comm in comms {
            scope.spawn(|| {
                let _guard = AbortOnPanic(comm);
                body(comm);
            });
        }
    });
}

fn collectives(comm: &Communicator, count: usize, iteration: usize) {
    let (me, n) = (comm.rank() as usize, comm.nranks() as usize);
    let send = input(me, count, iteration);
    let mut recv = vec![POISON; count];
    comm.all_reduce(&send, &mut recv, RedOp::SUM).unwrap();
    assert!((0..count).all(|e| recv[e] == sum(n, e, iteration)));
    let mut all = vec![POISON; count * n];
    comm.all_gather(&send, &mut all).unwrap();
    assert!((0..n).all(|rank| all[rank * count..][..count] == input(rank, count, iteration)));
    let mut copy = match me == iteration % n {
        true => send.clone(),
        false => vec![POISON; count],
    };
    comm.broadcast(&mut copy, (iteration % n) as u32).unwrap();
    assert_eq!(copy, input(iteration % n, count, iteration));
    let mut back = vec![POISON; count * n];
    comm.all_to_all(&all, &mut back).unwrap();
    assert!((0..n).all(|rank| back[rank * count..][..count] == input(me, count, iteration)));
}

/// Every kind of traffic, and only the first rank of each node has sending connections.
#[test]
fn one_rank_of_each_node_sends_for_all() {
    let comms = made(8);
    each(&comms, |comm| {
        for (iteration, count) in [1, 100, 5000, 70_000, 3].into_iter().enumerate() {
            collectives(comm, count, iteration);
        }
        comm.barrier().unwrap();
        let (own, proxied) = (comm.network_connections().0, comm.proxied_connections());
        match comm.rank() {
            // The others of the node send to all ranks elsewhere.
            0 | 3 => assert!(own >= 5 && proxied >= 10, "{own} {proxied}"),
            6 => assert!(own >= 6 && proxied >= 6, "{own} {proxied}"),
            rank => assert_eq!((own, proxied), (0, 0), "rank {rank}"),
        }
    });
    // In any order, by one thread.
    comms.iter().for_each(|comm| comm.destroy().unwrap());
}

/// A rank that sends for others leaves long before they do.
#[test]
fn a_rank_that_sends_for_others_leaves_first() {
    const COUNT: usize = 100_000;
    let comms = made(6);
    each(&comms, |comm| {
        comm.barrier().unwrap();
        match comm.rank() {
            1 | 2 => {
                std::thread::sleep(Duration::from_millis(200));
                for iteration in 0..3 {
                    comm.send(
                        &input(comm.rank() as usize, COUNT, iteration),
                        3 + comm.rank(),
                    )
                    .unwrap();
                }
            }
            4 | 5 => {
                let mut data = vec![POISON; COUNT];
                for iteration in 0..3 {
                    comm.recv(&mut data, comm.rank() - 3).unwrap();
                    assert!(data == input(comm.rank() as usize - 3, COUNT, iteration));
                }
            }
            _ => {}
        }
        comm.destroy().unwrap();
    });
}

/// A rank that has sent leaves at once, its peer reads later. (That the end waits is shown where a
/// network can be slow, in `proxy::net`.)
#[test]
fn what_was_sent_through_another_rank_arrives_after_its_sender_has_left() {
    for (iteration, count) in [1, 5000, 300_000].into_iter().enumerate() {
        let comms = made(6);
        each(&comms, |comm| {
            let mut data = input(2, count, iteration);
            match comm.rank() {
                2 => comm.send(&data, 4).unwrap(),
                4 => {
                    std::thread::sleep(Duration::from_millis(200));
                    data.fill(POISON);
                    comm.recv(&mut data, 2).unwrap();
                    assert!(data == input(2, count, iteration), "{count}");
                }
                _ => {}
            }
            comm.destroy().unwrap();
        });
    }
}

/// A stop ends what is under way through other ranks, whoever stops.
#[test]
fn an_abort_ends_what_goes_through_others() {
    for aborter in [0, 1, 5] {
        let comms = made(6);
        each(&comms, |comm| {
            comm.barrier().unwrap();
            if comm.rank() == aborter {
                std::thread::sleep(Duration::from_millis(100));
                comm.abort().unwrap();
                return;
            }
            let (start, data) = (Instant::now(), input(1, 200_000, 0));
            // Nobody receives.
            let result = comm.send(&data, (comm.rank() + 3) % 6);
            let error = result.and_then(|()| comm.barrier()).unwrap_err();
            let named = format!("rank {aborter} called CommAbort");
            assert!(error.what.contains(&named), "{error}");
            assert!(start.elapsed() < Duration::from_secs(10), "{error}");
        });
        comms.iter().for_each(|comm| comm.destroy().unwrap());
    }
}

/// Who waits too long hears through whom it sends, as that one may be the late one.
#[test]
fn a_warning_names_the_rank_in_between() {
    let settings = [("pxn", "always"), ("timeout", "1")];
    let comms = made_on(4, &settings, |rank| rank / 2);
    each(&comms, |comm| {
        if comm.rank() == 1 {
            let error = comm.recv(&mut [POISON; 10], 3).unwrap_err().to_string();
            assert!(
                error.contains("rank 3") && error.contains("sends through rank 0"),
                "{error}"
            );
        }
    });
    comms.iter().for_each(|comm| comm.destroy().unwrap());
}
