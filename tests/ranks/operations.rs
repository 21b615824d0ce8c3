//! Types that are not plain numbers, their operations, and functions of the program.

use super::support::{POISON, ranks};
use kolo::comm::RawCalls;
use kolo::comm::RedOp;
use kolo::dtype::{
    Byte, Character, Complex, DataType, DoubleDouble, DoubleInt, Element, FloatInt, Logical8,
    Logical32, LongInt,
};

const SIZES: &[u32] = &[1, 2, 3, 5, 9];
const SLOTS: &[(&str, &str)] = &[("buffsize", "64K")];
const COUNTS: &[usize] = &[1, 7, 3000, 20_001];

/// All-reduces `input(rank, element)` and compares every element with `wanted`.
fn all_reduced<T: Element + PartialEq + std::fmt::Debug>(
    op: RedOp,
    input: impl Fn(usize, usize) -> T + Sync,
    wanted: impl Fn(usize, usize) -> T + Sync,
) {
    for &n in SIZES {
        ranks(n, SLOTS, |comm| {
            let rank = comm.rank() as usize;
            for &count in COUNTS {
                let send: Vec<T> = (0..count).map(|e| input(rank, e)).collect();
                let mut recv = vec![input(99, 99); count];
                comm.all_reduce(&send, &mut recv, op).unwrap();
                for (e, got) in recv.iter().enumerate() {
                    assert_eq!(*got, wanted(n as usize, e), "{op:?} of {n}, {e} of {count}");
                }
            }
        });
    }
}

#[test]
fn complex_numbers() {
    let number = |r: usize, e: usize| Complex::new((r + e % 50) as f64, e as f64 % 7.0 - r as f64);
    all_reduced(RedOp::SUM, number, move |n, e| {
        (0..n).map(|r| number(r, e)).sum()
    });
    // Powers of i: exact in any order of folding.
    let units = [(1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0)];
    let turn = |r: usize, e: usize| (r * 3 + e) % 4;
    let unit = move |r: usize, e: usize| {
        let (re, im) = units[turn(r, e)];
        Complex::new(re as f32, im as f32)
    };
    let product = move |n: usize, e: usize| {
        let (re, im) = units[(0..n).map(|r| turn(r, e)).sum::<usize>() % 4];
        Complex::new(re as f32, im as f32)
    };
    all_reduced(RedOp::PROD, unit, product);
    let average =
        move |n: usize, e: usize| (0..n).map(|r| number(r, e)).sum::<Complex<f64>>() / n as f64;
    all_reduced(RedOp::AVG, number, average);
}

#[test]
fn truth_and_bits() {
    let truth = |r: usize, e: usize| !(r * 7 + e * 3).is_multiple_of(4);
    // Any non-zero value is true.
    let logical = move |r: usize, e: usize| Logical32(if truth(r, e) { 1 + r as u32 } else { 0 });
    let one = |n: usize, held: bool, e: usize| match n {
        // One rank alone keeps what it has.
        1 => logical(0, e),
        _ => Logical32::from(held),
    };
    let all = move |n: usize, e: usize| one(n, (0..n).all(|r| truth(r, e)), e);
    let any = move |n: usize, e: usize| one(n, (0..n).any(|r| truth(r, e)), e);
    let odd = move |n: usize, e: usize| one(n, (0..n).filter(|&r| truth(r, e)).count() % 2 == 1, e);
    all_reduced(RedOp::LAND, logical, all);
    all_reduced(RedOp::LOR, logical, any);
    all_reduced(RedOp::LXOR, logical, odd);
    let short = move |r: usize, e: usize| Logical8::from(truth(r, e));
    all_reduced(RedOp::LAND, short, move |n, e| {
        (0..n).all(|r| truth(r, e)).into()
    });
    let bits = |r: usize, e: usize| {
        (r as u64)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(e as u32)
    };
    all_reduced(RedOp::BXOR, bits, move |n, e| {
        (0..n).fold(0, |a, r| a ^ bits(r, e))
    });
    all_reduced(RedOp::BAND, bits, move |n, e| {
        (0..n).fold(u64::MAX, |a, r| a & bits(r, e))
    });
    let byte = move |r: usize, e: usize| Byte(bits(r + 1, e) as u8);
    all_reduced(RedOp::BOR, byte, move |n, e| {
        Byte((0..n).fold(0, |a, r| a | byte(r, e).0))
    });
    let letter = move |r: usize, e: usize| Character(byte(r, e).0);
    all_reduced(RedOp::MAX, letter, move |n, e| {
        (0..n).map(|r| letter(r, e)).max().unwrap()
    });
}

#[test]
fn where_the_extremes_are() {
    // Few different values: many ties, and the smallest index wins.
    let value = |r: usize, e: usize| ((r * 5 + e * 3) % 4) as i64;
    let index = |r: usize| 40 - r as i32 * 3;
    let best = move |n: usize, e: usize, largest: bool| {
        let key = |&r: &usize| {
            let v = value(r, e);
            (if largest { -v } else { v }, index(r))
        };
        (0..n).min_by_key(key).unwrap()
    };
    let double = move |r: usize, e: usize| DoubleInt::new(value(r, e) as f64, index(r));
    all_reduced(RedOp::MAXLOC, double, move |n, e| {
        double(best(n, e, true), e)
    });
    all_reduced(RedOp::MINLOC, double, move |n, e| {
        double(best(n, e, false), e)
    });
    let float = move |r: usize, e: usize| FloatInt::new(value(r, e) as f32, index(r));
    all_reduced(RedOp::MINLOC, float, move |n, e| {
        float(best(n, e, false), e)
    });
    let long = move |r: usize, e: usize| LongInt::new(value(r, e) << 40, index(r));
    all_reduced(RedOp::MAXLOC, long, move |n, e| long(best(n, e, true), e));
    let fortran = move |r: usize, e: usize| DoubleDouble::new(value(r, e) as f64, index(r).into());
    all_reduced(RedOp::MAXLOC, fortran, move |n, e| {
        fortran(best(n, e, true), e)
    });
}

/// A map x -> a x + b modulo a prime: composition is associative and does not commute.
const PRIME: u64 = 1_000_003;

fn compose(first: (u64, u64), second: (u64, u64)) -> (u64, u64) {
    (
        first.0 * second.0 % PRIME,
        (first.1 * second.0 + second.1) % PRIME,
    )
}

fn map(rank: usize, element: usize) -> (u64, u64) {
    let a = 2 + (rank * 31 + element * 7) as u64 % 1000;
    (a, (rank * 17 + element) as u64 % PRIME)
}

fn composed(ranks: std::ops::Range<usize>, element: usize) -> (u64, u64) {
    ranks.map(|r| map(r, element)).reduce(compose).unwrap()
}

fn packed((a, b): (u64, u64)) -> u64 {
    a << 32 | b
}

fn unpacked(bits: u64) -> (u64, u64) {
    (bits >> 32, bits & 0xffff_ffff)
}

fn combine(first: &[u64], second: &mut [u64]) {
    for (a, b) in first.iter().zip(second) {
        *b = packed(compose(unpacked(*a), unpacked(*b)));
    }
}

#[test]
fn functions_that_do_not_commute_keep_the_order_of_ranks() {
    for &n in SIZES {
        ranks(n, SLOTS, |comm| {
            let (rank, nranks) = (comm.rank() as usize, n as usize);
            let op = comm.user_op(false, combine).unwrap();
            for (i, &count) in COUNTS.iter().enumerate() {
                let send: Vec<u64> = (0..count).map(|e| packed(map(rank, e))).collect();
                let mut recv = vec![POISON as u64; count];
                comm.all_reduce(&send, &mut recv, op).unwrap();
                let all = |e: usize| packed(composed(0..nranks, e));
                assert!(
                    (0..count).all(|e| recv[e] == all(e)),
                    "all_reduce {rank} of {n}, {count}"
                );
                let mut data = send.clone();
                comm.all_reduce_in_place(&mut data, op).unwrap();
                assert!(data == recv, "in place {rank} of {n}, {count}");
                let root = i as u32 % n;
                let mut at_root = vec![POISON as u64; count];
                comm.reduce(&send, &mut at_root, op, root).unwrap();
                let untouched = vec![POISON as u64; count];
                let wanted = if rank as u32 == root {
                    &recv
                } else {
                    &untouched
                };
                assert!(
                    at_root == *wanted,
                    "reduce {rank} of {n}, root {root}, {count}"
                );
                let blocks: Vec<u64> = (0..count * nranks).map(|e| packed(map(rank, e))).collect();
                let mut block = vec![POISON as u64; count];
                comm.reduce_scatter(&blocks, &mut block, op).unwrap();
                let mine = |e: usize| packed(composed(0..nranks, rank * count + e));
                assert!(
                    (0..count).all(|e| block[e] == mine(e)),
                    "reduce_scatter {rank} of {n}"
                );
                comm.scan(&send, &mut recv, op).unwrap();
                let prefix = |e: usize| packed(composed(0..rank + 1, e));
                assert!(
                    (0..count).all(|e| recv[e] == prefix(e)),
                    "scan {rank} of {n}"
                );
            }
            comm.destroy_op(op).unwrap();
        });
    }
}

#[test]
fn functions_that_commute_and_blocks() {
    for &n in SIZES {
        ranks(n, SLOTS, |comm| {
            let (rank, nranks) = (comm.rank() as usize, n as usize);
            let gcd = |first: &[u64], second: &mut [u64]| {
                for (&a, b) in first.iter().zip(second) {
                    let (mut x, mut y) = (a, *b);
                    while y != 0 {
                        (x, y) = (y, x % y);
                    }
                    *b = x;
                }
            };
            let op = comm.user_op(true, gcd).unwrap();
            let send: Vec<u64> = (0..50_000)
                .map(|e| 12 * (e % 90 + 1) * (rank as u64 + 1))
                .collect();
            let mut recv = vec![POISON as u64; send.len()];
            comm.all_reduce(&send, &mut recv, op).unwrap();
            // Rank 0 has 12 (e + 1) itself, and all others multiples of it.
            let wanted = |e: u64| 12 * (e % 90 + 1);
            assert!(
                (0..50_000).all(|e| recv[e as usize] == wanted(e)),
                "{rank} of {n}"
            );
            let ordered = comm.user_op(false, combine).unwrap();
            let counts: Vec<usize> = (0..nranks).map(|r| r % 3 * 4000).collect();
            let before: usize = counts[..rank].iter().sum();
            let total: usize = counts.iter().sum();
            let maps: Vec<u64> = (0..total).map(|e| packed(map(rank, e))).collect();
            let mut block = vec![POISON as u64; counts[rank]];
            comm.reduce_scatter_v(&maps, &mut block, &counts, ordered)
                .unwrap();
            let mine = |e: usize| packed(composed(0..nranks, before + e));
            assert!(
                (0..block.len()).all(|e| block[e] == mine(e)),
                "blocks {rank} of {n}"
            );
        });
    }
}

#[test]
fn what_does_not_fit_is_named() {
    ranks(2, &[], |comm| {
        let mut pair = [DoubleInt::new(1.0, 2)];
        let error = comm.all_reduce_in_place(&mut pair, RedOp::SUM).unwrap_err();
        assert!(
            error
                .what
                .contains("sum does not combine elements of type double_int"),
            "{error}"
        );
        assert!(error.remedy.contains("minloc, maxloc"), "{error}");
        let op = comm.user_op(true, combine).unwrap();
        let mut wrong = [1.0f64];
        let error = comm.all_reduce_in_place(&mut wrong, op).unwrap_err();
        assert!(
            error.what.contains("made for uint64, not double"),
            "{error}"
        );
        comm.destroy_op(op).unwrap();
        let mut right = [1u64];
        let error = comm.all_reduce_in_place(&mut right, op).unwrap_err();
        assert!(error.what.contains("not a reduction operation"), "{error}");
        let error = comm.pre_mul_sum(&[1], DataType::Byte).unwrap_err();
        assert!(error.what.contains("mulsum does not combine"), "{error}");
    });
}

#[test]
fn ranks_must_agree_whether_a_function_commutes() {
    let comms = super::support::made(2, &[]);
    let errors: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = comms
            .iter()
            .map(|comm| {
                scope.spawn(move || {
                    let op = comm.user_op(comm.rank() == 0, combine).unwrap();
                    let mut data = vec![1u64; 100_000];
                    comm.all_reduce_in_place(&mut data, op)
                })
            })
            .collect();
        threads
            .into_iter()
            .filter_map(|t| t.join().unwrap().err())
            .collect()
    });
    let text = format!("{}", errors[0]);
    assert!(text.contains("a function of the program that"), "{text}");
}

#[test]
fn complex_factors_and_types_in_all_collectives() {
    ranks(3, SLOTS, |comm| {
        let rank = comm.rank() as usize;
        let scalar = Complex::new(0.0f64, 1.0 + rank as f64);
        let bytes: Vec<u8> = [scalar.re, scalar.im]
            .iter()
            .flat_map(|part| part.to_ne_bytes())
            .collect();
        let op = comm.pre_mul_sum(&bytes, DataType::Complex128).unwrap();
        for count in [3, 30_000] {
            let send: Vec<Complex<f64>> = (0..count)
                .map(|e| Complex::new(e as f64, rank as f64))
                .collect();
            let mut recv = vec![Complex::new(-1.0, -1.0); count];
            comm.all_reduce(&send, &mut recv, op).unwrap();
            for (e, got) in recv.iter().enumerate() {
                let part = |r: f64| Complex::new(0.0, 1.0 + r) * Complex::new(e as f64, r);
                assert_eq!(*got, part(0.0) + part(1.0) + part(2.0), "{e}");
            }
        }
        let mut pairs = vec![DoubleInt::new(rank as f64, 1); 500];
        comm.broadcast(&mut pairs, 2).unwrap();
        assert!(pairs.iter().all(|pair| pair.value == 2.0));
    });
}

/// A scope that could not wait at its end would let calls outlive the buffers that they borrow.
#[test]
fn an_operation_can_open_no_scope() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    let others = Arc::new(super::support::made(2, &[]));
    let refused = Arc::new(AtomicU32::new(0));
    ranks(2, &[], |comm| {
        let (others, refused) = (Arc::clone(&others), Arc::clone(&refused));
        let me = comm.rank() as usize;
        let op = comm.user_op(true, move |a: &[i64], b: &mut [i64]| {
            let opened = others[me].scope(|scope| {
                let _ = scope.barrier();
                panic!("the scope was opened");
            });
            let opened: kolo::base::Result<()> = opened;
            let error = opened.unwrap_err();
            assert!(error.what.contains("opens a scope"), "{error}");
            refused.fetch_add(1, Ordering::Relaxed);
            b.iter_mut().zip(a).for_each(|(b, a)| *b += a);
        });
        let mine: Vec<i64> = (0..500).map(|i| i * 3 + me as i64).collect();
        let mut sums = vec![-1; 500];
        comm.all_reduce(&mine, &mut sums, op.unwrap()).unwrap();
        assert!(
            sums.iter().zip(0..).all(|(&sum, i)| sum == 6 * i + 1),
            "rank {me}"
        );
    });
    assert!(refused.load(Ordering::Relaxed) > 0);
    std::thread::scope(|scope| {
        for comm in others.iter() {
            scope.spawn(|| comm.destroy().unwrap());
        }
    });
}
