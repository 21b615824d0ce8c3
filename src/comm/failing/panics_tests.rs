//! A panic inside a call: the others are not left waiting.

use crate::base::Error;
use crate::comm::RawCalls;
use crate::comm::RedOp;
use crate::comm::owned::PANIC_WORDS;
use crate::comm::{CommConfig, Communicator, Stream};
use crate::proxy::progress::{Engine, Work};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Enough for a plan of many passes.
const COUNT: usize = 1 << 18;

fn pair() -> Vec<Communicator> {
    let config = CommConfig {
        // A rank that is left waiting fails with other words.
        overrides: vec![
            ("timeout".into(), "60".into()),
            ("progress".into(), "inline".into()),
        ],
        ..CommConfig::default()
    };
    Communicator::init_all(2, &config).unwrap()
}

/// Returns the words of both ranks after a call in which `place` panics on rank 0.
fn heard(place: &'static str, call: impl Fn(&Communicator) -> String + Sync) -> [String; 2] {
    let comms = pair();
    comms[0].queue.user().unwrap().faults.panic_in = Some(place);
    let call = &call;
    std::thread::scope(|scope| {
        let threads = [&comms[0], &comms[1]].map(|comm| scope.spawn(move || call(comm)));
        threads.map(|thread| thread.join().unwrap())
    })
}

fn reduce(comm: &Communicator) -> String {
    let send: Vec<u32> = (0..COUNT as u32).map(|at| at ^ comm.rank()).collect();
    let mut recv = vec![u32::MAX; COUNT];
    let caught = catch_unwind(AssertUnwindSafe(|| {
        comm.all_reduce(&send, &mut recv, RedOp::SUM).unwrap_err()
    }));
    match caught {
        Ok(error) => error.to_string(),
        Err(panic) => crate::base::caught::panicked(panic).to_string(),
    }
}

fn on_a_stream(comm: &Communicator) -> String {
    let send: Vec<u32> = (0..COUNT as u32).map(|at| at ^ comm.rank()).collect();
    let mut recv = vec![u32::MAX; COUNT];
    let ended = comm.scope(|scope| scope.all_reduce(&send, &mut recv, RedOp::SUM));
    ended.unwrap_err().to_string()
}

#[test]
fn a_panic_in_a_blocking_call_is_told_to_all() {
    let [own, other] = heard("pass", reduce);
    assert!(own.contains(PANIC_WORDS), "{own}");
    assert!(
        other.contains(PANIC_WORDS) && other.contains("rank 0"),
        "{other}"
    );
}

#[test]
fn a_panic_in_a_call_on_a_stream_is_told_to_all() {
    let [own, other] = heard("pass", on_a_stream);
    assert!(own.contains(PANIC_WORDS), "{own}");
    assert!(
        other.contains(PANIC_WORDS) && other.contains("rank 0"),
        "{other}"
    );
}

/// Nothing catches it below the interface; the caller gets it, and the others hear of it.
#[test]
fn a_panic_before_a_call_has_begun_is_told_to_the_others() {
    let [own, other] = heard("begin", reduce);
    assert!(own.contains(PANIC_WORDS), "{own}");
    assert!(other.contains("inside kolo failed on rank 0"), "{other}");
}

/// Whoever drives the work in flight catches it, and moves other communicators as before.
#[test]
fn a_panic_in_work_in_flight_stops_one_communicator() {
    let broken = pair();
    let sound = pair();
    // The last to begin, so that both calls are in flight.
    broken[1].queue.user().unwrap().faults.panic_in = Some("work");
    let send = [vec![1_u32; COUNT], vec![2_u32; COUNT]];
    let begin = |comms: &[Communicator], recv: &mut [Vec<u32>; 2]| -> Vec<Stream> {
        let ranks = comms.iter().zip(&send).zip(recv.iter_mut());
        ranks
            .map(|((comm, send), recv)| {
                let stream = Stream::new().unwrap();
                let call = crate::comm::Call {
                    collective: crate::comm::Collective::AllReduce,
                    send: send.as_ptr().cast(),
                    recv: recv.as_mut_ptr().cast(),
                    count: COUNT,
                    dtype: crate::dtype::DataType::Uint32,
                    op: RedOp::SUM,
                    peer: 0,
                };
                // SAFETY: the buffers live until the streams have been waited for.
                unsafe { comm.enqueue(&call, Some(&stream)) }.unwrap();
                stream
            })
            .collect()
    };
    let mut recv = [(); 4].map(|()| vec![u32::MAX; COUNT]);
    let (one, other) = recv.split_at_mut(2);
    let ended = begin(&broken, one.try_into().unwrap());
    for stream in ended {
        let error = stream.synchronize().unwrap_err().to_string();
        assert!(error.contains(PANIC_WORDS), "{error}");
    }
    for stream in begin(&sound, other.try_into().unwrap()) {
        stream.synchronize().unwrap();
    }
    assert!(other.iter().all(|recv| recv.iter().all(|&sum| sum == 3)));
}

/// Another thread that drives may have looked for a stop already. When it is out, what waits has
/// failed, though nobody drives any more.
#[test]
fn work_that_is_given_up_fails_though_a_driver_is_inside() {
    let comms = pair();
    let queue = &comms[0].queue;
    let stream = Stream::new().unwrap();
    let data = vec![1_u32; COUNT];
    let mut recv = vec![u32::MAX; COUNT];
    let call = crate::comm::Call {
        collective: crate::comm::Collective::AllReduce,
        send: data.as_ptr().cast(),
        recv: recv.as_mut_ptr().cast(),
        count: COUNT,
        dtype: crate::dtype::DataType::Uint32,
        op: RedOp::SUM,
        peer: 0,
    };
    // SAFETY: the buffers live until the call has failed, which is below.
    unsafe { comms[0].enqueue(&call, Some(&stream)) }.unwrap();
    // As the engine does before it tells.
    let work: std::sync::Arc<dyn Work> = queue.clone();
    Engine::global().release(&work);
    let driver = loop {
        match queue.exec.driver() {
            Some(driver) => break driver,
            None => std::thread::yield_now(),
        }
    };
    std::thread::scope(|scope| {
        let teller = scope.spawn(|| queue.broken(Error::internal(PANIC_WORDS)));
        // It has looked for a driver before that one leaves.
        for _ in 0..50 {
            if teller.is_finished() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        drop(driver);
        teller.join().unwrap();
    });
    let error = stream.query().unwrap_err().to_string();
    assert!(error.contains(PANIC_WORDS), "{error}");
}
