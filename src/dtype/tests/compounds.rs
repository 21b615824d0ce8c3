//! The oracle for what is not a plain number, and the promises of the documentation by hand.

use super::available;
use super::oracle::is_scaled;
use super::special::plain;
use kolo_dtype::{
    Byte, Character, Class, Complex, DataType, DoubleDouble, DoubleInt, FloatFloat, FloatInt,
    FoldParams, IntInt, Logical8, Logical32, LongInt, ReduceOp,
};
use std::cmp::Ordering;

/// The result of a fold for one element, as [`super::oracle::fold`] says it.
pub(super) fn fold(dtype: DataType, op: ReduceOp, srcs: &[u128], params: &FoldParams) -> u128 {
    match (dtype.class(), op) {
        (_, ReduceOp::Band) => srcs.iter().fold(u128::MAX, |a, b| a & b),
        (_, ReduceOp::Bor) => srcs.iter().fold(0, |a, b| a | b),
        (_, ReduceOp::Bxor) => srcs.iter().fold(0, |a, b| a ^ b),
        (_, ReduceOp::Land) => u128::from(srcs.iter().all(|&a| a != 0)),
        (_, ReduceOp::Lor) => u128::from(srcs.iter().any(|&a| a != 0)),
        (_, ReduceOp::Lxor) => srcs.iter().filter(|&&a| a != 0).count() as u128 % 2,
        (Class::Bytes, ReduceOp::Max) => srcs.iter().copied().max().unwrap(),
        (Class::Bytes, _) => srcs.iter().copied().min().unwrap(),
        (Class::Pair, _) => fold_pairs(dtype, op, srcs),
        _ if dtype == DataType::Complex64 => fold_complex32(op, srcs, params),
        _ => fold_complex64(op, srcs, params),
    }
}

/// Value and index of a pair, as numbers that hold both exactly; NaN as `None`.
type Parts = (Option<f64>, i64, f64);

fn parts(dtype: DataType, bits: u128) -> Parts {
    let (low, high) = (bits as u64, (bits >> 64) as u64);
    let real = |value: f64| Some(value).filter(|value| !value.is_nan());
    match dtype {
        DataType::FloatInt => (
            real(f32::from_bits(low as u32).into()),
            i64::from((low >> 32) as i32),
            0.0,
        ),
        DataType::IntInt => (
            real(f64::from(low as i32)),
            i64::from((low >> 32) as i32),
            0.0,
        ),
        DataType::FloatFloat => (
            real(f32::from_bits(low as u32).into()),
            0,
            f32::from_bits((low >> 32) as u32).into(),
        ),
        DataType::DoubleInt => (real(f64::from_bits(low)), i64::from(high as i32), 0.0),
        DataType::DoubleDouble => (real(f64::from_bits(low)), 0, f64::from_bits(high)),
        _ => (None, i64::from(high as i32), 0.0),
    }
}

/// Every candidate is compared with every other one: the one that no other beats is the result.
fn fold_pairs(dtype: DataType, op: ReduceOp, srcs: &[u128]) -> u128 {
    let value_order = |a: u128, b: u128| {
        if dtype == DataType::LongInt {
            return (a as u64 as i64).cmp(&(b as u64 as i64));
        }
        match (parts(dtype, a).0, parts(dtype, b).0) {
            (Some(a), Some(b)) => a.total_cmp(&b),
            (None, None) => Ordering::Equal,
            // A NaN is beyond everything, in the direction that is looked for.
            (None, Some(_)) if op == ReduceOp::Maxloc => Ordering::Greater,
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) if op == ReduceOp::Maxloc => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
        }
    };
    let beats = |a: u128, b: u128| {
        let order = match op {
            ReduceOp::Maxloc => value_order(a, b).reverse(),
            _ => value_order(a, b),
        };
        let (left, right) = (parts(dtype, a), parts(dtype, b));
        let index = left.1.cmp(&right.1).then(index_bits(dtype, a, b));
        order.then(index) == Ordering::Less
    };
    let best = srcs
        .iter()
        .copied()
        .find(|&a| srcs.iter().all(|&b| !beats(b, a)))
        .unwrap();
    canonical_pair(dtype, best)
}

/// The order of indices that are floats: the total order of IEEE 754, of the bits themselves.
fn index_bits(dtype: DataType, a: u128, b: u128) -> Ordering {
    match dtype {
        DataType::FloatFloat => {
            f32::from_bits((a >> 32) as u32).total_cmp(&f32::from_bits((b >> 32) as u32))
        }
        DataType::DoubleDouble => {
            f64::from_bits((a >> 64) as u64).total_cmp(&f64::from_bits((b >> 64) as u64))
        }
        _ => Ordering::Equal,
    }
}

/// A NaN value becomes the canonical one, padding becomes 0.
fn canonical_pair(dtype: DataType, bits: u128) -> u128 {
    let is_nan = dtype != DataType::LongInt && parts(dtype, bits).0.is_none();
    let bits = match dtype {
        DataType::DoubleInt | DataType::LongInt => bits & (u128::MAX >> 32),
        _ => bits,
    };
    match dtype {
        DataType::FloatInt | DataType::FloatFloat if is_nan => bits >> 32 << 32 | 0x7fc0_0000,
        DataType::DoubleInt | DataType::DoubleDouble if is_nan => {
            bits >> 64 << 64 | 0x7ff8_0000_0000_0000
        }
        _ => bits,
    }
}

/// Folds complex numbers with `round` after every operation of reals.
fn fold_complex(
    op: ReduceOp,
    srcs: &[(f64, f64)],
    scalar: (f64, f64),
    params: &FoldParams,
    round: impl Fn(f64) -> f64,
) -> (f64, f64) {
    let times = |a: (f64, f64), b: (f64, f64)| {
        let product = |x: f64, y: f64| round(x * y);
        (
            round(product(a.0, b.0) - product(a.1, b.1)),
            round(product(a.0, b.1) + product(a.1, b.0)),
        )
    };
    let mut values =
        srcs.iter()
            .enumerate()
            .map(|(index, &value)| match is_scaled(params, index) {
                true => times(value, scalar),
                false => value,
            });
    let first = values.next().unwrap();
    let result = values.fold(first, |a, b| match op {
        ReduceOp::Prod => times(a, b),
        _ => (round(a.0 + b.0), round(a.1 + b.1)),
    });
    match params.divisor {
        Some(by) => {
            let by = round(f64::from(by.get()));
            (round(result.0 / by), round(result.1 / by))
        }
        None => result,
    }
}

fn fold_complex32(op: ReduceOp, srcs: &[u128], params: &FoldParams) -> u128 {
    let real = |bits: u64| f64::from(f32::from_bits(bits as u32));
    let number = |bits: u64| (real(bits), real(bits >> 32));
    let values: Vec<_> = srcs.iter().map(|&bits| number(bits as u64)).collect();
    let scalar = number(u128::from_le_bytes(params.scalar) as u64);
    let (re, im) = fold_complex(op, &values, scalar, params, |x| f64::from(x as f32));
    let bits = |x: f64| match x.is_nan() {
        true => 0x7fc0_0000,
        false => u128::from((x as f32).to_bits()),
    };
    bits(re) | bits(im) << 32
}

fn fold_complex64(op: ReduceOp, srcs: &[u128], params: &FoldParams) -> u128 {
    let real = |bits: u128| f64::from_bits(bits as u64);
    let number = |bits: u128| (real(bits), real(bits >> 64));
    let values: Vec<_> = srcs.iter().map(|&bits| number(bits)).collect();
    let scalar = number(u128::from_le_bytes(params.scalar));
    let (re, im) = fold_complex(op, &values, scalar, params, |x| x);
    let bits = |x: f64| match x.is_nan() {
        true => 0x7ff8_0000_0000_0000,
        false => u128::from(x.to_bits()),
    };
    bits(re) | bits(im) << 64
}

#[test]
fn truth_is_everything_but_zero_and_comes_back_as_one() {
    for isa in available() {
        for (a, b) in [
            (0u32, 0),
            (0, 7),
            (1, 0),
            (u32::MAX, 2),
            (1, 1),
            (1 << 31, 0),
        ] {
            let values = [Logical32(a), Logical32(b)];
            let (x, y) = (a != 0, b != 0);
            assert_eq!(plain(isa, ReduceOp::Land, &values), u128::from(x && y));
            assert_eq!(plain(isa, ReduceOp::Lor, &values), u128::from(x || y));
            assert_eq!(plain(isa, ReduceOp::Lxor, &values), u128::from(x != y));
            assert_eq!(
                plain(isa, ReduceOp::Land, &[a as i32, b as i32]),
                u128::from(x && y)
            );
        }
        let three = [Logical8(2), Logical8(4), Logical8(8)];
        assert_eq!(plain(isa, ReduceOp::Lxor, &three), 1);
    }
}

#[test]
fn bits_and_bytes() {
    for isa in available() {
        assert_eq!(plain(isa, ReduceOp::Band, &[0xf0u8, 0x3c]), 0x30);
        assert_eq!(plain(isa, ReduceOp::Bor, &[1i64 << 40, 1]), 1 << 40 | 1);
        assert_eq!(
            plain(isa, ReduceOp::Bxor, &[Byte(0xff), Byte(0x0f), Byte(1)]),
            0xf1
        );
        assert_eq!(plain(isa, ReduceOp::Max, &[Byte(0x80), Byte(0x7f)]), 0x80);
        let letters = [Character(b'k'), Character(0xe4), Character(b'o')];
        assert_eq!(plain(isa, ReduceOp::Min, &letters), u128::from(b'k'));
        assert_eq!(plain(isa, ReduceOp::Max, &letters), 0xe4);
    }
}

/// Finds the pair that MINLOC and MAXLOC give.
macro_rules! located {
    ($isa:expr, $op:ident, $($pair:expr),+) => {{
        let values = [$($pair),+];
        let found = plain($isa, ReduceOp::$op, &values);
        values.into_iter().map(|pair| super::special::bits(&pair)).position(|b| b == found)
    }};
}

/// C leaves anything in the padding, and a pair of C may be moved to a program in Rust.
#[test]
fn pairs_compare_by_value_and_index_alone() {
    let of_c = |value, index, padding| DoubleInt {
        value,
        index,
        padding,
    };
    assert_eq!(of_c(1.5, 3, 7), DoubleInt::new(1.5, 3));
    assert!(of_c(1.5, 3, 7) < of_c(1.5, 4, 0) && of_c(1.5, 9, 7) < of_c(2.5, 3, 0));
    assert!(
        of_c(f64::NAN, 3, 7)
            .partial_cmp(&of_c(f64::NAN, 3, 7))
            .is_none()
    );
    let long = LongInt {
        value: -1,
        index: 3,
        padding: 7,
    };
    assert_eq!(
        long.partial_cmp(&LongInt::new(-1, 3)),
        Some(std::cmp::Ordering::Equal)
    );
    assert_ne!(long, LongInt::new(-1, 2));
}

#[test]
fn ties_take_the_smaller_index_and_nan_wins() {
    for isa in available() {
        let at = |value, index| DoubleInt::new(value, index);
        assert_eq!(
            located!(isa, Maxloc, at(2.0, 9), at(3.0, 7), at(3.0, 4)),
            Some(2)
        );
        assert_eq!(
            located!(isa, Minloc, at(2.0, 9), at(2.0, -1), at(3.0, -9)),
            Some(1)
        );
        assert_eq!(
            located!(isa, Maxloc, at(1.0, 0), at(f64::NAN, 5), at(f64::NAN, 3)),
            Some(2)
        );
        assert_eq!(located!(isa, Minloc, at(f64::NAN, 5), at(-1.0, 0)), Some(0));
        // -0 is below +0, as for max and min.
        assert_eq!(located!(isa, Maxloc, at(-0.0, 1), at(0.0, 2)), Some(1));
        assert_eq!(located!(isa, Minloc, at(0.0, 1), at(-0.0, 2)), Some(1));
        let small = |value, index| FloatInt::new(value, index);
        assert_eq!(located!(isa, Maxloc, small(1.5, 3), small(1.5, 2)), Some(1));
        let ints = |value, index| IntInt::new(value, index);
        assert_eq!(located!(isa, Minloc, ints(-4, 3), ints(4, 0)), Some(0));
        let longs = |value, index| LongInt::new(value, index);
        let beyond = 1i64 << 60;
        assert_eq!(
            located!(isa, Maxloc, longs(beyond, 1), longs(beyond + 1, 2)),
            Some(1)
        );
        let reals = |value, index| FloatFloat::new(value, index);
        assert_eq!(
            located!(isa, Maxloc, reals(2.0, 8.0), reals(2.0, 7.0)),
            Some(1)
        );
        let doubles = |value, index| DoubleDouble::new(value, index);
        assert_eq!(
            located!(isa, Minloc, doubles(2.0, 8.0), doubles(1.0, 9.0)),
            Some(1)
        );
    }
}

#[test]
fn complex_numbers_multiply() {
    for isa in available() {
        let (a, b) = (Complex::new(1.0f64, 2.0), Complex::new(3.0, -1.0));
        let product = u128::from(5.0f64.to_bits()) | u128::from(5.0f64.to_bits()) << 64;
        assert_eq!(plain(isa, ReduceOp::Prod, &[a, b]), product);
        let sum = u128::from(4.0f64.to_bits()) | u128::from(1.0f64.to_bits()) << 64;
        assert_eq!(plain(isa, ReduceOp::Sum, &[a, b]), sum);
    }
}
