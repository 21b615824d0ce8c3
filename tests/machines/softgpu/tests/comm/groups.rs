//! Messages and groups: what begins together, moves together.

use super::calls::seed;
use super::ranks::{Buffer, POISON, Rank, ranks, software_gpu};
use kolo::bootstrap::ThreadsBootstrap;
use kolo::comm::RawCalls;
use kolo::comm::{Call, Collective, RedOp, Stream, group};
use kolo::cuda::OwnStream;
use kolo::dtype::DataType;

fn message(collective: Collective, place: *mut u8, count: usize, peer: u32) -> Call {
    Call {
        collective,
        send: place.cast_const(),
        recv: place,
        count,
        dtype: DataType::Uint8,
        op: RedOp::SUM,
        peer,
    }
}

/// Data that rank `from` sends to rank `to` as its message `number`.
fn content(from: u32, to: u32, number: usize, bytes: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(u64::from(from) << 40 | u64::from(to) << 20);
    (0..bytes)
        .map(|_| random.u8(..).wrapping_add(number as u8))
        .collect()
}

/// All ranks send to all, themselves too, several messages each, in one group whose order differs
/// by rank.
#[test]
fn messages_of_a_group_move_together_whatever_their_order() {
    let seed = seed();
    ranks(&[0, 1, 2, 3], &[], |rank| all_to_all(rank, seed));
}

/// One rank's part of it.
pub fn all_to_all(rank: &Rank, seed: u64) {
    let (me, nranks) = (rank.number(), rank.comm.nranks());
    let mut sizes = fastrand::Rng::with_seed(seed);
    let sizes: Vec<usize> = (0..3).map(|_| sizes.usize(1..70_000)).collect();
    let mut sends: Vec<(u32, usize, Buffer)> = Vec::new();
    let mut recvs: Vec<(u32, usize, Buffer)> = Vec::new();
    for peer in 0..nranks {
        for (number, &bytes) in sizes.iter().enumerate() {
            sends.push((peer, number, rank.buffer(&content(me, peer, number, bytes))));
            recvs.push((peer, number, rank.poisoned(bytes)));
        }
    }
    let mut calls: Vec<(u64, Call)> = Vec::new();
    let mut random = fastrand::Rng::with_seed(seed ^ u64::from(me));
    let kinds = [(Collective::Send, &sends), (Collective::Recv, &recvs)];
    for (collective, buffers) in kinds {
        for (peer, number, buffer) in buffers {
            // Messages between two ranks stay in order; all else is shuffled.
            let key = (random.u64(..1 << 32) >> 2) * 4 + *number as u64;
            let of_pair = calls
                .iter()
                .filter(|(_, it)| (it.collective, it.peer) == (collective, *peer));
            let key = of_pair.map(|(key, _)| key + 1).max().unwrap_or(0).max(key);
            calls.push((
                key,
                message(collective, buffer.at(0), sizes[*number], *peer),
            ));
        }
    }
    calls.sort_by_key(|(key, _)| *key);
    group::start();
    for (_, call) in &calls {
        rank.put(call).expect("taken down");
    }
    group::end().expect("begun");
    for (peer, number, buffer) in &recvs {
        let wanted = content(*peer, me, *number, sizes[*number]);
        assert!(
            rank.read(buffer) == wanted,
            "rank {me}: message {number} of rank {peer}"
        );
    }
    rank.has_done_its_steps();
}

/// Large messages take several channels; odd sizes and addresses.
#[test]
fn large_messages_of_odd_sizes_arrive_whole() {
    ranks(&[0, 1], &[], |rank| {
        let me = rank.number();
        for bytes in [1, 600_001, 1_100_003] {
            let buffer = match me {
                0 => rank.buffer(&[&[POISON][..], &content(0, 1, 1, bytes)].concat()),
                _ => rank.poisoned(bytes + 1),
            };
            let collective = [Collective::Send, Collective::Recv][me as usize];
            rank.put(&message(collective, buffer.at(1), bytes, 1 - me))
                .expect("begun");
            let got = rank.read(&buffer);
            assert_eq!(got[0], POISON);
            assert!(
                got[1..] == content(0, 1, 1, bytes),
                "rank {me}, {bytes} bytes"
            );
        }
        rank.has_done_its_steps();
    });
}

fn sum_of(rank: &Rank, send: &Buffer, recv: &Buffer, count: usize) -> Call {
    Call {
        collective: Collective::AllReduce,
        send: send.at(0),
        recv: recv.at(0),
        count,
        dtype: DataType::Uint32,
        op: RedOp::SUM,
        peer: rank.number(),
    }
}

fn words(rank: u32, call: u32, count: usize) -> Vec<u8> {
    let word = |i| (1000 * call + 10 * rank + 1).wrapping_add(i as u32 * (rank + 1));
    (0..count).flat_map(|i| word(i).to_le_bytes()).collect()
}

fn total(nranks: u32, call: u32, count: usize) -> Vec<u8> {
    let mut sums = vec![0u32; count];
    for rank in 0..nranks {
        for (sum, word) in sums
            .iter_mut()
            .zip(words(rank, call, count).chunks_exact(4))
        {
            *sum = sum.wrapping_add(u32::from_le_bytes(word.try_into().expect("4 bytes")));
        }
    }
    sums.into_iter().flat_map(u32::to_le_bytes).collect()
}

/// One thread has all ranks: calls return before the others have called.
#[test]
fn one_thread_drives_all_ranks_with_and_without_groups() {
    software_gpu();
    let members = ThreadsBootstrap::group(3).into_iter();
    let ranks: Vec<Rank> = std::thread::scope(|scope| {
        let join = |(device, member)| scope.spawn(move || Rank::join(member, device, &[]));
        let joined: Vec<_> = (0..).zip(members).map(join).collect();
        let joined = joined.into_iter().map(|it| it.join().expect("no panic"));
        joined.collect::<Result<_, _>>().expect("communicators")
    });
    let count = 3000;
    for (call, grouped) in [(0, false), (1, true), (2, false)] {
        let buffers: Vec<(Buffer, Buffer)> = ranks
            .iter()
            .map(|rank| {
                let send = rank.buffer(&words(rank.number(), call, count));
                (send, rank.poisoned(4 * count))
            })
            .collect();
        if grouped {
            group::start();
        }
        for (rank, (send, recv)) in ranks.iter().zip(&buffers) {
            rank.put(&sum_of(rank, send, recv, count)).expect("begun");
        }
        if grouped {
            group::end().expect("begun");
        }
        for (rank, (_, recv)) in ranks.iter().zip(&buffers) {
            assert!(rank.read(recv) == total(3, call, count), "call {call}");
        }
    }
    for rank in &ranks {
        rank.has_done_its_steps();
    }
    std::thread::scope(|scope| {
        for rank in &ranks {
            scope.spawn(|| rank.comm.destroy().expect("a clean end"));
        }
    });
}

/// Messages of one group on two streams: each stream has its own when it is waited for.
#[test]
fn messages_on_several_streams_go_as_one() {
    ranks(&[0, 1], &[], |rank| {
        let me = rank.number();
        let other = OwnStream::new(&rank.context).expect("a stream");
        let (first, second) = (content(me, 1 - me, 1, 5000), content(me, 1 - me, 2, 7000));
        let sends = [rank.buffer(&first), rank.buffer(&second)];
        let recvs = [rank.poisoned(5000), rank.poisoned(7000)];
        let streams = [rank.on(), Stream::of_device(other.id().0)];
        group::start();
        for (i, bytes) in [5000, 7000].into_iter().enumerate() {
            let send = message(Collective::Send, sends[i].at(0), bytes, 1 - me);
            let recv = message(Collective::Recv, recvs[i].at(0), bytes, 1 - me);
            for call in [send, recv] {
                // SAFETY: the buffers live until they were read.
                unsafe { rank.comm.enqueue(&call, Some(&streams[i])) }.expect("taken down");
            }
        }
        group::end().expect("begun");
        other.synchronize().expect("the second stream ends");
        assert!(rank.read(&recvs[1]) == content(1 - me, me, 2, 7000));
        assert!(rank.read(&recvs[0]) == content(1 - me, me, 1, 5000));
    });
}
