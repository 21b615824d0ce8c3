//! Cost of a step: `cargo bench --bench step`.
//!
//! One thread drives all ranks of a group, so nothing is ever waited for. The time of a call,
//! divided by the steps that its ranks executed, is what a step costs with its part of the call;
//! the difference between rings of two and of eight ranks, divided by the difference in steps, is
//! the step alone: fetching it, checking its tokens, folding 8 bytes, publishing. Beside them
//! stands copying 8 bytes, the least that any step could cost.

use kolo::base::clock;
use kolo::comm::Inspect;
use kolo::comm::RawCalls;
use kolo::comm::{Call, Collective, CommConfig, Communicator, RedOp, group};
use kolo::dtype::{self, DataType, FoldParams};
use std::hint::black_box;

const CALLS: u32 = 20_000;
const SAMPLES: usize = 5;

/// The least of some measurements: what disturbs only adds.
fn least(mut measure: impl FnMut() -> f64) -> f64 {
    (0..SAMPLES)
        .map(|_| measure())
        .fold(f64::INFINITY, f64::min)
}

/// Nanoseconds a step, and steps a call and rank.
fn step(ranks: u32, algorithm: &str) -> (f64, f64) {
    let overrides = vec![("algo".to_string(), algorithm.to_string())];
    let config = CommConfig {
        overrides,
        ..CommConfig::default()
    };
    let comms = Communicator::init_all(ranks, &config).expect("threads");
    let mut data = vec![1.0f64; ranks as usize];
    let steps = || -> u64 { comms.iter().map(|comm| comm.step_counts().unwrap().0).sum() };
    let mut per_call = 0.0;
    let nanoseconds = least(|| {
        let (before, start) = (steps(), clock::now());
        for _ in 0..CALLS {
            group::start();
            for (comm, place) in comms.iter().zip(&mut data) {
                let place = std::ptr::from_mut(place).cast::<u8>();
                let call = Call {
                    collective: Collective::AllReduce,
                    send: place.cast_const(),
                    recv: place,
                    count: 1,
                    dtype: DataType::Float64,
                    op: RedOp::MAX,
                    peer: 0,
                };
                // SAFETY: the group ends below, and the data lives longer.
                unsafe { comm.enqueue(&call, None) }.expect("a good call");
            }
            group::end().expect("all ranks called");
        }
        let time = start.elapsed().as_secs_f64() * 1e9;
        let executed = steps() - before;
        per_call = executed as f64 / f64::from(CALLS * ranks);
        time / executed as f64
    });
    (nanoseconds, per_call)
}

/// Nanoseconds of one copy of 8 bytes by kolo's kernel.
fn copy() -> f64 {
    let (source, mut target) = ([1u8; 8], [0u8; 8]);
    let (kernel, params) = (dtype::copy(), FoldParams::default());
    least(|| {
        let start = clock::now();
        for _ in 0..CALLS {
            let (from, to) = (black_box(source.as_ptr()), black_box(target.as_mut_ptr()));
            // SAFETY: both hold 8 bytes and are apart.
            unsafe { kernel(&[from], &[to], 8, &params) };
        }
        start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
    })
}

fn main() {
    let copy = copy();
    println!(
        "{:>6} {:>8} {:>11} {:>9} {:>8}",
        "ranks", "algo", "steps/call", "ns/step", "copies"
    );
    let mut rings = Vec::new();
    for ranks in [1, 2, 4, 8] {
        for algorithm in ["ring", "oneshot"] {
            let (nanoseconds, steps) = step(ranks, algorithm);
            let ratio = nanoseconds / copy;
            if algorithm == "ring" {
                rings.push((nanoseconds * steps, steps));
            }
            println!("{ranks:>6} {algorithm:>8} {steps:>11.1} {nanoseconds:>9.1} {ratio:>8.1}");
        }
    }
    let [_, two, _, eight] = rings[..] else {
        return;
    };
    let alone = (eight.0 - two.0) / (eight.1 - two.1);
    println!(
        "a step alone: {alone:.1} ns, {:.1} copies of 8 bytes ({copy:.1} ns)",
        alone / copy
    );
}
