//! Exact sums between ranks: the same bits for every number of ranks, decomposition, algorithm and
//! form of call, equal to the correctly rounded sum of another crate. Seeds are in the messages.

use accurate::sum::OnlineExactSum;
use accurate::traits::*;
use fastrand::Rng;
use kolo::comm::Inspect;
use kolo::comm::RawCalls;
use kolo::comm::{Call, Collective, CommConfig, Communicator, RedOp, Stream, group};
use kolo::dtype::exact::ExactSum;
use kolo::dtype::{DataType, Element};

type Settings = [(&'static str, &'static str)];

/// Runs `body` on `nranks` threads, one communicator each.
fn ranks(nranks: u32, overrides: &Settings, body: impl Fn(&Communicator) + Sync) {
    let comms = comms(nranks, overrides);
    std::thread::scope(|scope| {
        for comm in &comms {
            scope.spawn(|| {
                let _guard = AbortOnPanic(comm);
                body(comm);
            });
        }
    });
    end(&comms);
}

fn comms(nranks: u32, overrides: &Settings) -> Vec<Communicator> {
    let overrides = overrides
        .iter()
        .map(|(k, v)| (k.to_string(), v.to_string()))
        .collect();
    let config = CommConfig {
        overrides,
        ..CommConfig::default()
    };
    Communicator::init_all(nranks, &config).expect("init")
}

fn end(comms: &[Communicator]) {
    for comm in comms {
        let (executed, planned) = comm.step_counts().expect("alive");
        assert_eq!(executed, planned, "there is no path beside the plan");
        comm.destroy().expect("destroy");
    }
}

/// A rank that fails an assertion must not leave the others waiting.
struct AbortOnPanic<'a>(&'a Communicator);

impl Drop for AbortOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = self.0.abort();
        }
    }
}

/// A term of rank `rank`: similar sizes, or wide ones, or special values now and then.
fn term(seed: u64, rank: u32, element: usize) -> f64 {
    let mut rng = Rng::with_seed(seed ^ (element as u64) << 20 ^ u64::from(rank) << 50);
    rng.u64(..);
    let size = match seed % 3 {
        0 => 2f64.powi(rng.i32(-4..4)),
        1 => 2f64.powi(rng.i32(-400..400)),
        // The same size on all ranks, another one for each element: narrow windows far apart.
        _ => 2f64.powi((element * 37 % 2000) as i32 - 1000),
    };
    let special = [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        -0.0,
        0.0,
        5e-324,
        f64::MAX,
    ];
    match (seed % 2, rng.usize(..40)) {
        (1, at) if at < special.len() => special[at],
        _ => (rng.f64() - 0.5) * size,
    }
}

/// The exact sum over ranks by the other crate, or by the special values.
fn wanted(seed: u64, nranks: u32, element: usize) -> f64 {
    let terms: Vec<f64> = (0..nranks).map(|rank| term(seed, rank, element)).collect();
    let plain: f64 = terms.iter().sum();
    if !plain.is_finite() {
        // The local accumulator has been compared with a digit-by-digit oracle.
        return terms.iter().copied().collect::<ExactSum<f64>>().value();
    }
    if plain == 0.0 && terms.iter().all(|term| *term == 0.0) {
        return plain;
    }
    OnlineExactSum::zero().absorb(terms).sum()
}

fn same(found: f64, wanted: f64, what: &impl std::fmt::Debug) {
    let equal = found.to_bits() == wanted.to_bits() || (found.is_nan() && wanted.is_nan());
    assert!(equal, "{what:?}: {found:e} instead of {wanted:e}");
}

/// Whole sums, one window block, several blocks, and sums on both sides of the limit.
const COUNTS: &[usize] = &[1, 2, 8, 9, 100, 5000, 20_000];

fn vectors(nranks: u32, overrides: &Settings) {
    let seed_of = |i: usize| i as u64 + 10 * u64::from(nranks);
    let wanted_of = |(i, &count): (usize, &usize)| -> Vec<f64> {
        (0..count).map(|e| wanted(seed_of(i), nranks, e)).collect()
    };
    let all_wanted: Vec<Vec<f64>> = COUNTS.iter().enumerate().map(wanted_of).collect();
    ranks(nranks, overrides, |comm| {
        for (i, &count) in COUNTS.iter().enumerate() {
            let seed = seed_of(i);
            let send: Vec<f64> = (0..count).map(|e| term(seed, comm.rank(), e)).collect();
            let mut recv = vec![f64::NAN; count];
            comm.all_reduce(&send, &mut recv, RedOp::SUM_EXACT).unwrap();
            let root = i as u32 % nranks;
            let mut rooted = vec![-7.0; count];
            comm.reduce(&send, &mut rooted, RedOp::SUM_EXACT, root)
                .unwrap();
            let mut in_place = send.clone();
            comm.all_reduce_in_place(&mut in_place, RedOp::SUM_EXACT)
                .unwrap();
            for element in 0..count {
                let wanted = all_wanted[i][element];
                let what = (nranks, element, seed);
                same(recv[element], wanted, &what);
                same(in_place[element], wanted, &what);
                let is_root = comm.rank() == root;
                same(rooted[element], if is_root { wanted } else { -7.0 }, &what);
            }
        }
    });
}

#[test]
fn vectors_on_every_number_of_ranks() {
    // The seed in a message is that of `term`; the numbers are ranks, element, seed.
    for nranks in [1, 2, 3, 5, 8] {
        vectors(nranks, &[("buffsize", "64K")]);
    }
}

#[test]
fn vectors_with_every_algorithm_and_check() {
    for algorithm in ["ring", "oneshot", "twoshot", "rd", "tree"] {
        vectors(3, &[("algo", algorithm)]);
    }
    vectors(3, &[("check", "1")]);
    vectors(2, &[("check", "1"), ("algo", "ring")]);
}

#[test]
fn floats_are_sums_of_their_own() {
    ranks(4, &[], |comm| {
        for count in [1, 45, 46, 3000] {
            let terms = |rank: u32| -> Vec<f32> {
                let mut rng = Rng::with_seed(u64::from(rank) + 99);
                let size = |rng: &mut Rng| 2f32.powi(rng.i32(-140..120));
                (0..count)
                    .map(|_| (rng.f32() - 0.5) * size(&mut rng))
                    .collect()
            };
            let mut data = terms(comm.rank());
            comm.all_reduce_in_place(&mut data, RedOp::SUM_EXACT)
                .unwrap();
            let all: Vec<Vec<f32>> = (0..4).map(terms).collect();
            for (element, found) in data.iter().enumerate() {
                // Four floats fit exactly into the other crate's doubles, but not their rounding.
                let sum: ExactSum<f32> = all.iter().map(|terms| terms[element]).collect();
                assert_eq!(
                    found.to_bits(),
                    sum.value().to_bits(),
                    "{element} of {count}"
                );
            }
        }
    });
}

#[test]
fn complex_numbers_are_sums_of_their_parts() {
    for nranks in [1, 3, 4] {
        ranks(nranks, &[], |comm| {
            for (i, count) in [1, 4, 5, 700].into_iter().enumerate() {
                let seed = 500 + i as u64;
                let part = |e| term(seed, comm.rank(), e);
                let terms: Vec<f64> = (0..2 * count).map(part).collect();
                let (mut sums, mut rooted) = (vec![3.0; 2 * count], vec![4.0; 2 * count]);
                let root = nranks - 1;
                let all = call(Collective::AllReduce, &terms, &mut sums, 0);
                let one = call(Collective::Reduce, &terms, &mut rooted, root);
                for call in [all, one] {
                    let dtype = DataType::Complex128;
                    let call = Call {
                        count,
                        dtype,
                        ..call
                    };
                    // SAFETY: `count` pairs of doubles in each buffer.
                    unsafe { comm.enqueue(&call, None) }.unwrap();
                }
                for (element, sum) in sums.iter().enumerate() {
                    let wanted = wanted(seed, nranks, element);
                    same(*sum, wanted, &(nranks, element, seed));
                    let is_root = comm.rank() == root;
                    let rooted = rooted[element];
                    same(
                        rooted,
                        if is_root { wanted } else { 4.0 },
                        &(nranks, element, seed),
                    );
                }
            }
        });
    }
}

/// Cuts an array into `nranks` parts at random, some of them empty.
fn part(rng: &mut Rng, length: usize, nranks: u32) -> Vec<usize> {
    let mut cuts: Vec<usize> = (1..nranks).map(|_| rng.usize(..=length)).collect();
    cuts.push(0);
    cuts.push(length);
    cuts.sort_unstable();
    cuts
}

#[test]
fn an_array_has_one_sum_however_it_is_distributed() {
    for seed in 0..6 {
        let mut rng = Rng::with_seed(seed);
        let length = [7, 700, 30_000][seed as usize % 3];
        let size = |rng: &mut Rng| 2f64.powi(rng.i32(-300..300));
        let mut terms: Vec<f64> = (0..length)
            .map(|_| (rng.f64() - 0.5) * size(&mut rng))
            .collect();
        let wanted = OnlineExactSum::zero().absorb(terms.iter().copied()).sum();
        let mut different_plain_sums = std::collections::HashSet::new();
        for nranks in 1..=9 {
            rng.shuffle(&mut terms);
            different_plain_sums.insert(terms.iter().sum::<f64>().to_bits());
            let cuts = part(&mut rng, length, nranks);
            let settings: &Settings = if nranks % 3 == 0 {
                &[("algo", "ring")]
            } else {
                &[]
            };
            ranks(nranks, settings, |comm| {
                let rank = comm.rank() as usize;
                let mine = &terms[cuts[rank]..cuts[rank + 1]];
                let what = format!("{length} terms on {nranks} ranks, seed {seed}");
                same(comm.sum_exact(mine).unwrap(), wanted, &what);
                let mask: Vec<bool> = mine.iter().map(|term| *term > 0.0).collect();
                let positive = comm.sum_exact_masked(mine, &mask).unwrap();
                let rest: Vec<f64> = mine.iter().copied().filter(|term| *term <= 0.0).collect();
                let mut both = [ExactSum::new(), ExactSum::new()];
                both[0].extend(rest.iter().copied());
                both[1].add_masked(mine, &mask);
                let mut sums = [0.0; 2];
                comm.sums_exact_of(&both, &mut sums).unwrap();
                assert_eq!(sums[1].to_bits(), positive.to_bits(), "{what}");
                both[0].merge(&both[1].clone());
                same(comm.sum_exact_of(&both[0]).unwrap(), wanted, &what);
            });
        }
        assert!(
            length == 7 || different_plain_sums.len() > 1,
            "seed {seed} proves nothing"
        );
    }
}

#[test]
fn many_sums_and_none() {
    ranks(3, &[], |comm| {
        let made = |at: usize| ExactSum::from_iter([0.5 + at as f64, f64::from(comm.rank())]);
        let sums: Vec<ExactSum<f64>> = (0..50).map(made).collect();
        let mut values = vec![0.0; 50];
        comm.sums_exact_of(&sums, &mut values).unwrap();
        for (at, value) in values.iter().enumerate() {
            assert_eq!(*value, 3.0 * (0.5 + at as f64) + 3.0);
        }
        comm.sums_exact_of::<f32>(&[], &mut []).unwrap();
        let empty: f64 = comm.sum_exact(&[]).unwrap();
        assert_eq!(empty.to_bits(), 0);
        let zero = comm
            .sum_exact(&vec![-0.0f32; comm.rank() as usize])
            .unwrap();
        assert_eq!(zero.to_bits(), (-0.0f32).to_bits());
    });
}

fn call<T: Element>(collective: Collective, send: &[T], recv: &mut [T], root: u32) -> Call {
    Call {
        collective,
        send: send.as_ptr().cast(),
        recv: recv.as_mut_ptr().cast(),
        count: send.len(),
        dtype: T::DTYPE,
        op: RedOp::SUM_EXACT,
        peer: root,
    }
}

#[test]
fn groups_of_several_ranks_on_one_thread() {
    for nranks in [1, 2, 4] {
        let comms = comms(nranks, &[("buffsize", "64K")]);
        for count in [1, 6, 20_000] {
            let send = |rank| (0..count).map(|e| term(5, rank, e)).collect::<Vec<f64>>();
            let sends: Vec<Vec<f64>> = (0..nranks).map(send).collect();
            let mut all = vec![vec![0.0; count]; nranks as usize];
            let mut rooted = vec![vec![0.0; count]; nranks as usize];
            group::start();
            for (rank, comm) in comms.iter().enumerate() {
                let first = call(Collective::AllReduce, &sends[rank], &mut all[rank], 0);
                let second = call(
                    Collective::Reduce,
                    &sends[rank],
                    &mut rooted[rank],
                    nranks - 1,
                );
                // SAFETY: the buffers are left alone until the group has ended.
                unsafe {
                    comm.enqueue(&first, None).unwrap();
                    comm.enqueue(&second, None).unwrap();
                }
                assert!(comm.sum_exact(&[1.0f64]).is_err(), "a value inside a group");
            }
            group::end().unwrap();
            for element in 0..count {
                let wanted = wanted(5, nranks, element);
                for sums in all.iter().chain(rooted.last()) {
                    same(
                        sums[element],
                        wanted,
                        &format!("{nranks} ranks, {element} of {count}"),
                    );
                }
            }
        }
        end(&comms);
    }
}

#[test]
fn streams_keep_their_order() {
    ranks(3, &[("buffsize", "64K")], |comm| {
        let stream = Stream::new().unwrap();
        for count in [1, 9, 30_000] {
            let send: Vec<f64> = (0..count).map(|e| (e % 100) as f64 + 0.25).collect();
            let (mut once, mut twice) = (vec![0.0; count], vec![0.0; count]);
            let first = call(Collective::AllReduce, &send, &mut once, 0);
            // Reads what the first call writes: encoded too early it would be zeros.
            let second = call(Collective::AllReduce, &once, &mut twice, 0);
            // SAFETY: the buffers are left alone until the stream is idle.
            unsafe {
                comm.enqueue(&first, Some(&stream)).unwrap();
                comm.enqueue(&second, Some(&stream)).unwrap();
            }
            // A sum while the queue is busy goes behind it.
            let sum = comm.sum_exact(&[f64::from(comm.rank()) + 0.5]).unwrap();
            assert_eq!(sum, 4.5);
            stream.synchronize().unwrap();
            for (element, found) in twice.iter().enumerate() {
                assert_eq!(*found, 9.0 * ((element % 100) as f64 + 0.25));
            }
        }
        let (send, mut recv) = (vec![1.0f32; 100], vec![0.0f32; 100]);
        comm.scope(|scope| scope.all_reduce(&send, &mut recv, RedOp::SUM_EXACT))
            .unwrap();
        assert_eq!(recv, [3.0; 100]);
    });
}

#[test]
fn what_has_no_exact_sum_is_refused_in_words() {
    let comm = comms(1, &[]).remove(0);
    let text = |result: kolo::base::Result<()>| result.unwrap_err().to_string();
    let error = text(comm.all_reduce_in_place(&mut [1i32], RedOp::SUM_EXACT));
    assert!(error.contains("no exact sum of int32"), "{error}");
    let error = text(comm.reduce_scatter(&[1.0f64], &mut [0.0], RedOp::SUM_EXACT));
    assert!(
        error.contains("ReduceScatter: only AllReduce and Reduce"),
        "{error}"
    );
    let mut half = [0u16];
    let call = Call {
        dtype: DataType::Bfloat16,
        ..call(Collective::AllReduce, &[0.0f64], &mut [0.0f64], 0)
    };
    let call = Call {
        send: half.as_ptr().cast(),
        recv: half.as_mut_ptr().cast(),
        ..call
    };
    // SAFETY: one element of two bytes.
    let error = text(unsafe { comm.enqueue(&call, None) });
    assert!(error.contains("no exact sum of bfloat16"), "{error}");
    let error = comm
        .sum_exact_masked(&[1.0, 2.0], &[true])
        .unwrap_err()
        .to_string();
    assert!(error.contains("1 entries for 2 terms"), "{error}");
    comm.destroy().unwrap();
}

#[test]
fn ranks_that_disagree_are_told() {
    for count in [1, 5000] {
        let comms = comms(3, &[]);
        let results: Vec<String> = std::thread::scope(|scope| {
            let run = |comm: &Communicator| {
                let op = if comm.rank() == 1 {
                    RedOp::SUM
                } else {
                    RedOp::SUM_EXACT
                };
                let mut data = vec![1.0f64; count];
                comm.all_reduce_in_place(&mut data, op)
                    .and_then(|()| comm.barrier())
                    .unwrap_err()
                    .to_string()
            };
            let threads: Vec<_> = comms
                .iter()
                .map(|comm| scope.spawn(move || run(comm)))
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        for text in &results {
            assert!(text.contains("double, exact sum"), "{text}");
            assert!(text.contains("double, sum"), "{text}");
        }
        // Another number of elements, and a sum beside a vector.
        let others = self::comms(2, &[]);
        std::thread::scope(|scope| {
            for comm in &others {
                scope.spawn(move || {
                    let mut data = vec![1.0f32; count + comm.rank() as usize];
                    let result = comm.all_reduce_in_place(&mut data, RedOp::SUM_EXACT);
                    let error = result
                        .and_then(|()| comm.barrier())
                        .unwrap_err()
                        .to_string();
                    assert!(error.contains("float, exact sum"), "{error}");
                });
            }
        });
    }
}
