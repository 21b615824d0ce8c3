//! Does kolo choose the better kind of store here? `cargo bench --bench stores [-- ROUNDS]`.
//!
//! Three calls of two ranks that pass data through slots, with slots that are written in the
//! ordinary way, past the cache, and as kolo chooses. The kinds take turns in every round, and
//! each ratio is the median of those of the rounds, so what else the machine does meanwhile falls
//! on all alike. Ranks are threads on two different cores. `auto / best` is what matters.

use kolo::base::{Result, clock};
use kolo::comm::{CommConfig, Communicator, RedOp};
use kolo::topo::{Machine, pairs};

const KINDS: [&str; 3] = ["cached", "streamed", "auto"];

type Body = fn(&Communicator, &[f32], &mut [f32]) -> Result<()>;

const CALLS: [(&str, usize, Body); 3] = [
    ("all_reduce", 64 << 10, |comm, send, recv| {
        comm.all_reduce(send, recv, RedOp::SUM)
    }),
    ("broadcast", 1 << 20, |comm, _, recv| {
        comm.broadcast(recv, 0)
    }),
    ("alltoall", 64 << 10, |comm, send, recv| {
        comm.all_to_all(send, recv)
    }),
];

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

fn comms(kind: &str) -> Vec<Communicator> {
    let said = [("stores", kind), ("direct", "false")];
    let config = CommConfig {
        overrides: said.map(|(key, value)| (key.into(), value.into())).into(),
        ..CommConfig::default()
    };
    Communicator::init_all(2, &config).expect("threads")
}

/// Microseconds of a call with each kind, by rounds, on the rank that took longest.
fn rounds(kinds: &[Vec<Communicator>], body: Body, bytes: usize, rounds: usize) -> Vec<[f64; 3]> {
    let calls = ((8 << 20) / bytes).max(10);
    let cores = Machine::detect().map_or(Vec::new(), pairs::core_pairs);
    let rank = |rank: usize| -> Result<Vec<[f64; 3]>> {
        if let Some(pairs) = cores.first() {
            pairs::bind_quickly(&pairs.cores[rank])?;
        }
        let (send, mut recv) = (vec![1.0f32; bytes / 4], vec![0.0f32; bytes / 4]);
        let mut times = Vec::new();
        for round in 0..=rounds {
            let mut of_round = [0.0; 3];
            for (comms, time) in kinds.iter().zip(&mut of_round) {
                let comm = &comms[rank];
                for _ in 0..3 {
                    body(comm, &send, &mut recv)?;
                }
                comm.barrier()?;
                let start = clock::now();
                for _ in 0..calls {
                    body(comm, &send, &mut recv)?;
                }
                *time = start.elapsed().as_secs_f64() * 1e6 / calls as f64;
            }
            if round > 0 {
                times.push(of_round);
            }
        }
        Ok(times)
    };
    let [first, second] = std::thread::scope(|scope| {
        let threads = [0, 1].map(|number| {
            let rank = &rank;
            scope.spawn(move || rank(number))
        });
        threads.map(|thread| thread.join().expect("no panic").expect("no error"))
    });
    let longer = |(a, b): (&[f64; 3], &[f64; 3])| std::array::from_fn(|at| a[at].max(b[at]));
    first.iter().zip(&second).map(longer).collect()
}

fn main() {
    let asked = std::env::args().nth(1).and_then(|text| text.parse().ok());
    for line in kolo::comm::stores::report() {
        println!("{line}");
    }
    println!(
        "{:>12} {:>9} {:>10} {:>10} {:>10} {:>18} {:>12}",
        "call", "bytes", "cached us", "streamed", "auto", "streamed / cached", "auto / best"
    );
    let kinds = KINDS.map(comms);
    for (name, bytes, body) in CALLS {
        let times = rounds(&kinds, body, bytes, asked.unwrap_or(41));
        let of = |f: fn(&[f64; 3]) -> f64| median(times.iter().map(f).collect());
        let [cached, streamed, auto] = [of(|t| t[0]), of(|t| t[1]), of(|t| t[2])];
        let kinds = of(|t| t[1] / t[0]);
        // The better kind of all rounds, not of each: that would be luck.
        let best = match kinds > 1.0 {
            true => of(|t| t[2] / t[0]),
            false => of(|t| t[2] / t[1]),
        };
        println!(
            "{name:>12} {bytes:>9} {cached:>10.2} {streamed:>10.2} {auto:>10.2} {kinds:>18.2} \
             {best:>12.2}"
        );
    }
}
