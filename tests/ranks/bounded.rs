//! How many calls may be in flight on a communicator: exactly as many as the setting says.

use super::drawn;
use super::support::{AbortOnPanic, POISON, input, made, sum};
use crate::within::within;
use kolo::comm::RawCalls;
use kolo::comm::{Call, Collective, Communicator, RedOp, Stream, group};
use kolo::dtype::DataType;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Issues an all-reduce of one element. The caller keeps both alive until it has ended.
fn issue(comm: &Communicator, send: &[i64; 1], recv: &mut [i64; 1], stream: Option<&Stream>) {
    let call = Call {
        collective: Collective::AllReduce,
        send: send.as_ptr().cast(),
        recv: recv.as_mut_ptr().cast(),
        count: 1,
        dtype: DataType::Int64,
        op: RedOp::SUM,
        peer: 0,
    };
    // SAFETY: every test here waits before it looks at an element or drops it.
    unsafe { comm.enqueue(&call, stream) }.expect("issued");
}

/// Rank 0 issues all its calls on a stream and counts them.
fn run_ahead(comm: &Communicator, calls: usize, issued: &AtomicUsize) {
    let stream = Stream::new().unwrap();
    let send: Vec<[i64; 1]> = (0..calls).map(|i| [input(0, 1, i)[0]]).collect();
    let mut recv = vec![[POISON]; calls];
    for (send, recv) in send.iter().zip(&mut recv) {
        issue(comm, send, recv, Some(&stream));
        issued.fetch_add(1, Ordering::SeqCst);
    }
    stream.synchronize().unwrap();
    for (i, got) in recv.iter().enumerate() {
        assert_eq!(got[0], sum(2, 0, i), "call {i}");
    }
}

/// Rank 1 makes a call when the other has gone as far ahead as it may.
fn follow(comm: &Communicator, (calls, most): (usize, usize), issued: &AtomicUsize) {
    for done in 0..calls {
        let ahead = calls.min(done + most);
        while issued.load(Ordering::SeqCst) < ahead {
            comm.async_error().expect("the other rank has failed");
            std::thread::sleep(Duration::from_micros(100));
        }
        if done < 3 {
            // Time in which it could go farther.
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(issued.load(Ordering::SeqCst), ahead, "after {done} calls");
        let mut got = input(1, 1, done);
        comm.all_reduce_in_place(&mut got, RedOp::SUM).unwrap();
        assert_eq!(got[0], sum(2, 0, done), "call {done}");
    }
}

/// A rank that is ahead of its peer waits in the first call for which there is no room.
#[test]
fn one_call_more_than_may_be_in_flight_waits() {
    for most in drawn::of_each("bounds", [vec![1], (2..60).collect()], 2) {
        within(60, move || {
            let comms = made(2, &[("calls_in_flight", &most.to_string())]);
            let (calls, issued) = (3 * most + 1, AtomicUsize::new(0));
            std::thread::scope(|scope| {
                let [ahead, behind] = &comms[..] else {
                    panic!("two ranks")
                };
                scope.spawn(|| {
                    let _guard = AbortOnPanic(ahead);
                    run_ahead(ahead, calls, &issued);
                });
                let _guard = AbortOnPanic(behind);
                follow(behind, (calls, most), &issued);
            });
            for comm in &comms {
                comm.destroy().unwrap();
            }
        });
    }
}

/// A group begins whole, so it may not be larger than the bound: without a setting 2048 calls.
#[test]
fn a_group_of_more_calls_than_may_be_in_flight_is_refused() {
    let drawn = drawn::of_each("bounds", [(1..60).collect()], 1)[0];
    for (setting, most) in [(None, 2048), (Some(drawn), drawn)] {
        let text = setting.map(|most| most.to_string());
        let overrides: Vec<_> = text.iter().map(|it| ("calls_in_flight", &it[..])).collect();
        let comms = made(1, &overrides);
        let run = |calls: usize| {
            let mut recv = vec![[POISON]; calls];
            group::start();
            for recv in &mut recv {
                issue(&comms[0], &[7], recv, None);
            }
            (group::end(), recv)
        };
        let (ended, recv) = run(most + 1);
        let error = ended.unwrap_err().to_string();
        let told = format!("{} calls on one communicator", most + 1);
        assert!(error.contains(&told), "{error}");
        assert!(recv.iter().all(|it| *it == [POISON]), "nothing of it runs");
        let (ended, recv) = run(most);
        ended.unwrap();
        assert!(recv.iter().all(|it| *it == [7]), "all of it runs");
    }
}
