//! Ranks that send before they receive: whom errors name, and what `check` makes of messages.

use super::support::{AbortOnPanic, POISON, input, made, ranks};
use super::within::within;
use kolo::base::Code;
use kolo::comm::Communicator;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Errors of all ranks where rank r sends so many elements to rank r + 1, around the ring, before
/// it receives.
fn heard(n: u32, count: usize, check: &'static str) -> Vec<kolo::Error> {
    within(120, move || {
        let comms = made(n, &[("timeout", "2"), ("check", check)]);
        let start = Barrier::new(n as usize);
        let each = |comm: &Communicator| {
            let (rank, next) = (comm.rank(), (comm.rank() + 1) % n);
            let mine = input(rank as usize, count, 3);
            start.wait();
            comm.send(&mine, next)
                .expect_err("nobody receives what is sent")
        };
        std::thread::scope(|scope| {
            let each = &each;
            let threads = comms.iter().map(|comm| scope.spawn(move || each(comm)));
            let threads: Vec<_> = threads.collect();
            let joined = threads.into_iter().map(|thread| thread.join().unwrap());
            joined.collect()
        })
    })
}

/// Every rank hears of the circle, from itself or from another one, and what to do.
fn names_the_circle(n: u32, count: usize, check: &'static str) {
    let errors = heard(n, count, check);
    assert!(errors.iter().any(|error| error.code == Code::Timeout));
    for (rank, error) in errors.iter().enumerate() {
        let text = error.to_string();
        let case = format!("rank {rank} of {n}, {count} elements, check {check}: {text}");
        for from in 0..n {
            let to = (from + 1) % n;
            let message = format!("rank {from} sends {} bytes to rank {to}", count * 8);
            assert!(text.contains(&message), "{message} is missing: {case}");
        }
        assert!(text.contains("waits in a Send itself"), "{case}");
        if error.code == Code::Timeout {
            assert!(error.remedy.contains("GroupStart"), "{case}");
            assert!(error.remedy.contains("SendRecv"), "{case}");
        }
    }
}

#[test]
fn long_messages_of_two_ranks_are_both_named() {
    names_the_circle(2, 400_000, "false");
}

#[test]
fn long_messages_around_a_ring_are_all_named() {
    names_the_circle(5, 400_000, "false");
}

/// One that goes into the memory of its connection, too: of no length does it pass by luck.
#[test]
fn with_check_short_messages_wait_for_their_receives_as_well() {
    names_the_circle(2, 1, "true");
    names_the_circle(3, 100, "true");
    names_the_circle(2, 100_000, "true");
}

/// A rank that waits for one that computes is not told of a circle.
#[test]
fn a_late_receiver_is_no_circle() {
    let error = within(120, || {
        let comms = made(2, &[("timeout", "1"), ("check", "true")]);
        comms[0].send(&[1_i64], 1).expect_err("rank 1 never comes")
    });
    let text = error.to_string();
    let late = "rank 1 on ";
    assert!(
        text.contains(late) && text.contains("has not called"),
        "{text}"
    );
    assert!(!text.contains("GroupStart"), "{text}");
}

/// With `check` a message is sent when it was received, whatever its size.
#[test]
fn with_check_a_send_returns_behind_its_receive() {
    for n in [2, 3] {
        for count in [1, 500, 3000, 100_000, 300_001] {
            within(120, move || {
                let comms = made(n, &[("check", "true")]);
                // The messages whose receive has begun.
                let begun = AtomicUsize::new(0);
                let (from, to) = (0, n - 1);
                std::thread::scope(|scope| {
                    scope.spawn(|| {
                        let _guard = AbortOnPanic(&comms[from]);
                        for message in 0..3 {
                            comms[from].send(&input(0, count, message), to).unwrap();
                            let begun = begun.load(Ordering::SeqCst);
                            assert!(begun > message, "{begun} of {message}, {count} elements");
                        }
                    });
                    scope.spawn(|| {
                        let comm = &comms[to as usize];
                        let _guard = AbortOnPanic(comm);
                        for message in 0..3 {
                            let mut found = vec![POISON; count];
                            std::thread::sleep(Duration::from_millis(30));
                            begun.store(message + 1, Ordering::SeqCst);
                            comm.recv(&mut found, from as u32).unwrap();
                            assert!(found == input(0, count, message), "{count} elements");
                        }
                    });
                });
            });
        }
    }
}

/// Messages that are in order pass with `check` as without: one rank after the other, in groups, to
/// oneself, and as halves of an exchange, between collectives.
#[test]
fn with_check_what_is_in_order_passes() {
    for n in [2, 3, 4] {
        within(120, move || {
            ranks(n, &[("check", "true"), ("buffsize", "64K")], passes);
        });
    }
}

fn passes(comm: &Communicator) {
    let (rank, n) = (comm.rank(), comm.nranks());
    let (next, last) = ((rank + 1) % n, (rank + n - 1) % n);
    for (round, count) in [0, 1, 511, 513, 40_000, 300_001].into_iter().enumerate() {
        let mine = input(rank as usize, count, round);
        let wanted = |from: u32| input(from as usize, count, round);
        // One after the other around the ring.
        let mut found = vec![POISON; count];
        if rank == 0 {
            comm.send(&mine, next).unwrap();
        }
        comm.recv(&mut found, last).unwrap();
        if rank != 0 {
            comm.send(&mine, next).unwrap();
        }
        assert!(found == wanted(last), "rank {rank}, {count} elements");
        let mut found = vec![POISON; count];
        comm.send_recv(&mine, last, &mut found, next).unwrap();
        assert!(found == wanted(next), "rank {rank}, {count} elements");
        let mut found = [vec![POISON; count], vec![POISON; count]];
        let [first, own] = &mut found;
        comm.scope(|scope| {
            scope.send(&mine, next)?;
            scope.send(&mine, rank)?;
            scope.recv(own, rank)?;
            scope.recv(first, last)
        })
        .unwrap();
        assert!(found == [wanted(last), wanted(rank)], "rank {rank}");
        comm.barrier().unwrap();
    }
}
