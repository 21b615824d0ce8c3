//! Two messages at once (`send_recv`), and ranks that are nobody.

use super::support::{AbortOnPanic, POISON, input, made};
use kolo::base::Code;
use kolo::comm::Communicator;
use kolo::comm::Inspect;
use kolo::{NO_RANK, RedOp};

const COUNTS: &[usize] = &[0, 1, 511, 512, 513, 40_000, 300_001];

/// Neighbours along the line of ranks.
fn line(comm: &Communicator) -> (u32, u32) {
    let above = Some(comm.rank() + 1).filter(|rank| *rank < comm.nranks());
    let below = comm.rank().checked_sub(1);
    (above.unwrap_or(NO_RANK), below.unwrap_or(NO_RANK))
}

/// Data that must have come from a rank: its own, or nothing.
fn wanted(from: u32, count: usize, round: usize) -> Vec<i64> {
    match from {
        NO_RANK => vec![POISON; count],
        rank => input(rank as usize, count, round),
    }
}

fn on_each(comms: &[Communicator], body: impl Fn(&Communicator) + Sync) {
    std::thread::scope(|scope| {
        for comm in comms {
            let body = &body;
            scope.spawn(move || {
                let _guard = AbortOnPanic(comm);
                body(comm);
            });
        }
    });
    for comm in comms {
        let (executed, planned) = comm.step_counts().expect("alive");
        assert_eq!(executed, planned, "there is no path beside the plan");
        comm.destroy().expect("destroy");
    }
}

/// Blocking: every rank sends up and receives from below, all around the ring, and to itself.
#[test]
fn shifts_along_a_line_and_a_ring() {
    for n in [1, 2, 3, 5] {
        on_each(&made(n, &[("buffsize", "64K")]), |comm| {
            let (rank, n) = (comm.rank(), comm.nranks());
            let (above, below) = line(comm);
            let ways = [
                (above, below),
                (below, above),
                ((rank + 1) % n, (rank + n - 1) % n),
                (rank, rank),
                (NO_RANK, NO_RANK),
            ];
            for (round, &count) in COUNTS.iter().enumerate() {
                let send = input(rank as usize, count, round);
                for (to, from) in ways {
                    let mut recv = vec![POISON; count];
                    comm.send_recv(&send, to, &mut recv, from).unwrap();
                    assert!(
                        recv == wanted(from, count, round),
                        "{rank} of {n}: {count} {from}"
                    );
                }
            }
        });
    }
}

/// In a scope: several at once, in another order on every second rank, beside a collective.
#[test]
fn several_at_once_in_a_scope() {
    for n in [2, 4] {
        on_each(&made(n, &[("buffsize", "64K")]), |comm| {
            let (rank, (above, below)) = (comm.rank() as usize, line(comm));
            for (round, &count) in COUNTS.iter().enumerate() {
                let send = input(rank, count, round);
                let mut came = [vec![POISON; count], vec![POISON; count]];
                let (mine, mut total, [low, high]) = ([rank as i64], [POISON], &mut came);
                comm.scope(|scope| {
                    if rank % 2 == 0 {
                        scope.send_recv(&send, above, low, below)?;
                        scope.send_recv(&send, below, high, above)?;
                    } else {
                        scope.send_recv(&send, below, high, above)?;
                        scope.send_recv(&send, above, low, below)?;
                    }
                    scope.all_reduce(&mine, &mut total, RedOp::SUM)
                })
                .unwrap();
                assert!(
                    came[0] == wanted(below, count, round),
                    "{rank}: from below, {count}"
                );
                assert!(
                    came[1] == wanted(above, count, round),
                    "{rank}: from above, {count}"
                );
                let n = i64::from(comm.nranks());
                assert_eq!(total, [n * (n - 1) / 2]);
            }
        });
    }
}

/// Messages to and from nobody end at once, in a scope too; others must name a rank.
#[test]
fn nobody_sends_and_receives_nothing() {
    on_each(&made(1, &[]), |comm| {
        let (send, mut recv) = ([7i64; 3], [POISON; 3]);
        comm.send(&send, NO_RANK).unwrap();
        comm.recv(&mut recv, NO_RANK).unwrap();
        comm.scope(|scope| {
            scope.send(&send, NO_RANK)?;
            scope.recv(&mut recv, NO_RANK)
        })
        .unwrap();
        assert_eq!(recv, [POISON; 3]);
        let error = comm.send_recv(&send, 1, &mut recv, NO_RANK).unwrap_err();
        assert_eq!(error.code, Code::InvalidArgument);
        assert!(error.to_string().contains("SendRecv: peer 1"), "{error}");
        let error = comm.broadcast(&mut recv, NO_RANK).unwrap_err();
        assert!(error.to_string().contains("root -1"), "{error}");
    });
}
