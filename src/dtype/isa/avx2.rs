//! AVX2 and F16C: registers of 32 bytes.

use super::entries::{Kernels, entries, kernels};
use super::x86::{by_lanes, float_lanes, integer_lanes};
use crate::compound::Bits;
use crate::lanes::{Lanes, scalar_of};
use crate::minifloat::{self, F8E4M3, F8E5M2, Layout};
use crate::scalar::Arithmetic;
use half::{bf16, f16};
use num_complex::Complex;
use std::arch::x86_64::*;

entries!(U8, "avx2,f16c");

/// Multiplies lane by lane where there is no instruction.
macro_rules! mul_lanes {
    ($element:ty, $count:literal) => {
        |a, b| by_lanes::<__m256i, $element, $count>(a, b, <$element as Arithmetic>::mul)
    };
}

integer_lanes!(I8: [i8; 32] in __m256i; _mm256_loadu_si256, _mm256_storeu_si256,
    _mm256_stream_si256, _mm256_add_epi8, mul_lanes!(i8, 32), _mm256_max_epi8, _mm256_min_epi8);
integer_lanes!(U8: [u8; 32] in __m256i; _mm256_loadu_si256, _mm256_storeu_si256,
    _mm256_stream_si256, _mm256_add_epi8, mul_lanes!(u8, 32), _mm256_max_epu8, _mm256_min_epu8);
integer_lanes!(B8: [Bits; 32] in __m256i; _mm256_loadu_si256, _mm256_storeu_si256,
    _mm256_stream_si256, _mm256_xor_si256, _mm256_and_si256, _mm256_or_si256, _mm256_and_si256);
integer_lanes!(I32: [i32; 8] in __m256i; _mm256_loadu_si256, _mm256_storeu_si256,
    _mm256_stream_si256, _mm256_add_epi32, _mm256_mullo_epi32, _mm256_max_epi32, _mm256_min_epi32);
integer_lanes!(U32: [u32; 8] in __m256i; _mm256_loadu_si256, _mm256_storeu_si256,
    _mm256_stream_si256, _mm256_add_epi32, _mm256_mullo_epi32, _mm256_max_epu32, _mm256_min_epu32);
integer_lanes!(I64: [i64; 4] in __m256i; _mm256_loadu_si256, _mm256_storeu_si256,
    _mm256_stream_si256, _mm256_add_epi64, mul_lanes!(i64, 4), max_i64, min_i64);
integer_lanes!(U64: [u64; 4] in __m256i; _mm256_loadu_si256, _mm256_storeu_si256,
    _mm256_stream_si256, _mm256_add_epi64, mul_lanes!(u64, 4), max_u64, min_u64);

float_lanes!(F64: [f64; 4] in __m256d, packed __m256i;
    load |from: *const u8| _mm256_loadu_pd(from.cast());
    pack |v| _mm256_castpd_si256(canonical_f64(v));
    _mm256_storeu_si256, _mm256_stream_si256; broadcast _mm256_set1_pd as f64;
    _mm256_add_pd, _mm256_mul_pd, _mm256_div_pd, max_f64, min_f64);
float_lanes!(F32: [f32; 8] in __m256, packed __m256i;
    load |from: *const u8| _mm256_loadu_ps(from.cast());
    pack |v| _mm256_castps_si256(canonical_f32(v));
    _mm256_storeu_si256, _mm256_stream_si256; broadcast _mm256_set1_ps as f32;
    _mm256_add_ps, _mm256_mul_ps, _mm256_div_ps, max_f32, min_f32);
float_lanes!(F16: [f16; 8] in __m256, packed __m128i;
    load |from: *const u8| _mm256_cvtph_ps(_mm_loadu_si128(from.cast()));
    pack |v| _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(canonical_f32(v));
    _mm_storeu_si128, _mm_stream_si128; broadcast _mm256_set1_ps as f32;
    _mm256_add_ps, _mm256_mul_ps, _mm256_div_ps, max_f32, min_f32);
float_lanes!(Bf16: [bf16; 8] in __m256, packed __m128i;
    load widen_bf16; pack narrow_bf16;
    _mm_storeu_si128, _mm_stream_si128; broadcast _mm256_set1_ps as f32;
    _mm256_add_ps, _mm256_mul_ps, _mm256_div_ps, max_f32, min_f32);

float_lanes!(E4m3: [F8E4M3; 8] in __m256, packed u64;
    load widen_e4m3; pack |v| narrow_f8(v, minifloat::E4M3);
    store_eight, store_eight; broadcast _mm256_set1_ps as f32;
    _mm256_add_ps, _mm256_mul_ps, _mm256_div_ps, max_f32, min_f32);
float_lanes!(E5m2: [F8E5M2; 8] in __m256, packed u64;
    load widen_e5m2; pack |v| narrow_f8(v, minifloat::E5M2);
    store_eight, store_eight; broadcast _mm256_set1_ps as f32;
    _mm256_add_ps, _mm256_mul_ps, _mm256_div_ps, max_f32, min_f32);

/// The kernels.
pub(super) static KERNELS: Kernels = kernels!(
    integers {
        Int8: I8, U8, Logical8;
        Uint8: U8, U8, Logical8;
        Int32: I32, U32, Logical32;
        Uint32: U32, U32, Logical32;
        Int64: I64, U64, Logical64;
        Uint64: U64, U64, Logical64;
    }
    floats {
        Float16: F16;
        Float32: F32;
        Float64: F64;
        Bfloat16: Bf16;
        Float8e4m3: E4m3;
        Float8e5m2: E5m2;
    }
    complex {
        Complex64: F32, Array<Complex<f32>, 4>;
        Complex128: F64, Array<Complex<f64>, 2>;
    }
    bytes U8;
    bits B8;
    array 32;
);

/// # Safety
/// The processor has AVX2 (so for every function below).
#[inline(always)]
unsafe fn max_i64(a: __m256i, b: __m256i) -> __m256i {
    // SAFETY: the caller guarantees AVX2.
    unsafe { _mm256_blendv_epi8(b, a, _mm256_cmpgt_epi64(a, b)) }
}

/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn min_i64(a: __m256i, b: __m256i) -> __m256i {
    // SAFETY: the caller guarantees AVX2.
    unsafe { _mm256_blendv_epi8(a, b, _mm256_cmpgt_epi64(a, b)) }
}

/// All ones where `a > b`: unsigned numbers keep their order when the sign bit is flipped.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn above_u64(a: __m256i, b: __m256i) -> __m256i {
    // SAFETY: the caller guarantees AVX2.
    unsafe {
        let flip = _mm256_set1_epi64x(i64::MIN);
        _mm256_cmpgt_epi64(_mm256_xor_si256(a, flip), _mm256_xor_si256(b, flip))
    }
}

/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn max_u64(a: __m256i, b: __m256i) -> __m256i {
    // SAFETY: the caller guarantees AVX2.
    unsafe { _mm256_blendv_epi8(b, a, above_u64(a, b)) }
}

/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn min_u64(a: __m256i, b: __m256i) -> __m256i {
    // SAFETY: the caller guarantees AVX2.
    unsafe { _mm256_blendv_epi8(a, b, above_u64(a, b)) }
}

/// The float functions of one width.
///
/// `max(a, b)` of the processor returns `b` when the two are equal or one is NaN. Both orders
/// together give both zeros, whose AND (OR for `min`) has the wanted sign; a NaN is put in after.
macro_rules! float_functions {
    ($register:ty, $nan:expr, $set:ident, $cmp:ident, $blend:ident, $and:ident, $or:ident,
     $max:ident, $min:ident; $canonical:ident, $maximum:ident, $minimum:ident) => {
        /// Replaces every NaN by the canonical one.
        ///
        /// # Safety
        /// The processor has AVX2.
        #[inline(always)]
        unsafe fn $canonical(v: $register) -> $register {
            // SAFETY: the caller guarantees AVX2.
            unsafe { $blend(v, $set($nan), $cmp::<_CMP_UNORD_Q>(v, v)) }
        }

        /// # Safety
        /// The processor has AVX2.
        #[inline(always)]
        unsafe fn $maximum(a: $register, b: $register) -> $register {
            // SAFETY: the caller guarantees AVX2.
            unsafe {
                let largest = $and($max(a, b), $max(b, a));
                $or(largest, $cmp::<_CMP_UNORD_Q>(a, b))
            }
        }

        /// # Safety
        /// The processor has AVX2.
        #[inline(always)]
        unsafe fn $minimum(a: $register, b: $register) -> $register {
            // SAFETY: the caller guarantees AVX2.
            unsafe {
                let least = $or($min(a, b), $min(b, a));
                $or(least, $cmp::<_CMP_UNORD_Q>(a, b))
            }
        }
    };
}

float_functions!(__m256, f32::from_bits(0x7fc0_0000), _mm256_set1_ps, _mm256_cmp_ps,
    _mm256_blendv_ps, _mm256_and_ps, _mm256_or_ps, _mm256_max_ps, _mm256_min_ps;
    canonical_f32, max_f32, min_f32);
float_functions!(__m256d, f64::from_bits(0x7ff8_0000_0000_0000), _mm256_set1_pd, _mm256_cmp_pd,
    _mm256_blendv_pd, _mm256_and_pd, _mm256_or_pd, _mm256_max_pd, _mm256_min_pd;
    canonical_f64, max_f64, min_f64);

/// # Safety
/// The processor has AVX2, and 16 bytes are readable at `from`.
#[inline(always)]
unsafe fn widen_bf16(from: *const u8) -> __m256 {
    // SAFETY: the caller guarantees AVX2 and the bytes.
    unsafe {
        let codes = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()));
        _mm256_castsi256_ps(_mm256_slli_epi32::<16>(codes))
    }
}

/// Rounds to nearest, ties to even, by adding half a unit (less one bit when even) and cutting.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn narrow_bf16(v: __m256) -> __m128i {
    // SAFETY: the caller guarantees AVX2.
    unsafe {
        let bits = _mm256_castps_si256(canonical_f32(v));
        let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
        let half = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
        // The canonical NaN has zeros below: adding half a unit leaves its upper half alone.
        let rounded = _mm256_srli_epi32::<16>(_mm256_add_epi32(bits, half));
        _mm_packus_epi32(
            _mm256_castsi256_si128(rounded),
            _mm256_extracti128_si256::<1>(rounded),
        )
    }
}

/// # Safety
/// 8 bytes are writable at `to`.
#[inline(always)]
unsafe fn store_eight(to: *mut u64, packed: u64) {
    // SAFETY: an unaligned store to what the caller made writable.
    unsafe { to.write_unaligned(packed) }
}

/// An e5m2 is the upper half of a binary16.
///
/// # Safety
/// The processor has AVX2 and F16C, and 8 bytes are readable at `from`.
#[inline(always)]
unsafe fn widen_e5m2(from: *const u8) -> __m256 {
    // SAFETY: the caller guarantees the instructions and the bytes.
    unsafe {
        let codes = _mm_cvtepu8_epi16(_mm_loadl_epi64(from.cast()));
        _mm256_cvtph_ps(_mm_slli_epi16::<8>(codes))
    }
}

/// An e4m3 becomes a binary16 of 1/256 of its value when its fields are put in their places; the
/// NaN becomes what would be 480.
///
/// # Safety
/// The processor has AVX2 and F16C, and 8 bytes are readable at `from`.
#[inline(always)]
unsafe fn widen_e4m3(from: *const u8) -> __m256 {
    // SAFETY: the caller guarantees the instructions and the bytes.
    unsafe {
        let codes = _mm_cvtepu8_epi16(_mm_loadl_epi64(from.cast()));
        let magnitude = _mm_slli_epi16::<7>(_mm_and_si128(codes, _mm_set1_epi16(0x7f)));
        let sign = _mm_slli_epi16::<8>(_mm_and_si128(codes, _mm_set1_epi16(0x80)));
        let small = _mm256_cvtph_ps(_mm_or_si128(magnitude, sign));
        let value = _mm256_mul_ps(small, _mm256_set1_ps(256.0));
        let positive = _mm256_andnot_ps(_mm256_set1_ps(-0.0), value);
        let nan = _mm256_cmp_ps::<_CMP_EQ_OQ>(positive, _mm256_set1_ps(480.0));
        _mm256_or_ps(value, nan)
    }
}

/// [`Layout::encode`] on eight lanes.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn narrow_f8(v: __m256, layout: Layout) -> u64 {
    // SAFETY: the caller guarantees AVX2.
    unsafe {
        let set = |value: u32| _mm256_set1_epi32(value as i32);
        let drop = _mm_cvtsi32_si128(layout.dropped_bits() as i32);
        let bits = _mm256_castps_si256(v);
        let magnitude = _mm256_and_si256(bits, set(0x7fff_ffff));
        let sign = _mm256_and_si256(_mm256_srli_epi32::<24>(bits), set(0x80));
        let odd = _mm256_and_si256(_mm256_srl_epi32(magnitude, drop), set(1));
        let half = set((1 << (layout.dropped_bits() - 1)) - 1);
        let raised = _mm256_add_epi32(magnitude, _mm256_add_epi32(odd, half));
        let normal = _mm256_sub_epi32(_mm256_srl_epi32(raised, drop), set(layout.rebias()));
        let shift = _mm256_set1_ps(layout.shift());
        let shifted = _mm256_add_ps(_mm256_castsi256_ps(magnitude), shift);
        let subnormal = _mm256_sub_epi32(_mm256_castps_si256(shifted), _mm256_castps_si256(shift));
        let below = _mm256_cmpgt_epi32(set(layout.least_normal()), magnitude);
        let finite = _mm256_blendv_epi8(normal, subnormal, below);
        let code = _mm256_min_epi32(finite, set(layout.overflow));
        let nan = if layout.has_infinity {
            _mm256_cmpgt_epi32(magnitude, set(0x7f80_0000))
        } else {
            _mm256_cmpeq_epi32(code, set(layout.overflow))
        };
        let code = _mm256_blendv_epi8(_mm256_or_si256(code, sign), set(layout.nan), nan);
        let (low, high) = (
            _mm256_castsi256_si128(code),
            _mm256_extracti128_si256::<1>(code),
        );
        let words = _mm_packus_epi32(low, high);
        _mm_cvtsi128_si64(_mm_packus_epi16(words, words)) as u64
    }
}
