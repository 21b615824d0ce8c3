//! Floating-point numbers narrower than 32 bits: exact conversion to f32, one rounding back.
//!
//! One pair of functions serves binary16 and both OCP 8-bit types; the type says how many mantissa
//! bits there are, the exponent bias, and what lies above the largest finite number. All of them
//! are free of branches on the value, so that a compiler turns a loop over them into SIMD code,
//! and they only use integer arithmetic and f32 operations on normal numbers, so that the
//! flush-to-zero modes of a processor do not change them.
//!
//! Rounding is to nearest, ties to even (IEEE 754-2019, section 4.3.1). The 8-bit types follow the
//! *OCP 8-bit Floating Point Specification* (2023), in its non-saturating mode: what is too large
//! becomes infinity (e5m2) or, where there is none, NaN (e4m3). A NaN is always written as one
//! positive code.

use std::fmt;

const F32_INFINITY: u32 = 0x7f80_0000;
const F32_NAN: u32 = 0x7fc0_0000;

/// Layout of a sign-exponent-mantissa number of 8 or 16 bits.
#[derive(Clone, Copy)]
pub struct Layout {
    /// Explicit mantissa bits.
    pub(super) mantissa_bits: u32,
    /// Exponent bias.
    pub(super) bias: u32,
    /// First code (without sign) above the finite numbers; what overflows gets this code.
    pub(super) overflow: u32,
    /// Whether `overflow` is infinity (else it is the NaN).
    pub(super) has_infinity: bool,
    /// The code of a NaN result.
    pub(super) nan: u32,
    /// The sign bit.
    pub(super) sign: u32,
}

/// binary16.
pub const F16: Layout = Layout {
    mantissa_bits: 10,
    bias: 15,
    overflow: 0x7c00,
    has_infinity: true,
    nan: 0x7e00,
    sign: 0x8000,
};
pub(super) const E4M3: Layout = Layout {
    mantissa_bits: 3,
    bias: 7,
    overflow: 0x7f,
    has_infinity: false,
    nan: 0x7f,
    sign: 0x80,
};
pub(super) const E5M2: Layout = Layout {
    mantissa_bits: 2,
    bias: 15,
    overflow: 0x7c,
    has_infinity: true,
    nan: 0x7f,
    sign: 0x80,
};

impl Layout {
    /// The f32 whose only set field is the exponent of `2^exponent`.
    const fn power(exponent: i32) -> f32 {
        f32::from_bits(((exponent + 127) as u32) << 23)
    }

    /// The exponent of the unit of the subnormal numbers.
    const fn unit_exponent(self) -> i32 {
        1 - self.bias as i32 - self.mantissa_bits as i32
    }

    /// Mantissa bits of an f32 that the type lacks.
    pub(super) const fn dropped_bits(self) -> u32 {
        23 - self.mantissa_bits
    }

    /// Difference between the f32 bits of a normal number, without the dropped ones, and its code.
    pub(super) const fn rebias(self) -> u32 {
        (127 - self.bias) << self.mantissa_bits
    }

    /// 2^23 units of the subnormal numbers: adding it makes the unit the last place of the sum, so
    /// that the addition rounds.
    pub(super) const fn shift(self) -> f32 {
        Self::power(self.unit_exponent() + 23)
    }

    /// The f32 bits of the least normal number.
    pub(super) const fn least_normal(self) -> u32 {
        (128 - self.bias) << 23
    }

    /// The value of a code, exactly.
    #[inline(always)]
    pub fn decode(self, code: u32) -> f32 {
        let sign = (code & self.sign) * (0x8000_0000 / self.sign);
        let code = code & (self.sign - 1);
        let normal = (code << (23 - self.mantissa_bits)) + ((127 - self.bias) << 23);
        let subnormal = (code as i32 as f32 * Self::power(self.unit_exponent())).to_bits();
        let finite = if code < 1 << self.mantissa_bits {
            subnormal
        } else {
            normal
        };
        let special = if self.has_infinity && code == self.overflow {
            F32_INFINITY
        } else {
            F32_NAN
        };
        f32::from_bits(
            sign | if code < self.overflow {
                finite
            } else {
                special
            },
        )
    }

    /// The code nearest to `value`, ties to the even code.
    #[inline(always)]
    pub fn encode(self, value: f32) -> u32 {
        let bits = value.to_bits();
        let sign = (bits & 0x8000_0000) / (0x8000_0000 / self.sign);
        let magnitude = bits & 0x7fff_ffff;
        let drop = self.dropped_bits();
        let round = (1 << (drop - 1)) - 1 + ((magnitude >> drop) & 1);
        // Wraps only for numbers that the subnormal branch serves.
        let normal = ((magnitude + round) >> drop).wrapping_sub(self.rebias());
        let shift = self.shift();
        let subnormal = (f32::from_bits(magnitude) + shift)
            .to_bits()
            .wrapping_sub(shift.to_bits());
        let finite = if magnitude < self.least_normal() {
            subnormal & (self.sign - 1)
        } else {
            normal
        };
        let code = finite.min(self.overflow);
        if magnitude > F32_INFINITY || (!self.has_infinity && code == self.overflow) {
            self.nan
        } else {
            sign | code
        }
    }
}

/// The value of a bfloat16, exactly.
#[inline(always)]
pub fn decode_bf16(code: u16) -> f32 {
    f32::from_bits(u32::from(code) << 16)
}

/// The bfloat16 nearest to `value`, ties to the even code.
#[inline(always)]
pub fn encode_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    let code = if bits & 0x7fff_ffff > F32_INFINITY {
        F32_NAN >> 16
    } else {
        rounded
    };
    code as u16
}

macro_rules! float8 {
    ($name:ident, $layout:ident, $text:literal, $above:literal) => {
        #[doc = concat!("An 8-bit float of type ", $text, " (OCP OFP8), stored as its code.")]
        ///
        #[doc = concat!("Comparison is by value; what is too large becomes ", $above, ".")]
        #[derive(Clone, Copy, Default)]
        #[repr(transparent)]
        pub struct $name(u8);

        impl $name {
            /// The number with this code.
            pub const fn from_bits(code: u8) -> Self {
                $name(code)
            }

            /// The code.
            pub const fn to_bits(self) -> u8 {
                self.0
            }

            /// The number nearest to `value`, ties to the even code.
            #[inline(always)]
            pub fn from_f32(value: f32) -> Self {
                $name($layout.encode(value) as u8)
            }

            /// The value, exactly.
            #[inline(always)]
            pub fn to_f32(self) -> f32 {
                $layout.decode(u32::from(self.0))
            }
        }

        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.to_f32() == other.to_f32()
            }
        }

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
                self.to_f32().partial_cmp(&other.to_f32())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.to_f32(), f)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.to_f32(), f)
            }
        }
    };
}

float8!(F8E4M3, E4M3, "e4m3", "NaN");
float8!(F8E5M2, E5M2, "e5m2", "infinity");
