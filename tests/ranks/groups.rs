//! Groups and streams: several ranks on one thread, order of calls in flight.

use super::support::{AbortOnPanic, POISON, input, made, sum, value};
use kolo::comm::Inspect;
use kolo::comm::RawCalls;
use kolo::comm::{Call, Collective, CommConfig, Communicator, RedOp, Stream, group};
use kolo::dtype::DataType;

fn call(collective: Collective, send: &[i64], recv: &mut [i64], count: usize, peer: u32) -> Call {
    Call {
        collective,
        send: send.as_ptr().cast(),
        recv: recv.as_mut_ptr().cast(),
        count,
        dtype: DataType::Int64,
        op: RedOp::SUM,
        peer,
    }
}

/// Issues a call whose buffers the test keeps alive and alone until the group or stream ended.
fn issue(comm: &Communicator, call: Call, stream: Option<&Stream>) {
    // SAFETY: see above; every test here waits before it looks at a buffer or drops it.
    unsafe { comm.enqueue(&call, stream) }.expect("issued");
}

fn end(comms: &[Communicator]) {
    for comm in comms {
        let (executed, planned) = comm.step_counts().expect("alive");
        assert_eq!(executed, planned, "there is no path beside the plan");
        comm.destroy().expect("destroy");
    }
}

/// One call makes the communicators of all ranks of a process, in the order of the ranks.
#[test]
fn one_call_makes_all_ranks() {
    for n in [1, 2, 5] {
        let comms = Communicator::init_all(n, &CommConfig::default()).expect("init");
        let seats: Vec<_> = comms.iter().map(|c| (c.rank(), c.nranks())).collect();
        assert_eq!(seats, (0..n).map(|rank| (rank, n)).collect::<Vec<_>>());
        threads(&comms, |comm| {
            let mut data = input(comm.rank() as usize, 1000, 0);
            comm.all_reduce_in_place(&mut data, RedOp::SUM).unwrap();
            assert!((0..1000).all(|e| data[e] == sum(n as usize, e, 0)));
        });
        end(&comms);
    }
}

/// One thread, all ranks: possible only if the calls of a group progress together.
#[test]
fn several_ranks_on_one_thread() {
    for n in [1, 2, 3, 5, 8] {
        let comms = made(n, &[("buffsize", "64K")]);
        for (i, count) in [1, 700, 40_000, 200_001].into_iter().enumerate() {
            let sends: Vec<_> = (0..n as usize).map(|r| input(r, count, i)).collect();
            let mut sums = vec![vec![POISON; count]; n as usize];
            let mut all = vec![vec![POISON; count * n as usize]; n as usize];
            let mut from = vec![vec![POISON; count]; n as usize];
            group::start();
            for (rank, comm) in comms.iter().enumerate() {
                let (next, prev) = ((rank as u32 + 1) % n, (rank as u32 + n - 1) % n);
                let send = &sends[rank];
                let go = |which, recv: &mut [i64], peer| {
                    issue(comm, call(which, send, recv, count, peer), None)
                };
                go(Collective::AllReduce, &mut sums[rank], 0);
                go(Collective::AllGather, &mut all[rank], 0);
                go(Collective::Send, &mut [], next);
                go(Collective::Recv, &mut from[rank], prev);
            }
            group::end().expect("group");
            for rank in 0..n as usize {
                let prev = (rank + n as usize - 1) % n as usize;
                assert!(
                    from[rank] == sends[prev],
                    "message to {rank} of {n}, {count}"
                );
                for (e, &got) in sums[rank].iter().enumerate() {
                    assert_eq!(got, sum(n as usize, e, i), "{rank} of {n}, element {e}");
                }
                for (r, block) in all[rank].chunks(count).enumerate() {
                    assert!(
                        block == sends[r],
                        "block {r} at {rank} of {n}, count {count}"
                    );
                }
            }
        }
        end(&comms);
    }
}

/// Calls on a stream run in order, each on the result of the one before: large ones hand all
/// elements on from place to place, small ones in between grow the first five where they are.
#[test]
fn a_stream_keeps_order() {
    const PLACES: usize = 12;
    let count = 9_000;
    for n in [1, 2, 3, 4] {
        let comms = made(n, &[]);
        threads(&comms, |comm| {
            let stream = Stream::new().unwrap();
            let mut places = vec![vec![POISON; count]; PLACES + 1];
            places[0] = input(7, count, 0);
            for at in 0..PLACES {
                let (before, after) = places.split_at_mut(at + 1);
                let mut large = call(Collective::AllReduce, &before[at], &mut after[0], count, 0);
                // All ranks have the same: a minimum hands it on, unless it comes too early.
                large.op = RedOp::MIN;
                issue(comm, large, Some(&stream));
                let small = Call {
                    send: large.recv.cast_const(),
                    count: 5,
                    op: RedOp::SUM,
                    ..large
                };
                issue(comm, small, Some(&stream));
            }
            stream.synchronize().unwrap();
            assert!(stream.query().unwrap());
            for (at, place) in places.iter().enumerate() {
                for (e, &got) in place.iter().enumerate() {
                    let sums = if e < 5 { at as u32 } else { 0 };
                    let wanted = value(7, e, 0) * i64::from(n).pow(sums);
                    assert_eq!(got, wanted, "rank {} place {at} element {e}", comm.rank());
                }
            }
        });
        end(&comms);
    }
}

/// One rank alone: every collective is a copy, of any size, in place and out of place.
#[test]
fn one_rank_alone() {
    let comms = made(1, &[]);
    let comm = &comms[0];
    for (i, count) in [0, 1, 1000, 300_001].into_iter().enumerate() {
        let send = input(0, count, i);
        let poisoned = || vec![POISON; count];
        for op in [RedOp::SUM, RedOp::AVG, RedOp::PROD] {
            let mut recv = poisoned();
            comm.all_reduce(&send, &mut recv, op).unwrap();
            assert!(recv == send);
        }
        let (mut a, mut b, mut c, mut d) = (poisoned(), poisoned(), poisoned(), poisoned());
        comm.all_gather(&send, &mut a).unwrap();
        comm.reduce_scatter(&send, &mut b, RedOp::MIN).unwrap();
        comm.all_to_all(&send, &mut c).unwrap();
        comm.reduce(&send, &mut d, RedOp::SUM, 0).unwrap();
        assert!(a == send && b == send && c == send && d == send);
        comm.all_reduce_in_place(&mut a, RedOp::SUM).unwrap();
        comm.barrier().unwrap();
        assert!(a == send);
    }
    end(&comms);
}

/// Every rank as a thread of its own; a failed assertion does not leave the others waiting.
fn threads(comms: &[Communicator], body: impl Fn(&Communicator) + Sync) {
    std::thread::scope(|scope| {
        for comm in comms {
            scope.spawn(|| {
                let _guard = AbortOnPanic(comm);
                body(comm);
            });
        }
    });
}

/// In a group no message waits for a collective, whatever lies between them in the program.
#[test]
fn messages_around_a_collective_in_one_group() {
    let comms = made(2, &[("buffsize", "64K")]);
    let count = 1 << 20;
    threads(&comms, |comm| {
        let (rank, peer) = (comm.rank() as usize, 1 - comm.rank());
        let send = input(rank, count, 1);
        let (mut sums, mut from) = (vec![POISON; 10], vec![POISON; count]);
        group::start();
        let reduce = call(Collective::AllReduce, &send, &mut sums, 10, 0);
        if rank == 0 {
            issue(comm, reduce, None);
        }
        issue(
            comm,
            call(Collective::Send, &send, &mut [], count, peer),
            None,
        );
        if rank == 1 {
            issue(comm, reduce, None);
        }
        issue(
            comm,
            call(Collective::Recv, &[], &mut from, count, peer),
            None,
        );
        group::end().unwrap();
        assert!(from == input(peer as usize, count, 1));
        assert!((0..10).all(|e| sums[e] == sum(2, e, 1)));
    });
    end(&comms);
}

/// A small reduce is the same call in a group, on a stream, and alone: the ranks agree about what
/// follows.
#[test]
fn a_small_reduce_by_different_ways_is_one_call() {
    let comms = made(3, &[]);
    threads(&comms, |comm| {
        let rank = comm.rank() as usize;
        let stream = Stream::new().unwrap();
        for i in 0..60 {
            let (send, root) = (input(rank, 5, i), i as u32 % 3);
            let (mut sums, mut all) = (vec![POISON; 5], vec![POISON; 5]);
            let reduce = call(Collective::Reduce, &send, &mut sums, 5, root);
            match (rank + i / 3) % 3 {
                0 => issue(comm, reduce, None),
                1 => {
                    issue(comm, reduce, Some(&stream));
                    stream.synchronize().unwrap();
                }
                _ => {
                    group::start();
                    issue(comm, reduce, None);
                    group::end().unwrap();
                }
            }
            issue(
                comm,
                call(Collective::AllReduce, &send, &mut all, 5, 0),
                None,
            );
            let is_root = rank as u32 == root;
            let right = |e: usize| all[e] == sum(3, e, i) && (!is_root || sums[e] == all[e]);
            assert!((0..5).all(right), "call {i}");
        }
    });
    end(&comms);
}

/// Small and large messages to the same peer, in groups on one rank and one by one on the other.
#[test]
fn small_and_large_messages_keep_their_order() {
    let comms = made(2, &[("buffsize", "64K")]);
    let counts = [1, 3000, 2, 64, 65, 20_000, 512, 513, 1];
    threads(&comms, |comm| {
        let (rank, peer) = (comm.rank() as usize, 1 - comm.rank());
        for i in 0..30 {
            let counts: Vec<usize> = counts.iter().cycle().skip(i).take(40).copied().collect();
            let sends: Vec<_> = counts.iter().map(|&c| input(rank, c, i)).collect();
            let mut recvs: Vec<_> = counts.iter().map(|&c| vec![POISON; c]).collect();
            let sender = rank == i % 2;
            if sender {
                group::start();
            }
            for (at, &count) in counts.iter().enumerate() {
                let which = if sender {
                    Collective::Send
                } else {
                    Collective::Recv
                };
                issue(
                    comm,
                    call(which, &sends[at], &mut recvs[at], count, peer),
                    None,
                );
            }
            if sender {
                group::end().unwrap();
                continue;
            }
            for (at, &count) in counts.iter().enumerate() {
                assert!(
                    recvs[at] == input(1 - rank, count, i),
                    "message {at} of {i}"
                );
            }
        }
    });
    end(&comms);
}

/// Messages of one group progress together even on different streams.
#[test]
fn messages_on_two_streams_in_one_group() {
    let comms = made(2, &[("buffsize", "64K")]);
    let count = 1 << 20;
    threads(&comms, |comm| {
        let (rank, peer) = (comm.rank() as usize, 1 - comm.rank());
        let send = input(rank, count, 2);
        let mut from = vec![POISON; count];
        let streams = [Stream::new().unwrap(), Stream::new().unwrap()];
        group::start();
        let sent = call(Collective::Send, &send, &mut [], count, peer);
        issue(comm, sent, Some(&streams[0]));
        let got = call(Collective::Recv, &[], &mut from, count, peer);
        issue(comm, got, Some(&streams[1]));
        group::end().unwrap();
        streams
            .iter()
            .for_each(|stream| stream.synchronize().unwrap());
        assert!(from == input(peer as usize, count, 2));
    });
    end(&comms);
}

/// With KOLO_CHECK every call is checked alike, whatever is in flight on some of the ranks.
#[test]
fn checks_on_streams_do_not_mix_with_data() {
    let comms = made(3, &[("check", "true")]);
    threads(&comms, |comm| {
        let rank = comm.rank() as usize;
        let stream = Stream::new().unwrap();
        let sends: Vec<_> = (0..40).map(|i| input(rank, 3, i)).collect();
        let mut recvs = vec![vec![POISON; 3]; 40];
        for (i, (send, recv)) in sends.iter().zip(&mut recvs).enumerate() {
            // Some ranks wait in between, so that their queues are empty, and others' are not.
            if i % 5 == rank {
                stream.synchronize().unwrap();
            }
            let on = (i % 7 != rank).then_some(&stream);
            if on.is_none() {
                stream.synchronize().unwrap();
            }
            issue(comm, call(Collective::AllReduce, send, recv, 3, 0), on);
        }
        stream.synchronize().unwrap();
        for (i, recv) in recvs.iter().enumerate() {
            assert!(
                (0..3).all(|e| recv[e] == sum(3, e, i)),
                "rank {rank} call {i}"
            );
        }
    });
    end(&comms);
}

/// A group that is refused for one communicator leaves nothing in flight on the others.
#[test]
fn a_refused_group_touches_nothing() {
    let (c, d) = (made(1, &[]), made(1, &[]));
    let send = input(0, 1000, 0);
    let mut recv = vec![POISON; 1000];
    let mut recv_of_many = vec![POISON; 1];
    let stream = Stream::new().unwrap();
    let good = call(Collective::AllReduce, &send, &mut recv, 1000, 0);
    group::start();
    issue(&c[0], good, Some(&stream));
    for _ in 0..3_000 {
        let one = call(Collective::AllReduce, &send, &mut recv_of_many, 1, 0);
        issue(&d[0], one, None);
    }
    let refused = group::end().unwrap_err();
    assert!(refused.to_string().contains("3000 calls"), "{refused}");
    stream.synchronize().unwrap();
    assert!(
        recv.iter().all(|&e| e == POISON),
        "it was in the same group"
    );
    assert_eq!(recv_of_many, [POISON]);
    // The next group is as if there had been none before.
    group::start();
    issue(&c[0], good, Some(&stream));
    group::end().unwrap();
    stream.synchronize().unwrap();
    assert!(recv == send);
}

/// A call that is refused in a group is refused at once, and the refusal ends with the group.
#[test]
fn a_call_that_cannot_be_is_refused_inside_a_group() {
    let comms = made(1, &[]);
    let send = input(0, 1000, 0);
    let mut recv = vec![POISON; 1000];
    group::start();
    let unknown = Call {
        op: RedOp(77),
        ..call(Collective::AllReduce, &send, &mut recv, 1000, 0)
    };
    // SAFETY: the call is refused.
    let refused = unsafe { comms[0].enqueue(&unknown, None) }.unwrap_err();
    assert!(refused.what.contains("77"), "{refused}");
    group::end().unwrap();
    assert!(recv.iter().all(|&e| e == POISON));
}

/// A stream that was made for one call, as that of a request, takes no second one.
#[test]
fn a_stream_for_one_call_takes_one() {
    let comms = made(2, &[]);
    let send = input(0, 5, 0);
    let mut recv = vec![vec![POISON; 5]; 2];
    let streams: Vec<Stream> = comms
        .iter()
        .map(|_| Stream::for_one_call().expect("a stream"))
        .collect();
    for ((comm, recv), stream) in comms.iter().zip(&mut recv).zip(&streams) {
        let all = call(Collective::AllReduce, &send, recv, 5, 0);
        issue(comm, all, Some(stream));
        // SAFETY: it is refused.
        let second = unsafe { comm.enqueue(&all, Some(stream)) };
        let error = second.expect_err("a second call");
        assert!(error.what.contains("was made for one call"), "{error}");
    }
    for (stream, recv) in streams.iter().zip(&recv) {
        stream.synchronize().expect("the first call");
        let doubled: Vec<i64> = send.iter().map(|it| it * 2).collect();
        assert_eq!(*recv, doubled);
    }
    // On further streams the communicator goes on.
    let streams: Vec<Stream> = comms
        .iter()
        .map(|_| Stream::new().expect("a stream"))
        .collect();
    for ((comm, recv), stream) in comms.iter().zip(&mut recv).zip(&streams) {
        issue(
            comm,
            call(Collective::AllReduce, &send, recv, 5, 0),
            Some(stream),
        );
    }
    for stream in &streams {
        stream.synchronize().expect("both");
    }
    end(&comms);
}
