//! One-way hand-over between two ranks: `cargo bench --bench handover`.
//!
//! Two threads send a message back and forth; half a round trip is one hand-over. Beside it stands
//! the same with a bare atomic that both threads poll, the least that the machine allows for. On a
//! machine where the threads share a core, both wait by giving it away.

use kolo::base::clock;
use kolo::comm::{CommConfig, Communicator};
use std::sync::atomic::{AtomicU64, Ordering};

const SAMPLES: usize = 5;
/// Polls before a thread gives its core away.
const POLLS: u32 = 2000;

fn least(mut measure: impl FnMut() -> f64) -> f64 {
    (0..SAMPLES)
        .map(|_| measure())
        .fold(f64::INFINITY, f64::min)
}

/// Microseconds one way of a message of `bytes`.
fn message(comms: &[Communicator], bytes: usize, trips: u32) -> f64 {
    least(|| {
        let play = |comm: &Communicator| {
            let mut data = vec![1u8; bytes];
            let peer = 1 - comm.rank();
            comm.barrier().expect("alive");
            let start = clock::now();
            for _ in 0..trips {
                if comm.rank() == 0 {
                    comm.send(&data, peer).expect("sent");
                    comm.recv(&mut data, peer).expect("received");
                } else {
                    comm.recv(&mut data, peer).expect("received");
                    comm.send(&data, peer).expect("sent");
                }
            }
            start.elapsed().as_secs_f64() * 1e6 / f64::from(2 * trips)
        };
        std::thread::scope(|scope| {
            let other = scope.spawn(|| play(&comms[1]));
            let mine = play(&comms[0]);
            other.join().expect("no panic");
            mine
        })
    })
}

/// Microseconds one way of a number in one cache line.
fn atomic(trips: u64) -> f64 {
    least(|| {
        let line = AtomicU64::new(0);
        let await_value = |wanted: u64| {
            let mut polls = 0;
            while line.load(Ordering::Acquire) != wanted {
                polls += 1;
                match polls % POLLS {
                    0 => std::thread::yield_now(),
                    _ => std::hint::spin_loop(),
                }
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for trip in 0..trips {
                    await_value(2 * trip + 1);
                    line.store(2 * trip + 2, Ordering::Release);
                }
            });
            let start = clock::now();
            for trip in 0..trips {
                line.store(2 * trip + 1, Ordering::Release);
                await_value(2 * trip + 2);
            }
            start.elapsed().as_secs_f64() * 1e6 / (2 * trips) as f64
        })
    })
}

fn main() {
    let comms = Communicator::init_all(2, &CommConfig::default()).expect("threads");
    let bare = atomic(5_000);
    println!("{:>9} {:>9} {:>13}", "bytes", "us", "bare atomics");
    for (bytes, trips) in [
        (8, 5_000),
        (1 << 10, 5_000),
        (64 << 10, 1_000),
        (1 << 20, 100),
    ] {
        let time = message(&comms, bytes, trips);
        println!("{bytes:>9} {time:>9.2} {:>13.1}", time / bare);
    }
    println!("one bare atomic: {bare:.3} us");
}
