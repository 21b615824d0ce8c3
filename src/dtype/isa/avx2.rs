//! AVX2 and F16C: registers of 32 bytes.

use super::x86::{float_lanes, integer_lanes};
use super::{Kernels, entries, kernels};
use crate::dtype::lanes::{Array, Lanes, by_lanes, scalar_of};
use crate::dtype::minifloat::{F8E4M3, F8E5M2};
use crate::dtype::scalar::Arithmetic;
use half::{bf16, f16};
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

/// The kernels. The 8-bit floats use plain Rust, compiled for these instructions.
pub(super) static KERNELS: Kernels = kernels!(
    I8: U8,
    U8: U8,
    I32: U32,
    U32: U32,
    I64: U64,
    U64: U64,
    F16: F16,
    F32: F32,
    F64: F64,
    Bf16: Bf16,
    Array<F8E4M3, 16>: Array<F8E4M3, 16>,
    Array<F8E5M2, 16>: Array<F8E5M2, 16>,
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
