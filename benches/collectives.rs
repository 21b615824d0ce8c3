//! Collectives over sizes: `cargo bench --bench collectives`.
//!
//! Ranks are threads of this process. Beside each time stands how often one thread could copy the
//! same data meanwhile, so that numbers of different machines can be compared. `kolo perf
//! --compare mpi` measures beside MPI, between processes.

use kolo::base::{Result, clock};
use kolo::comm::{CommConfig, Communicator, RedOp};
use std::hint::black_box;

const SAMPLES: usize = 5;
/// Bytes that one sample moves, about.
const VOLUME: usize = 16 << 20;

type Body = fn(&Communicator, &[f32], &mut [f32]) -> Result<()>;

const COLLECTIVES: [(&str, Body); 4] = [
    ("all_reduce", |comm, send, recv| {
        comm.all_reduce(send, recv, RedOp::SUM)
    }),
    ("all_gather", |comm, send, recv| {
        comm.all_gather(&send[..send.len() / comm.nranks() as usize], recv)
    }),
    ("reduce_scatter", |comm, send, recv| {
        let block = recv.len() / comm.nranks() as usize;
        comm.reduce_scatter(send, &mut recv[..block], RedOp::SUM)
    }),
    ("broadcast", |comm, _, recv| comm.broadcast(recv, 0)),
];

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// Microseconds of one call on the slowest rank.
fn collective(comms: &[Communicator], body: Body, elements: usize) -> f64 {
    let calls = (VOLUME / (4 * elements)).clamp(5, 500);
    let rank = |comm: &Communicator| -> Result<Vec<f64>> {
        let (send, mut recv) = (vec![1.0f32; elements], vec![0.0f32; elements]);
        body(comm, &send, &mut recv)?;
        let mut times = Vec::new();
        for _ in 0..SAMPLES {
            comm.barrier()?;
            let start = clock::now();
            for _ in 0..calls {
                body(comm, &send, &mut recv)?;
            }
            times.push(start.elapsed().as_secs_f64() * 1e6 / calls as f64);
        }
        Ok(times)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = comms
            .iter()
            .map(|comm| scope.spawn(|| rank(comm)))
            .collect();
        let times = threads
            .into_iter()
            .map(|thread| median(thread.join().expect("no panic").expect("no error")));
        times.fold(0.0, f64::max)
    })
}

/// Microseconds of copying the data once.
fn copy(elements: usize) -> f64 {
    let calls = (VOLUME / (4 * elements)).clamp(5, 500);
    let (send, mut recv) = (vec![1.0f32; elements], vec![0.0f32; elements]);
    let sample = || {
        let start = clock::now();
        for _ in 0..calls {
            black_box(&mut recv).copy_from_slice(black_box(&send));
        }
        start.elapsed().as_secs_f64() * 1e6 / calls as f64
    };
    median(std::iter::repeat_with(sample).take(SAMPLES).collect())
}

fn main() {
    println!(
        "{:>14} {:>5} {:>9} {:>10} {:>8}",
        "collective", "ranks", "bytes", "us", "copies"
    );
    for ranks in [2, 4] {
        let comms = Communicator::init_all(ranks, &CommConfig::default()).expect("threads");
        for (name, body) in COLLECTIVES {
            for elements in [16, 1 << 10, 16 << 10, 1 << 18] {
                let bytes = 4 * elements;
                let time = collective(&comms, body, elements);
                let ratio = time / copy(elements);
                println!("{name:>14} {ranks:>5} {bytes:>9} {time:>10.2} {ratio:>8.1}");
            }
        }
    }
}
