//! Values of elements: what they are before they are bytes, how an operation combines them exactly,
//! and how they are written as elements of a type.

use crate::{Class, DataType, ReduceOp};

/// An exact value of one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// Of an integer, a float, a truth value or a byte.
    Number(i64),
    /// Real and imaginary part.
    Complex(i64, i64),
    /// Any bits, for bitwise operations.
    Bits(u128),
    /// A value and where it is.
    Pair(i64, i64),
}

use Value::{Bits, Complex, Number, Pair};

impl Value {
    /// `self op other`, exactly.
    pub fn combine(self, op: ReduceOp, other: Value) -> Value {
        match (self, other) {
            (Number(a), Number(b)) => Number(match op {
                ReduceOp::Prod => a * b,
                ReduceOp::Max => a.max(b),
                ReduceOp::Min => a.min(b),
                ReduceOp::Land => i64::from(a != 0 && b != 0),
                ReduceOp::Lor => i64::from(a != 0 || b != 0),
                ReduceOp::Lxor => i64::from((a != 0) != (b != 0)),
                _ => a + b,
            }),
            (Complex(a, b), Complex(c, d)) if op == ReduceOp::Prod => {
                Complex(a * c - b * d, a * d + b * c)
            }
            (Complex(a, b), Complex(c, d)) => Complex(a + c, b + d),
            (Bits(a), Bits(b)) => Bits(match op {
                ReduceOp::Band => a & b,
                ReduceOp::Bor => a | b,
                _ => a ^ b,
            }),
            (Pair(a, i), Pair(b, j)) => {
                let takes = match op {
                    ReduceOp::Maxloc => b > a || (b == a && j < i),
                    _ => b < a || (b == a && j < i),
                };
                if takes { other } else { self }
            }
            _ => unreachable!("the elements of a call are of one kind"),
        }
    }

    /// The value times a number.
    pub fn times(self, factor: i64) -> Value {
        match self {
            Number(a) => Number(a * factor),
            Complex(a, b) => Complex(a * factor, b * factor),
            other => other,
        }
    }

    /// Writes the value divided by `divisor` into `place`.
    pub fn encode(self, dtype: DataType, divisor: i64, place: &mut [u8]) {
        let half = place.len() / 2;
        match self {
            Number(value) => encode(dtype, value, divisor, place),
            Complex(re, im) => {
                let part = match dtype {
                    DataType::Complex64 => DataType::Float32,
                    _ => DataType::Float64,
                };
                encode(part, re, divisor, &mut place[..half]);
                encode(part, im, divisor, &mut place[half..]);
            }
            Bits(bits) => place.copy_from_slice(&bits.to_le_bytes()[..place.len()]),
            Pair(value, index) => {
                let (first, second) = parts(dtype);
                encode(first, value, 1, &mut place[..half]);
                let index_bytes = second.size_bytes();
                encode(second, index, 1, &mut place[half..half + index_bytes]);
                place[half + index_bytes..].fill(0);
            }
        }
    }
}

/// The types of value and index of a pair.
fn parts(dtype: DataType) -> (DataType, DataType) {
    match dtype {
        DataType::FloatInt => (DataType::Float32, DataType::Int32),
        DataType::DoubleInt => (DataType::Float64, DataType::Int32),
        DataType::IntInt => (DataType::Int32, DataType::Int32),
        DataType::LongInt => (DataType::Int64, DataType::Int32),
        DataType::FloatFloat => (DataType::Float32, DataType::Float32),
        _ => (DataType::Float64, DataType::Float64),
    }
}

/// The largest number up to which the type (or the part of it that is compared or added) has all
/// integers, or one that is large enough.
pub fn exact_limit(dtype: DataType) -> u64 {
    match dtype {
        DataType::Int8 | DataType::Uint8 => 100,
        DataType::Byte | DataType::Character => 255,
        DataType::Float8e4m3 => 16,
        DataType::Float8e5m2 => 8,
        DataType::Bfloat16 => 256,
        DataType::Float16 => 2048,
        _ if dtype.size_bytes() == 4 || dtype == DataType::Complex64 => 1 << 20,
        _ => 1 << 40,
    }
}

/// Whether the type has negative numbers.
pub fn is_signed(dtype: DataType) -> bool {
    let unsigned = [DataType::Uint8, DataType::Uint32, DataType::Uint64];
    !unsigned.contains(&dtype) && dtype.class() != Class::Bytes
}

/// Writes `value / divisor` into `place`, rounded once: integers toward zero, others to the nearest
/// even. The quotient in double precision is close enough to be rounded again: a tie of the
/// narrower type differs from an inexact quotient by far more than the first rounding.
fn encode(dtype: DataType, value: i64, divisor: i64, place: &mut [u8]) {
    let size = dtype.size_bytes();
    let quotient = value as f64 / divisor as f64;
    let bits = match dtype {
        DataType::Float64 => quotient.to_bits(),
        DataType::Float32 => u64::from((quotient as f32).to_bits()),
        DataType::Float16 => narrow(quotient, 10, 15, 16),
        DataType::Bfloat16 => narrow(quotient, 7, 127, 16),
        DataType::Float8e4m3 => narrow(quotient, 3, 7, 8),
        DataType::Float8e5m2 => narrow(quotient, 2, 15, 8),
        _ => (value / divisor) as u64,
    };
    place.copy_from_slice(&bits.to_le_bytes()[..size]);
}

/// The code of a finite number that does not overflow, in a type of `mantissa` bits, exponent
/// `bias` and `width` bits.
pub fn narrow(value: f64, mantissa: i32, bias: i32, width: u32) -> u64 {
    let sign = u64::from(value.is_sign_negative()) << (width - 1);
    let magnitude = value.abs();
    let least = 1 - bias;
    let exponent = ((magnitude.to_bits() >> 52) as i32 - 1023).max(least);
    let quantum = f64::powi(2.0, exponent - mantissa);
    let units = (magnitude / quantum).round_ties_even() as u64;
    // A normal number has the bit of 2^mantissa set, and so counts as exponent field one more than
    // a subnormal one; rounding up to the next power of two carries into it by itself.
    let field = (exponent - least) as u64;
    sign | ((field << mantissa) + units)
}
