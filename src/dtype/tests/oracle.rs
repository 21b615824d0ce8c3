//! The oracle: one element at a time, written without any of the code under test.
//!
//! Integers are computed in 128 bits and cut; float operations are done in double and rounded to
//! float (which is exact for one operation, as 53 >= 2 * 24 + 2); 16-bit floats are converted by
//! the crate `half`, 8-bit floats by searching the nearest of all codes.

use super::compounds;
use half::{bf16, f16};
use kolo_dtype::{Class, DataType, FoldParams, ReduceOp};

/// An 8-bit float by its specification.
pub(super) struct Float8 {
    mantissa_bits: u32,
    bias: i32,
    /// First code above the finite numbers.
    pub(super) above: u8,
    has_infinity: bool,
}

pub(super) const E4M3: Float8 = Float8 {
    mantissa_bits: 3,
    bias: 7,
    above: 0x7f,
    has_infinity: false,
};
pub(super) const E5M2: Float8 = Float8 {
    mantissa_bits: 2,
    bias: 15,
    above: 0x7c,
    has_infinity: true,
};

impl Float8 {
    /// Value of a code without sign, as if every exponent were an ordinary one.
    pub(super) fn magnitude(&self, code: u8) -> f64 {
        let mantissa = f64::from(code & ((1 << self.mantissa_bits) - 1));
        let exponent = i32::from(code >> self.mantissa_bits);
        let scale = f64::from(1u32 << self.mantissa_bits);
        match exponent {
            0 => mantissa / scale * 2f64.powi(1 - self.bias),
            _ => (1.0 + mantissa / scale) * 2f64.powi(exponent - self.bias),
        }
    }

    /// Value of a code.
    pub(super) fn value(&self, code: u8) -> f64 {
        let magnitude = match code & 0x7f {
            code if code < self.above => self.magnitude(code),
            code if code == self.above && self.has_infinity => f64::INFINITY,
            _ => f64::NAN,
        };
        if code & 0x80 != 0 {
            -magnitude
        } else {
            magnitude
        }
    }

    /// The code nearest to `value`, by comparing all distances.
    pub(super) fn nearest(&self, value: f64) -> u8 {
        if value.is_nan() {
            return 0x7f;
        }
        let sign = if value.is_sign_negative() { 0x80 } else { 0 };
        // Far above all codes the distances would no longer differ in double.
        let value = value.abs().min(2.0 * self.magnitude(self.above));
        let mut best = 0;
        let mut distance = f64::INFINITY;
        for code in 0..=self.above {
            let this = (value - self.magnitude(code)).abs();
            if this < distance || (this == distance && code % 2 == 0) {
                (best, distance) = (code, this);
            }
        }
        match best == self.above && !self.has_infinity {
            true => 0x7f,
            false => sign | best,
        }
    }
}

/// The bits of element `index` of a buffer.
pub(super) fn element(dtype: DataType, bytes: &[u8], index: usize) -> u128 {
    let size = dtype.size_bytes();
    let mut word = [0; 16];
    word[..size].copy_from_slice(&bytes[index * size..][..size]);
    u128::from_le_bytes(word)
}

/// The result of a fold for one element: the bits of each source in list order.
pub(super) fn fold(dtype: DataType, op: ReduceOp, srcs: &[u128], params: &FoldParams) -> u128 {
    let pre_scales = params.pre_scale_mask != 0 || params.pre_scale_beyond != 0;
    let scales = pre_scales || params.divisor.is_some();
    if srcs.len() == 1 && !scales {
        return srcs[0];
    }
    if !matches!(dtype.class(), Class::Integer | Class::Float)
        || matches!(op, ReduceOp::Band | ReduceOp::Bor | ReduceOp::Bxor)
        || matches!(op, ReduceOp::Land | ReduceOp::Lor | ReduceOp::Lxor)
    {
        return compounds::fold(dtype, op, srcs, params);
    }
    let srcs: Vec<u64> = srcs.iter().map(|&bits| bits as u64).collect();
    u128::from(match dtype {
        DataType::Float64 => fold_f64(op, &srcs, params),
        _ if dtype.is_float() => fold_f32(dtype, op, &srcs, params),
        _ => fold_integer(dtype, op, &srcs, params),
    })
}

/// Whether the source with this number is multiplied by the scalar.
pub(super) fn is_scaled(params: &FoldParams, index: usize) -> bool {
    match index {
        0..64 => params.pre_scale_mask & (1 << index) != 0,
        _ => index == params.pre_scale_beyond,
    }
}

/// The integer of these bits.
fn integer(dtype: DataType, bits: u64) -> i128 {
    match dtype {
        DataType::Int8 => i128::from(bits as u8 as i8),
        DataType::Int32 => i128::from(bits as u32 as i32),
        DataType::Int64 => i128::from(bits as i64),
        _ => i128::from(bits),
    }
}

fn cut(dtype: DataType, value: i128) -> u64 {
    value as u64 & (u64::MAX >> (64 - 8 * dtype.size_bytes()))
}

fn fold_integer(dtype: DataType, op: ReduceOp, srcs: &[u64], params: &FoldParams) -> u64 {
    let scalar = integer(dtype, element(dtype, &params.scalar, 0) as u64);
    let mut values = srcs
        .iter()
        .enumerate()
        .map(|(index, &bits)| match is_scaled(params, index) {
            true => integer(dtype, cut(dtype, integer(dtype, bits).wrapping_mul(scalar))),
            false => integer(dtype, bits),
        });
    let first = values.next().unwrap();
    let mut result = values.fold(first, |a, b| match op {
        ReduceOp::Prod => integer(dtype, cut(dtype, a.wrapping_mul(b))),
        ReduceOp::Max => a.max(b),
        ReduceOp::Min => a.min(b),
        _ => integer(dtype, cut(dtype, a + b)),
    });
    if let Some(by) = params.divisor {
        result /= i128::from(by.get());
    }
    cut(dtype, result)
}

/// IEEE 754-2019 maximum (`sign` 1) or minimum (`sign` -1).
pub(super) fn extreme(a: f64, b: f64, sign: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        return f64::NAN;
    }
    if a == 0.0 && b == 0.0 {
        let plus = a.is_sign_positive() || b.is_sign_positive();
        let minus = a.is_sign_negative() || b.is_sign_negative();
        let negative = if sign > 0.0 { !plus } else { minus };
        return if negative { -0.0 } else { 0.0 };
    }
    if a * sign > b * sign { a } else { b }
}

fn combine(op: ReduceOp, a: f64, b: f64) -> f64 {
    match op {
        ReduceOp::Prod => a * b,
        ReduceOp::Max => extreme(a, b, 1.0),
        ReduceOp::Min => extreme(a, b, -1.0),
        _ => a + b,
    }
}

/// Folds values, with `round` after every operation.
fn fold_values(
    op: ReduceOp,
    srcs: &[f64],
    scalar: f64,
    params: &FoldParams,
    round: impl Fn(f64) -> f64,
) -> f64 {
    let mut values =
        srcs.iter()
            .enumerate()
            .map(|(index, &value)| match is_scaled(params, index) {
                true => round(value * scalar),
                false => value,
            });
    let first = values.next().unwrap();
    let result = values.fold(first, |a, b| round(combine(op, a, b)));
    match params.divisor {
        Some(by) => round(result / round(f64::from(by.get()))),
        None => result,
    }
}

fn fold_f64(op: ReduceOp, srcs: &[u64], params: &FoldParams) -> u64 {
    let values: Vec<f64> = srcs.iter().map(|&bits| f64::from_bits(bits)).collect();
    let scalar = f64::from_bits(element(DataType::Float64, &params.scalar, 0) as u64);
    let result = fold_values(op, &values, scalar, params, |value| value);
    if result.is_nan() {
        0x7ff8_0000_0000_0000
    } else {
        result.to_bits()
    }
}

fn fold_f32(dtype: DataType, op: ReduceOp, srcs: &[u64], params: &FoldParams) -> u64 {
    let values: Vec<f64> = srcs.iter().map(|&bits| value_of(dtype, bits)).collect();
    let scalar = value_of(dtype, element(dtype, &params.scalar, 0) as u64);
    let result = fold_values(op, &values, scalar, params, |value| f64::from(value as f32));
    bits_of(dtype, result as f32)
}

/// The value of the bits of a type that is folded in float.
pub(super) fn value_of(dtype: DataType, bits: u64) -> f64 {
    match dtype {
        DataType::Float16 => f16::from_bits(bits as u16).to_f64(),
        DataType::Bfloat16 => bf16::from_bits(bits as u16).to_f64(),
        DataType::Float8e4m3 => E4M3.value(bits as u8),
        DataType::Float8e5m2 => E5M2.value(bits as u8),
        DataType::Float32 => f64::from(f32::from_bits(bits as u32)),
        _ => unreachable!("{dtype} is not folded in float"),
    }
}

/// The bits nearest to a value, NaN canonical, of a type that is folded in float.
pub(super) fn bits_of(dtype: DataType, value: f32) -> u64 {
    let (nan, bits) = match dtype {
        DataType::Float16 => (0x7e00, u64::from(f16::from_f32(value).to_bits())),
        DataType::Bfloat16 => (0x7fc0, u64::from(bf16::from_f32(value).to_bits())),
        DataType::Float8e4m3 => (0x7f, u64::from(E4M3.nearest(f64::from(value)))),
        DataType::Float8e5m2 => (0x7f, u64::from(E5M2.nearest(f64::from(value)))),
        DataType::Float32 => (0x7fc0_0000, u64::from(value.to_bits())),
        _ => unreachable!("{dtype} is not folded in float"),
    };
    if value.is_nan() { nan } else { bits }
}
