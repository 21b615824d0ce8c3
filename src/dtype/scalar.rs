//! Operations on one element: the definition that every vector path must equal bit for bit.
//!
//! An element is *widened* to its accumulator when loaded (f32 for the 16- and 8-bit floats, itself
//! otherwise), combined there, and *narrowed* once when written.

use super::minifloat::{self, F8E4M3, F8E5M2};
use half::{bf16, f16};

/// Methods that an algebra does not have, and that no table of kernels asks for.
macro_rules! lacking {
    (divide) => {
        #[inline(always)]
        fn divide(_: Self::Acc, _: u32) -> Self::Acc {
            unreachable!("no kernel of this type has the operation")
        }
    };
    ($method:ident) => {
        #[inline(always)]
        fn $method(_: Self::Acc, _: Self::Acc) -> Self::Acc {
            unreachable!("no kernel of this type has the operation")
        }
    };
    ($first:ident, $($rest:ident),+) => {
        lacking!($first);
        lacking!($($rest),+);
    };
}
pub(super) use lacking;

/// Arithmetic of one element type.
pub(super) trait Arithmetic: Copy + Send + Sync + 'static {
    /// Accumulator in which elements are combined.
    type Acc: Copy;
    /// Whether the modes of floating-point arithmetic, and its flags, are of importance.
    const HAS_MODES: bool = true;
    /// The accumulator with this element's value.
    fn widen(self) -> Self::Acc;
    /// The element nearest to the accumulator; any NaN becomes the type's canonical NaN.
    fn narrow(value: Self::Acc) -> Self;
    /// `a + b`; integers wrap.
    fn add(a: Self::Acc, b: Self::Acc) -> Self::Acc;
    /// `a * b`; integers wrap.
    fn mul(a: Self::Acc, b: Self::Acc) -> Self::Acc;
    /// The larger one; NaN if either is NaN, `+0` above `-0`.
    fn max(a: Self::Acc, b: Self::Acc) -> Self::Acc;
    /// The smaller one; NaN if either is NaN, `-0` below `+0`.
    fn min(a: Self::Acc, b: Self::Acc) -> Self::Acc;
    /// `a / by`; integers truncate toward zero. `by` is not 0.
    fn divide(a: Self::Acc, by: u32) -> Self::Acc;
}

macro_rules! integers {
    ($($int:ident via $wide:ident),*) => {$(
        impl Arithmetic for $int {
            type Acc = $int;
            const HAS_MODES: bool = false;
            #[inline(always)]
            fn widen(self) -> $int {
                self
            }
            #[inline(always)]
            fn narrow(value: $int) -> $int {
                value
            }
            #[inline(always)]
            fn add(a: $int, b: $int) -> $int {
                a.wrapping_add(b)
            }
            #[inline(always)]
            fn mul(a: $int, b: $int) -> $int {
                a.wrapping_mul(b)
            }
            #[inline(always)]
            fn max(a: $int, b: $int) -> $int {
                Ord::max(a, b)
            }
            #[inline(always)]
            fn min(a: $int, b: $int) -> $int {
                Ord::min(a, b)
            }
            #[inline(always)]
            fn divide(a: $int, by: u32) -> $int {
                // `by` is positive, so the quotient fits; the divisor 0 is excluded by the caller.
                ($wide::from(a) / $wide::from(by)) as $int
            }
        }
    )*};
}

integers!(i8 via i64, u8 via u32, i32 via i64, u32 via u32, i64 via i64, u64 via u64);

macro_rules! reals {
    ($(
        $real:ident nan $nan:literal infinity $infinity:literal magnitude $magnitude:literal
    ),*) => {$(
        impl Arithmetic for $real {
            type Acc = $real;
            #[inline(always)]
            fn widen(self) -> $real {
                self
            }
            #[inline(always)]
            fn narrow(value: $real) -> $real {
                // On the bits: a compiler may replace a NaN by any NaN in float expressions.
                let bits = value.to_bits();
                $real::from_bits(if bits & $magnitude > $infinity { $nan } else { bits })
            }
            #[inline(always)]
            fn add(a: $real, b: $real) -> $real {
                a + b
            }
            #[inline(always)]
            fn mul(a: $real, b: $real) -> $real {
                a * b
            }
            #[inline(always)]
            fn max(a: $real, b: $real) -> $real {
                if a > b {
                    a
                } else if b > a {
                    b
                } else if a == b {
                    // Equal numbers differ at most in the sign of zero: + wins.
                    $real::from_bits(a.to_bits() & b.to_bits())
                } else {
                    $real::from_bits($nan)
                }
            }
            #[inline(always)]
            fn min(a: $real, b: $real) -> $real {
                if a < b {
                    a
                } else if b < a {
                    b
                } else if a == b {
                    // Equal numbers differ at most in the sign of zero: - wins.
                    $real::from_bits(a.to_bits() | b.to_bits())
                } else {
                    $real::from_bits($nan)
                }
            }
            #[inline(always)]
            fn divide(a: $real, by: u32) -> $real {
                a / by as $real
            }
        }
    )*};
}

reals!(
    f32 nan 0x7fc0_0000 infinity 0x7f80_0000 magnitude 0x7fff_ffff,
    f64 nan 0x7ff8_0000_0000_0000 infinity 0x7ff0_0000_0000_0000
        magnitude 0x7fff_ffff_ffff_ffff
);

macro_rules! narrow_reals {
    ($($narrow:ident, $widen:expr, $round:expr;)*) => {$(
        impl Arithmetic for $narrow {
            type Acc = f32;
            #[inline(always)]
            fn widen(self) -> f32 {
                let widen: fn($narrow) -> f32 = $widen;
                widen(self)
            }
            #[inline(always)]
            fn narrow(value: f32) -> $narrow {
                let round: fn(f32) -> $narrow = $round;
                round(value)
            }
            #[inline(always)]
            fn add(a: f32, b: f32) -> f32 {
                a + b
            }
            #[inline(always)]
            fn mul(a: f32, b: f32) -> f32 {
                a * b
            }
            #[inline(always)]
            fn max(a: f32, b: f32) -> f32 {
                <f32 as Arithmetic>::max(a, b)
            }
            #[inline(always)]
            fn min(a: f32, b: f32) -> f32 {
                <f32 as Arithmetic>::min(a, b)
            }
            #[inline(always)]
            fn divide(a: f32, by: u32) -> f32 {
                a / by as f32
            }
        }
    )*};
}

narrow_reals! {
    f16, |x| minifloat::F16.decode(u32::from(x.to_bits())),
        |x| f16::from_bits(minifloat::F16.encode(x) as u16);
    bf16, |x| minifloat::decode_bf16(x.to_bits()), |x| bf16::from_bits(minifloat::encode_bf16(x));
    F8E4M3, F8E4M3::to_f32, F8E4M3::from_f32;
    F8E5M2, F8E5M2::to_f32, F8E5M2::from_f32;
}
