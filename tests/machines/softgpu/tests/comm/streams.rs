//! Streams: order, several at once, what an abort leaves behind, and memory.

use super::ranks::{POISON, Rank, ranks, software_gpu, sum};
use kolo::bootstrap::ThreadsBootstrap;
use kolo::comm::RawCalls;
use kolo::comm::Stream;
use kolo::cuda::{OwnStream, copy_async};
use std::sync::Barrier;

/// Words of a rank for a value.
pub fn one(rank: &Rank, value: u64, count: usize) -> Vec<u8> {
    let value = value + u64::from(rank.number());
    (0..count)
        .flat_map(|i| (value + i as u64).to_le_bytes())
        .collect()
}

/// The sum of [`one`] over all ranks.
pub fn wanted(nranks: u32, value: u64, count: usize) -> Vec<u8> {
    let ranks: u64 = (0..u64::from(nranks)).sum();
    let sum = |i: usize| u64::from(nranks) * (value + i as u64) + ranks;
    (0..count).flat_map(|i| sum(i).to_le_bytes()).collect()
}

/// Calls follow each other on their stream, and other work of the stream before and behind them.
#[test]
fn calls_keep_the_order_of_their_stream() {
    ranks(&[0, 1], &[], |rank| {
        let count = 200;
        let source = rank.buffer(&one(rank, 7, count));
        let (middle, last) = (rank.poisoned(8 * count), rank.poisoned(8 * count));
        let copy = |from: *mut u8, to: *mut u8| {
            let (from, to, bytes) = (from as u64, to as u64, 8 * count);
            // SAFETY: both are buffers of that length.
            unsafe { copy_async(&rank.context, to, from, bytes, rank.stream.id()) }
        };
        let send = rank.poisoned(8 * count);
        copy(source.at(0), send.at(0)).expect("a copy before");
        rank.put(&sum(send.at(0), middle.at(0), count))
            .expect("the call");
        copy(middle.at(0), last.at(0)).expect("a copy behind");
        // In place, on what the copy has brought.
        rank.put(&sum(last.at(0), last.at(0), count))
            .expect("another call");
        let once = wanted(2, 7, count);
        let twice: Vec<u8> = once
            .chunks_exact(8)
            .flat_map(|x| (2 * u64::from_le_bytes(x.try_into().expect("8"))).to_le_bytes())
            .collect();
        assert!(rank.read(&last) == twice);
        assert!(rank.read(&middle) == once);
    });
}

/// A communicator's calls on different streams use its connections in the order of the calls.
#[test]
fn calls_on_different_streams_come_one_after_the_other() {
    ranks(&[0, 1, 2], &[], |rank| {
        let count = 3000;
        let streams: Vec<OwnStream> = (0..3)
            .map(|_| OwnStream::new(&rank.context).expect("a stream"))
            .collect();
        let buffers: Vec<_> = (0..9)
            .map(|call| {
                (
                    rank.buffer(&one(rank, 1000 * call, count)),
                    rank.poisoned(8 * count),
                )
            })
            .collect();
        for (call, (send, recv)) in buffers.iter().enumerate() {
            let stream = Stream::of_device(streams[call % 3].id().0);
            let call = sum(send.at(0), recv.at(0), count);
            // SAFETY: the buffers live until they were read.
            unsafe { rank.comm.enqueue(&call, Some(&stream)) }.expect("begun");
        }
        for stream in &streams {
            stream.synchronize().expect("it ends");
        }
        for (call, (_, recv)) in buffers.iter().enumerate() {
            assert!(
                rank.read(recv) == wanted(3, 1000 * call as u64, count),
                "call {call}"
            );
        }
        rank.has_done_its_steps();
    });
}

/// A kernel that waits for a rank which never comes leaves when the communicator is aborted, and
/// writes nothing into the receive buffer.
#[test]
fn an_abort_ends_kernels_that_wait() {
    software_gpu();
    let members = ThreadsBootstrap::group(3);
    let (called, aborted) = (Barrier::new(3), Barrier::new(3));
    std::thread::scope(|scope| {
        for (device, member) in (0..).zip(members) {
            let (called, aborted) = (&called, &aborted);
            scope.spawn(move || {
                let rank = Rank::join(member, device, &[]).expect("a communicator");
                let send = rank.buffer(&one(&rank, 1, 5000));
                let recv = rank.poisoned(8 * 5000);
                if device != 2 {
                    rank.put(&sum(send.at(0), recv.at(0), 5000)).expect("begun");
                    assert!(!rank.stream.id().is_over(&rank.context).expect("a look"));
                }
                called.wait();
                if device == 2 {
                    rank.comm.abort().expect("aborted");
                }
                aborted.wait();
                // The stream ends, and the buffers are the program's again.
                let got = rank.read(&recv);
                assert!(got.iter().all(|&byte| byte == POISON), "nothing is whole");
                let error = rank.comm.async_error().expect_err("it has stopped");
                assert!(error.to_string().contains("rank 2"), "{error}");
                let error = rank
                    .put(&sum(send.at(0), recv.at(0), 1))
                    .expect_err("refused");
                assert!(error.to_string().contains("rank 2"), "{error}");
                let _ = rank.comm.destroy();
            });
        }
    });
}
