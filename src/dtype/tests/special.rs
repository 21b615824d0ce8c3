//! Special values: every pair against the oracle, and the promises of the documentation by hand.

use super::harness::{Case, check, specials};
use super::{available, oracle, pairs};
use half::{bf16, f16};
use kolo_dtype::{DataType, Element, F8E4M3, F8E5M2, FoldParams, Isa, ReduceOp, fold_of};
use std::num::NonZeroU32;

fn bytes_of(dtype: DataType, codes: &[u128]) -> Vec<u8> {
    let size = dtype.size_bytes();
    codes
        .iter()
        .flat_map(|code| code.to_le_bytes().into_iter().take(size))
        .collect()
}

/// For the 8-bit floats these are all 65,536 pairs of codes.
#[test]
fn every_pair_of_special_values() {
    for isa in available() {
        for (dtype, op) in pairs() {
            let special = specials(dtype);
            let count = special.len().pow(2);
            let first: Vec<u128> = (0..count).map(|i| special[i / special.len()]).collect();
            let second: Vec<u128> = (0..count).map(|i| special[i % special.len()]).collect();
            let mut scalar = [0; 16];
            scalar[..dtype.size_bytes()].copy_from_slice(&bytes_of(dtype, &[special[3]]));
            let case = Case {
                dtype,
                op,
                count,
                srcs: vec![bytes_of(dtype, &first), bytes_of(dtype, &second)],
                dsts: vec![None],
                shifts: vec![0; 3],
                params: FoldParams {
                    pre_scale_mask: u64::from(op == ReduceOp::PreMulSum),
                    scalar,
                    divisor: NonZeroU32::new(3).filter(|_| op == ReduceOp::Avg),
                    ..FoldParams::default()
                },
            };
            if let Err(difference) = check(fold_of(isa, dtype, op).unwrap(), &case) {
                panic!("{} {dtype} {op}: {difference}", isa.name());
            }
        }
    }
}

/// Folds the same sources at 67 positions (blocks, vectors and single elements) and returns the
/// bits that all positions agree on.
fn fold_all<E: Element>(isa: Isa, op: ReduceOp, values: &[E], params: FoldParams) -> u128 {
    const COUNT: usize = 67;
    let srcs: Vec<Vec<E>> = values.iter().map(|&value| vec![value; COUNT]).collect();
    let mut result = vec![values[0]; COUNT];
    let pointers: Vec<*const u8> = srcs.iter().map(|src| src.as_ptr().cast()).collect();
    let kernel = fold_of(isa, E::DTYPE, op).unwrap();
    // SAFETY: all buffers have COUNT elements; the destination is memory of its own.
    unsafe { kernel(&pointers, &[result.as_mut_ptr().cast()], COUNT, &params) };
    // SAFETY: `Element` promises plain bytes.
    let bytes = unsafe {
        std::slice::from_raw_parts(result.as_ptr().cast::<u8>(), size_of_val(result.as_slice()))
    };
    let first = oracle::element(E::DTYPE, bytes, 0);
    for index in 0..COUNT {
        assert_eq!(
            oracle::element(E::DTYPE, bytes, index),
            first,
            "{} {op}",
            isa.name()
        );
    }
    first
}

pub(super) fn plain<E: Element>(isa: Isa, op: ReduceOp, values: &[E]) -> u128 {
    fold_all(isa, op, values, FoldParams::default())
}

/// The bits of one element.
pub(super) fn bits<E: Element>(value: &E) -> u128 {
    // SAFETY: `Element` promises plain bytes.
    let bytes = unsafe { std::slice::from_raw_parts((&raw const *value).cast(), size_of::<E>()) };
    oracle::element(E::DTYPE, bytes, 0)
}

fn averaged<E: Element>(isa: Isa, values: &[E], by: u32) -> u128 {
    let params = FoldParams {
        divisor: NonZeroU32::new(by),
        ..FoldParams::default()
    };
    fold_all(isa, ReduceOp::Avg, values, params)
}

#[test]
fn integers_wrap_and_truncate() {
    for isa in available() {
        assert_eq!(plain(isa, ReduceOp::Sum, &[127i8, 1]), 0x80);
        assert_eq!(plain(isa, ReduceOp::Prod, &[i64::MIN, -1]), 1 << 63);
        assert_eq!(
            plain(isa, ReduceOp::Max, &[u64::MAX, 1]),
            u128::from(u64::MAX)
        );
        assert_eq!(plain(isa, ReduceOp::Max, &[-1i64, 1]), 1);
        assert_eq!(averaged(isa, &[-3i32, -4], 2), (-3i32) as u32 as u128);
        assert_eq!(averaged(isa, &[i64::MIN], 1), 1 << 63);
        assert_eq!(averaged(isa, &[200u8, 100], 3), (200 + 100 - 256) / 3);
        assert_eq!(averaged(isa, &[-100i8, -20], 200), 0);
    }
}

#[test]
fn nan_is_propagated_and_canonical() {
    let odd = f32::from_bits(0xffa5_5a5a);
    let odd64 = f64::from_bits(0xfff0_0000_dead_beef);
    for isa in available() {
        for op in [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max, ReduceOp::Min] {
            for values in [[odd, 1.0], [1.0, odd], [odd, -odd]] {
                assert_eq!(plain(isa, op, &values), 0x7fc0_0000, "{op}");
            }
            for values in [[odd64, 1.0], [1.0, odd64], [odd64, -odd64]] {
                assert_eq!(plain(isa, op, &values), 0x7ff8_0000_0000_0000, "{op}");
            }
            assert_eq!(plain(isa, op, &[f16::from_bits(0xfd01), f16::ONE]), 0x7e00);
            assert_eq!(
                plain(isa, op, &[bf16::ONE, bf16::from_bits(0xff81)]),
                0x7fc0
            );
            assert_eq!(
                plain(isa, op, &[F8E4M3::from_bits(0xff), F8E4M3::default()]),
                0x7f
            );
            assert_eq!(
                plain(isa, op, &[F8E5M2::from_bits(0xfd), F8E5M2::default()]),
                0x7f
            );
        }
        let both = [f32::INFINITY, f32::NEG_INFINITY];
        assert_eq!(plain(isa, ReduceOp::Sum, &both), 0x7fc0_0000);
        // One source, nothing scaled: the bits are copied, whatever they are.
        assert_eq!(plain(isa, ReduceOp::Max, &[odd]), 0xffa5_5a5a);
    }
}

#[test]
fn zeros_are_ordered() {
    for isa in available() {
        for values in [[0.0f64, -0.0], [-0.0, 0.0]] {
            assert_eq!(plain(isa, ReduceOp::Max, &values), 0);
            assert_eq!(plain(isa, ReduceOp::Min, &values), 1 << 63);
            assert_eq!(plain(isa, ReduceOp::Sum, &values), 0);
        }
        assert_eq!(plain(isa, ReduceOp::Max, &[-0.0f32, -0.0]), 1 << 31);
        assert_eq!(plain(isa, ReduceOp::Sum, &[-0.0f32, -0.0]), 1 << 31);
        assert_eq!(
            plain(isa, ReduceOp::Min, &[f16::ZERO, f16::NEG_ZERO]),
            0x8000
        );
    }
}

#[test]
fn narrow_floats_are_rounded_once() {
    for isa in available() {
        // 2048 + 1 + 1 + 1: rounded after each addition it stays 2048; once, it is 2052.
        let values = [2048.0, 1.0, 1.0, 1.0].map(f16::from_f32);
        assert_eq!(
            plain(isa, ReduceOp::Sum, &values),
            u128::from(f16::from_f32(2052.0).to_bits())
        );
        let values = [256.0, 1.0, 1.0, 1.0].map(bf16::from_f32);
        assert_eq!(
            plain(isa, ReduceOp::Sum, &values),
            u128::from(bf16::from_f32(260.0).to_bits())
        );
        let values = [16.0, 1.0, 1.0, 1.0].map(F8E4M3::from_f32);
        assert_eq!(
            plain(isa, ReduceOp::Sum, &values),
            u128::from(F8E4M3::from_f32(20.0).to_bits())
        );
    }
}

#[test]
fn too_large_is_infinity_or_nan() {
    for isa in available() {
        assert_eq!(plain(isa, ReduceOp::Sum, &[f16::MAX, f16::MAX]), 0x7c00);
        assert_eq!(plain(isa, ReduceOp::Sum, &[bf16::MIN, bf16::MIN]), 0xff80);
        let (e4, e5) = (F8E4M3::from_f32(448.0), F8E5M2::from_f32(-57344.0));
        assert_eq!(plain(isa, ReduceOp::Sum, &[e4, e4]), 0x7f);
        // 464 lies half-way between 448 and the first number that does not exist.
        assert_eq!(
            plain(isa, ReduceOp::Sum, &[e4, F8E4M3::from_f32(16.0)]),
            0x7e
        );
        assert_eq!(
            plain(isa, ReduceOp::Sum, &[e4, F8E4M3::from_f32(18.0)]),
            0x7f
        );
        assert_eq!(plain(isa, ReduceOp::Sum, &[e5, e5]), 0xfc);
        assert_eq!(
            plain(isa, ReduceOp::Min, &[e5, F8E5M2::from_bits(0xfc)]),
            0xfc
        );
    }
}
