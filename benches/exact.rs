//! The price of exact sums: `cargo bench --bench exact`.
//!
//! First the local sum of an array beside two plain ones: `sum`, one addition after the other as
//! a loop in C or Fortran does without permission to reorder, and `lanes`, 32 partial sums that
//! the processor adds as vectors. Then all-reduces with `SUM_EXACT` beside `SUM`, ranks being
//! threads, rounds of both in turn. The ratios count; the times hold for this machine and moment.

use kolo::base::{Result, clock};
use kolo::comm::{CommConfig, Communicator, RedOp};
use kolo::dtype::exact::ExactSum;
use std::hint::black_box;

const SAMPLES: usize = 9;

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// Nanoseconds of one run of `work`, once.
fn sample(calls: usize, mut work: impl FnMut()) -> f64 {
    let start = clock::now();
    for _ in 0..calls {
        work();
    }
    start.elapsed().as_secs_f64() * 1e9 / calls as f64
}

fn lanes(terms: &[f64]) -> f64 {
    let mut sums = [0.0; 32];
    let (chunks, rest) = terms.as_chunks::<32>();
    for chunk in chunks {
        for (sum, term) in sums.iter_mut().zip(chunk) {
            *sum += term;
        }
    }
    sums.iter().chain(rest).sum()
}

/// Terms of a kind: of one size, as in a model's field, or of every size.
fn terms(kind: &str, count: usize) -> Vec<f64> {
    let mut rng = fastrand::Rng::with_seed(count as u64);
    let mut make = || match kind {
        "one size" => 1.0 + rng.f64(),
        "a field" => (rng.f64() - 0.5) * 20.0,
        _ => (rng.f64() - 0.5) * 2f64.powi(rng.i32(-300..300)),
    };
    (0..count).map(|_| make()).collect()
}

fn local() {
    println!(
        "{:>9} {:>9} {:>10} {:>10} {:>10} {:>9} {:>9}",
        "terms", "kind", "exact ns", "sum ns", "lanes ns", "/ sum", "/ lanes"
    );
    for count in [1, 16, 100, 1 << 10, 1 << 14, 1 << 17, 1 << 20] {
        for kind in ["one size", "a field", "wide"] {
            let terms = terms(kind, count);
            let calls = ((1 << 20) / count).clamp(1, 10_000);
            let mut times = [const { Vec::new() }; 3];
            for _ in 0..SAMPLES {
                times[0].push(sample(calls, || {
                    let mut sum = ExactSum::new();
                    sum.add_slice(black_box(&terms));
                    black_box(sum.value());
                }));
                times[1].push(sample(calls, || {
                    black_box(black_box(&terms).iter().sum::<f64>());
                }));
                times[2].push(sample(calls, || {
                    black_box(lanes(black_box(&terms)));
                }));
            }
            let [exact, plain, lanes] = times.map(|times| median(times) / count as f64);
            println!(
                "{count:>9} {kind:>9} {exact:>10.2} {plain:>10.2} {lanes:>10.2} {:>9.1} {:>9.1}",
                exact / plain,
                exact / lanes
            );
        }
    }
}

/// Microseconds of an exact and a plain all-reduce on the slowest rank.
fn reduce(comms: &[Communicator], count: usize) -> (f64, f64) {
    let calls = (200_000 / (count + 50)).max(2);
    let rank = |comm: &Communicator| -> Result<[f64; 2]> {
        let mut data = vec![0.1; count];
        let mut times = [const { Vec::new() }; 2];
        for _ in 0..SAMPLES {
            for (times, op) in times.iter_mut().zip([RedOp::SUM_EXACT, RedOp::SUM]) {
                comm.barrier()?;
                let mut result = Ok(());
                times.push(sample(calls, || {
                    data.fill(0.1);
                    let done = comm.all_reduce_in_place(&mut data, op);
                    if result.is_ok() {
                        result = done;
                    }
                }));
                result?;
            }
        }
        Ok(times.map(|times| median(times) / 1e3))
    };
    let times: Vec<[f64; 2]> = std::thread::scope(|scope| {
        let threads: Vec<_> = comms
            .iter()
            .map(|comm| scope.spawn(|| rank(comm)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic").expect("no error"))
            .collect()
    });
    let most = |at: usize| times.iter().map(|times| times[at]).fold(0.0, f64::max);
    (most(0), most(1))
}

fn between_ranks() {
    println!(
        "\n{:>5} {:>9} {:>10} {:>10} {:>7}",
        "ranks", "doubles", "exact us", "plain us", "ratio"
    );
    for ranks in [1, 2, 4] {
        let comms = Communicator::init_all(ranks, &CommConfig::default()).expect("threads");
        for count in [1, 2, 4, 8, 9, 64, 1 << 10, 1 << 14, 1 << 17] {
            let (exact, plain) = reduce(&comms, count);
            let ratio = exact / plain;
            println!("{ranks:>5} {count:>9} {exact:>10.2} {plain:>10.2} {ratio:>7.2}");
        }
    }
}

fn main() {
    local();
    between_ranks();
}
