//! Elements that are not plain numbers: what one of them does, as [`super::scalar`] says it for
//! numbers.
//!
//! Each is an algebra with the names of [`Arithmetic`]. Truth values and bits are rings: *and* is
//! their product (and minimum), *exclusive or* their sum, *or* their maximum. Pairs have an order
//! only: their maximum is MAXLOC, their minimum MINLOC. Complex numbers have no order.

use super::element::{
    DoubleDouble, DoubleInt, FloatFloat, FloatInt, IntInt, Logical8, Logical16, Logical32,
    Logical64, LongInt,
};
use super::scalar::{Arithmetic, lacking};
use num_complex::Complex;
use std::cmp::Ordering;

macro_rules! complex {
    ($($real:ident)*) => {$(
        impl Arithmetic for Complex<$real> {
            type Acc = Complex<$real>;
            #[inline(always)]
            fn widen(self) -> Self {
                self
            }
            #[inline(always)]
            fn narrow(value: Self) -> Self {
                Complex::new(
                    <$real as Arithmetic>::narrow(value.re),
                    <$real as Arithmetic>::narrow(value.im),
                )
            }
            #[inline(always)]
            fn add(a: Self, b: Self) -> Self {
                Complex::new(a.re + b.re, a.im + b.im)
            }
            #[inline(always)]
            fn mul(a: Self, b: Self) -> Self {
                // Four products, rounded one by one: no multiply-add, no scaling of infinities.
                Complex::new(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re)
            }
            lacking!(max, min);
            #[inline(always)]
            fn divide(a: Self, by: u32) -> Self {
                Complex::new(a.re / by as $real, a.im / by as $real)
            }
        }
    )*};
}

complex!(f32 f64);

macro_rules! truths {
    ($($name:ident($bits:ident);)*) => {$(
        impl Arithmetic for $name {
            type Acc = $bits;
            #[inline(always)]
            fn widen(self) -> $bits {
                $bits::from(self.0 != 0)
            }
            #[inline(always)]
            fn narrow(value: $bits) -> Self {
                $name(value)
            }
            #[inline(always)]
            fn add(a: $bits, b: $bits) -> $bits {
                a ^ b
            }
            #[inline(always)]
            fn mul(a: $bits, b: $bits) -> $bits {
                a & b
            }
            #[inline(always)]
            fn max(a: $bits, b: $bits) -> $bits {
                a | b
            }
            #[inline(always)]
            fn min(a: $bits, b: $bits) -> $bits {
                a & b
            }
            lacking!(divide);
        }
    )*};
}

truths! {
    Logical8(u8);
    Logical16(u16);
    Logical32(u32);
    Logical64(u64);
}

/// A byte of an element of any type, for bitwise operations: they do not depend on the width.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Bits(u8);

impl Arithmetic for Bits {
    type Acc = u8;
    #[inline(always)]
    fn widen(self) -> u8 {
        self.0
    }
    #[inline(always)]
    fn narrow(value: u8) -> Bits {
        Bits(value)
    }
    #[inline(always)]
    fn add(a: u8, b: u8) -> u8 {
        a ^ b
    }
    #[inline(always)]
    fn mul(a: u8, b: u8) -> u8 {
        a & b
    }
    #[inline(always)]
    fn max(a: u8, b: u8) -> u8 {
        a | b
    }
    #[inline(always)]
    fn min(a: u8, b: u8) -> u8 {
        a & b
    }
    lacking!(divide);
}

/// The order of values in pairs: that of `max` and `min`, so -0 is below +0; NaN is beside it.
trait Value: Copy {
    /// How two values that are no NaN compare.
    fn order(self, other: Self) -> Ordering;
    fn is_nan(self) -> bool;
}

/// The order of indices in pairs: every bit pattern has a place.
trait Index: Copy {
    fn below(self, other: Self) -> bool;
}

macro_rules! whole {
    ($($int:ident)*) => {$(
        impl Value for $int {
            #[inline(always)]
            fn order(self, other: Self) -> Ordering {
                self.cmp(&other)
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                false
            }
        }
        impl Index for $int {
            #[inline(always)]
            fn below(self, other: Self) -> bool {
                self < other
            }
        }
    )*};
}

whole!(i32 i64);

macro_rules! real {
    ($($real:ident)*) => {$(
        impl Value for $real {
            #[inline(always)]
            fn order(self, other: Self) -> Ordering {
                self.total_cmp(&other)
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                $real::is_nan(self)
            }
        }
        impl Index for $real {
            #[inline(always)]
            fn below(self, other: Self) -> bool {
                self.total_cmp(&other) == Ordering::Less
            }
        }
    )*};
}

real!(f32 f64);

/// Whether pair `b` wins against `a`: it has the `wanted` order to it, or an equal value and a
/// smaller index. A NaN wins against every number, so that it is not hidden.
#[inline(always)]
fn wins<V: Value, I: Index>(b: (V, I), a: (V, I), wanted: Ordering) -> bool {
    let order = match (b.0.is_nan(), a.0.is_nan()) {
        (false, false) => b.0.order(a.0),
        (true, false) => wanted,
        (false, true) => wanted.reverse(),
        (true, true) => Ordering::Equal,
    };
    order == wanted || (order == Ordering::Equal && b.1.below(a.1))
}

macro_rules! pairs {
    ($($name:ident($value:ident);)*) => {$(
        impl Arithmetic for $name {
            type Acc = $name;
            #[inline(always)]
            fn widen(self) -> Self {
                self
            }
            #[inline(always)]
            fn narrow(value: Self) -> Self {
                // Padding becomes 0: it would depend on the order.
                $name::new(<$value as Arithmetic>::narrow(value.value), value.index)
            }
            lacking!(add, mul);
            #[inline(always)]
            fn max(a: Self, b: Self) -> Self {
                let takes = wins((b.value, b.index), (a.value, a.index), Ordering::Greater);
                if takes { b } else { a }
            }
            #[inline(always)]
            fn min(a: Self, b: Self) -> Self {
                let takes = wins((b.value, b.index), (a.value, a.index), Ordering::Less);
                if takes { b } else { a }
            }
            lacking!(divide);
        }
    )*};
}

pairs! {
    FloatInt(f32);
    DoubleInt(f64);
    IntInt(i32);
    LongInt(i64);
    FloatFloat(f32);
    DoubleDouble(f64);
}
