//! Conversions: all codes, and every rounding boundary with its neighbours.

use super::harness::{Case, check};
use super::oracle::{self, E4M3, E5M2, Float8};
use fastrand::Rng;
use half::{bf16, f16};
use kolo_dtype::minifloat::{self, F8E4M3, F8E5M2};
use kolo_dtype::{DataType, FoldParams, ReduceOp, fold_of};

/// Equal values, or both NaN.
fn same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

/// `value` and the floats next to it, of both signs.
fn around(value: f32) -> impl Iterator<Item = f32> {
    [value.next_down(), value, value.next_up()]
        .into_iter()
        .flat_map(|v| [v, -v])
}

#[test]
fn binary16_equals_the_crate() {
    for code in 0..=u16::MAX {
        let (ours, theirs) = (
            minifloat::F16.decode(u32::from(code)),
            f16::from_bits(code).to_f32(),
        );
        assert!(same(ours, theirs), "{code:#x}: {ours} and {theirs}");
    }
    let encode = |value: f32| {
        let wanted = oracle::bits_of(DataType::Float16, value);
        let found = u64::from(minifloat::F16.encode(value));
        assert_eq!(found, wanted, "{value:e} ({:#x})", value.to_bits());
    };
    for code in 0..0x7c00u16 {
        // Half-way to the next code; above the largest number, half-way to what would follow.
        let this = f16::from_bits(code).to_f32();
        let next = if code == 0x7bff {
            65536.0
        } else {
            f16::from_bits(code + 1).to_f32()
        };
        around(this)
            .chain(around((this + next) / 2.0))
            .for_each(encode);
    }
    let mut rng = Rng::with_seed(16);
    (0..200_000).for_each(|_| encode(f32::from_bits(rng.u32(..))));
}

#[test]
fn bfloat16_equals_the_crate() {
    for code in 0..=u16::MAX {
        let (ours, theirs) = (minifloat::decode_bf16(code), bf16::from_bits(code).to_f32());
        assert!(same(ours, theirs), "{code:#x}: {ours} and {theirs}");
        for low in [0, 1, 0x7fff, 0x8000, 0x8001, 0xffff] {
            let value = f32::from_bits(u32::from(code) << 16 | low);
            let wanted = oracle::bits_of(DataType::Bfloat16, value);
            assert_eq!(
                u64::from(minifloat::encode_bf16(value)),
                wanted,
                "{value:e}"
            );
        }
    }
}

/// Every code, every boundary, and random floats against the search for the nearest code.
fn check_float8(spec: &Float8, decode: impl Fn(u8) -> f32, encode: impl Fn(f32) -> u8) {
    for code in 0..=u8::MAX {
        let (ours, exact) = (decode(code), spec.value(code) as f32);
        assert!(same(ours, exact), "{code:#x}: {ours} and {exact}");
    }
    let check = |value: f32| {
        let wanted = spec.nearest(f64::from(value));
        assert_eq!(encode(value), wanted, "{value:e} ({:#x})", value.to_bits());
    };
    for code in 0..spec.above {
        let (this, next) = (spec.magnitude(code), spec.magnitude(code + 1));
        around(this as f32).for_each(check);
        around(((this + next) / 2.0) as f32).for_each(check);
    }
    for value in [f32::INFINITY, f32::NAN, f32::MAX, f32::MIN_POSITIVE, 1e-45] {
        around(value).for_each(check);
    }
    let mut rng = Rng::with_seed(8);
    for _ in 0..50_000 {
        check(f32::from_bits(rng.u32(..)));
        // Exponents that the type has.
        check(f32::from_bits(rng.u32(0x3580_0000..0x4800_0000)));
    }
}

#[test]
fn float8_equals_the_specification() {
    check_float8(
        &E4M3,
        |code| F8E4M3::from_bits(code).to_f32(),
        |v| F8E4M3::from_f32(v).to_bits(),
    );
    check_float8(
        &E5M2,
        |code| F8E5M2::from_bits(code).to_f32(),
        |v| F8E5M2::from_f32(v).to_bits(),
    );
}

#[test]
fn float8_limits_are_those_of_the_specification() {
    assert_eq!(F8E4M3::from_bits(0x7e).to_f32(), 448.0);
    assert_eq!(F8E4M3::from_bits(0x01).to_f32(), 2f32.powi(-9));
    assert!(F8E4M3::from_bits(0x7f).to_f32().is_nan());
    assert_eq!(F8E5M2::from_bits(0x7b).to_f32(), 57344.0);
    assert_eq!(F8E5M2::from_bits(0x01).to_f32(), 2f32.powi(-16));
    assert_eq!(F8E5M2::from_bits(0xfc).to_f32(), f32::NEG_INFINITY);
    assert_eq!(
        format!("{} {:?}", F8E4M3::from_f32(1.5), F8E5M2::from_f32(-0.25)),
        "1.5 -0.25"
    );
    assert!(F8E4M3::from_f32(1.0) < F8E4M3::from_f32(2.0));
    assert_eq!(F8E5M2::from_bits(0x80), F8E5M2::default());
    assert_ne!(F8E5M2::from_bits(0x7f), F8E5M2::from_bits(0x7f));
}

/// Rounding in the vector paths: every 16-bit code times factors whose products end half-way, a
/// little above and a little below, among normal and subnormal numbers.
#[test]
fn vector_rounding_of_sixteen_bits() {
    let factors = [
        1.0,
        0.5,
        1.5,
        0.75,
        1.0 + 1.0 / 1024.0,
        1.0 + 1.0 / 128.0,
        2f32.powi(-14),
        -3.0,
        1.25e-5,
    ];
    for isa in super::available() {
        for dtype in [DataType::Float16, DataType::Bfloat16] {
            let codes: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
            let zeros = vec![0; codes.len()];
            for factor in factors {
                let mut scalar = [0; 16];
                let code = oracle::bits_of(dtype, factor) as u16;
                scalar[..2].copy_from_slice(&code.to_ne_bytes());
                let case = Case {
                    dtype,
                    op: ReduceOp::PreMulSum,
                    count: 65536,
                    srcs: vec![codes.clone(), zeros.clone()],
                    dsts: vec![None],
                    shifts: vec![0; 3],
                    params: FoldParams {
                        pre_scale_mask: 1,
                        scalar,
                        ..FoldParams::default()
                    },
                };
                let kernel = fold_of(isa, dtype, ReduceOp::PreMulSum).unwrap();
                if let Err(difference) = check(kernel, &case) {
                    panic!("{} {dtype} times {factor}: {difference}", isa.name());
                }
            }
        }
    }
}
