//! AVX-512 F, BW, DQ and VL: registers of 64 bytes.

use super::entries::{Kernels, entries, kernels};
use super::x86::{by_lanes, float_lanes, integer_lanes};
use crate::compound::Bits;
use crate::lanes::{Lanes, scalar_of};
use crate::minifloat::{self, F8E4M3, F8E5M2, Layout};
use crate::scalar::Arithmetic;
use half::{bf16, f16};
use num_complex::Complex;
use std::arch::x86_64::*;

entries!(U8, "avx2,f16c,avx512f,avx512bw,avx512dq,avx512vl");

/// Multiplies lane by lane where there is no instruction.
macro_rules! mul_lanes {
    ($element:ty, $count:literal) => {
        |a, b| by_lanes::<__m512i, $element, $count>(a, b, <$element as Arithmetic>::mul)
    };
}

integer_lanes!(I8: [i8; 64] in __m512i; _mm512_loadu_si512, _mm512_storeu_si512,
    _mm512_stream_si512, _mm512_add_epi8, mul_lanes!(i8, 64), _mm512_max_epi8, _mm512_min_epi8);
integer_lanes!(U8: [u8; 64] in __m512i; _mm512_loadu_si512, _mm512_storeu_si512,
    _mm512_stream_si512, _mm512_add_epi8, mul_lanes!(u8, 64), _mm512_max_epu8, _mm512_min_epu8);
integer_lanes!(B8: [Bits; 64] in __m512i; _mm512_loadu_si512, _mm512_storeu_si512,
    _mm512_stream_si512, _mm512_xor_si512, _mm512_and_si512, _mm512_or_si512, _mm512_and_si512);
integer_lanes!(I32: [i32; 16] in __m512i; _mm512_loadu_si512, _mm512_storeu_si512,
    _mm512_stream_si512, _mm512_add_epi32, _mm512_mullo_epi32, _mm512_max_epi32, _mm512_min_epi32);
integer_lanes!(U32: [u32; 16] in __m512i; _mm512_loadu_si512, _mm512_storeu_si512,
    _mm512_stream_si512, _mm512_add_epi32, _mm512_mullo_epi32, _mm512_max_epu32, _mm512_min_epu32);
integer_lanes!(I64: [i64; 8] in __m512i; _mm512_loadu_si512, _mm512_storeu_si512,
    _mm512_stream_si512, _mm512_add_epi64, _mm512_mullo_epi64, _mm512_max_epi64, _mm512_min_epi64);
integer_lanes!(U64: [u64; 8] in __m512i; _mm512_loadu_si512, _mm512_storeu_si512,
    _mm512_stream_si512, _mm512_add_epi64, _mm512_mullo_epi64, _mm512_max_epu64, _mm512_min_epu64);

float_lanes!(F64: [f64; 8] in __m512d, packed __m512i;
    load |from: *const u8| _mm512_loadu_pd(from.cast());
    pack |v| _mm512_castpd_si512(canonical_f64(v));
    _mm512_storeu_si512, _mm512_stream_si512; broadcast _mm512_set1_pd as f64;
    _mm512_add_pd, _mm512_mul_pd, _mm512_div_pd, max_f64, min_f64);
float_lanes!(F32: [f32; 16] in __m512, packed __m512i;
    load |from: *const u8| _mm512_loadu_ps(from.cast());
    pack |v| _mm512_castps_si512(canonical_f32(v));
    _mm512_storeu_si512, _mm512_stream_si512; broadcast _mm512_set1_ps as f32;
    _mm512_add_ps, _mm512_mul_ps, _mm512_div_ps, max_f32, min_f32);
float_lanes!(F16: [f16; 16] in __m512, packed __m256i;
    load |from: *const u8| _mm512_cvtph_ps(_mm256_loadu_si256(from.cast()));
    pack |v| _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(canonical_f32(v));
    _mm256_storeu_si256, _mm256_stream_si256; broadcast _mm512_set1_ps as f32;
    _mm512_add_ps, _mm512_mul_ps, _mm512_div_ps, max_f32, min_f32);
float_lanes!(Bf16: [bf16; 16] in __m512, packed __m256i;
    load widen_bf16; pack narrow_bf16;
    _mm256_storeu_si256, _mm256_stream_si256; broadcast _mm512_set1_ps as f32;
    _mm512_add_ps, _mm512_mul_ps, _mm512_div_ps, max_f32, min_f32);

float_lanes!(E4m3: [F8E4M3; 16] in __m512, packed __m128i;
    load widen_e4m3; pack |v| narrow_f8(v, minifloat::E4M3);
    _mm_storeu_si128, _mm_stream_si128; broadcast _mm512_set1_ps as f32;
    _mm512_add_ps, _mm512_mul_ps, _mm512_div_ps, max_f32, min_f32);
float_lanes!(E5m2: [F8E5M2; 16] in __m512, packed __m128i;
    load widen_e5m2; pack |v| narrow_f8(v, minifloat::E5M2);
    _mm_storeu_si128, _mm_stream_si128; broadcast _mm512_set1_ps as f32;
    _mm512_add_ps, _mm512_mul_ps, _mm512_div_ps, max_f32, min_f32);

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
        Complex64: F32, Array<Complex<f32>, 8>;
        Complex128: F64, Array<Complex<f64>, 4>;
    }
    bytes U8;
    bits B8;
    array 64;
);

/// The float functions of one width; see the AVX2 file for the idea of `max` and `min`.
macro_rules! float_functions {
    ($register:ty, $nan:expr, $set:ident, $cmp:ident, $move:ident, $and:ident, $or:ident,
     $max:ident, $min:ident; $canonical:ident, $maximum:ident, $minimum:ident) => {
        /// Replaces every NaN by the canonical one.
        ///
        /// # Safety
        /// The processor has AVX-512.
        #[inline(always)]
        unsafe fn $canonical(v: $register) -> $register {
            // SAFETY: the caller guarantees AVX-512.
            unsafe { $move(v, $cmp::<_CMP_UNORD_Q>(v, v), $set($nan)) }
        }

        /// # Safety
        /// The processor has AVX-512.
        #[inline(always)]
        unsafe fn $maximum(a: $register, b: $register) -> $register {
            // SAFETY: the caller guarantees AVX-512.
            unsafe {
                let largest = $and($max(a, b), $max(b, a));
                $move(largest, $cmp::<_CMP_UNORD_Q>(a, b), $set($nan))
            }
        }

        /// # Safety
        /// The processor has AVX-512.
        #[inline(always)]
        unsafe fn $minimum(a: $register, b: $register) -> $register {
            // SAFETY: the caller guarantees AVX-512.
            unsafe {
                let least = $or($min(a, b), $min(b, a));
                $move(least, $cmp::<_CMP_UNORD_Q>(a, b), $set($nan))
            }
        }
    };
}

float_functions!(__m512, f32::from_bits(0x7fc0_0000), _mm512_set1_ps, _mm512_cmp_ps_mask,
    _mm512_mask_mov_ps, _mm512_and_ps, _mm512_or_ps, _mm512_max_ps, _mm512_min_ps;
    canonical_f32, max_f32, min_f32);
float_functions!(__m512d, f64::from_bits(0x7ff8_0000_0000_0000), _mm512_set1_pd,
    _mm512_cmp_pd_mask, _mm512_mask_mov_pd, _mm512_and_pd, _mm512_or_pd, _mm512_max_pd,
    _mm512_min_pd; canonical_f64, max_f64, min_f64);

/// # Safety
/// The processor has AVX-512, and 32 bytes are readable at `from`.
#[inline(always)]
unsafe fn widen_bf16(from: *const u8) -> __m512 {
    // SAFETY: the caller guarantees AVX-512 and the bytes.
    unsafe {
        let codes = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast()));
        _mm512_castsi512_ps(_mm512_slli_epi32::<16>(codes))
    }
}

/// Rounds to nearest, ties to even. (The processor's own bfloat16 instruction is not used: it
/// flushes subnormal numbers to zero.)
///
/// # Safety
/// The processor has AVX-512.
#[inline(always)]
unsafe fn narrow_bf16(v: __m512) -> __m256i {
    // SAFETY: the caller guarantees AVX-512.
    unsafe {
        let bits = _mm512_castps_si512(canonical_f32(v));
        let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
        let half = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
        _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(_mm512_add_epi32(bits, half)))
    }
}

/// An e5m2 is the upper half of a binary16.
///
/// # Safety
/// The processor has AVX-512, and 16 bytes are readable at `from`.
#[inline(always)]
unsafe fn widen_e5m2(from: *const u8) -> __m512 {
    // SAFETY: the caller guarantees AVX-512 and the bytes.
    unsafe {
        let codes = _mm256_cvtepu8_epi16(_mm_loadu_si128(from.cast()));
        _mm512_cvtph_ps(_mm256_slli_epi16::<8>(codes))
    }
}

/// See the AVX2 file for the idea.
///
/// # Safety
/// The processor has AVX-512, and 16 bytes are readable at `from`.
#[inline(always)]
unsafe fn widen_e4m3(from: *const u8) -> __m512 {
    // SAFETY: the caller guarantees AVX-512 and the bytes.
    unsafe {
        let codes = _mm256_cvtepu8_epi16(_mm_loadu_si128(from.cast()));
        let magnitude = _mm256_and_si256(codes, _mm256_set1_epi16(0x7f));
        let sign = _mm256_slli_epi16::<8>(_mm256_and_si256(codes, _mm256_set1_epi16(0x80)));
        let small = _mm512_cvtph_ps(_mm256_or_si256(_mm256_slli_epi16::<7>(magnitude), sign));
        let value = _mm512_mul_ps(small, _mm512_set1_ps(256.0));
        let nan = _mm256_cmpeq_epi16_mask(magnitude, _mm256_set1_epi16(0x7f));
        _mm512_mask_mov_ps(value, nan, _mm512_set1_ps(f32::NAN))
    }
}

/// [`Layout::encode`] on sixteen lanes.
///
/// # Safety
/// The processor has AVX-512.
#[inline(always)]
unsafe fn narrow_f8(v: __m512, layout: Layout) -> __m128i {
    // SAFETY: the caller guarantees AVX-512.
    unsafe {
        let set = |value: u32| _mm512_set1_epi32(value as i32);
        let drop = _mm_cvtsi32_si128(layout.dropped_bits() as i32);
        let bits = _mm512_castps_si512(v);
        let magnitude = _mm512_and_si512(bits, set(0x7fff_ffff));
        let sign = _mm512_and_si512(_mm512_srli_epi32::<24>(bits), set(0x80));
        let odd = _mm512_and_si512(_mm512_srl_epi32(magnitude, drop), set(1));
        let half = set((1 << (layout.dropped_bits() - 1)) - 1);
        let raised = _mm512_add_epi32(magnitude, _mm512_add_epi32(odd, half));
        let normal = _mm512_sub_epi32(_mm512_srl_epi32(raised, drop), set(layout.rebias()));
        let shift = _mm512_set1_ps(layout.shift());
        let shifted = _mm512_add_ps(_mm512_castsi512_ps(magnitude), shift);
        let subnormal = _mm512_sub_epi32(_mm512_castps_si512(shifted), _mm512_castps_si512(shift));
        let below = _mm512_cmpgt_epi32_mask(set(layout.least_normal()), magnitude);
        let finite = _mm512_mask_mov_epi32(normal, below, subnormal);
        let code = _mm512_min_epi32(finite, set(layout.overflow));
        let nan = if layout.has_infinity {
            _mm512_cmpgt_epi32_mask(magnitude, set(0x7f80_0000))
        } else {
            _mm512_cmpeq_epi32_mask(code, set(layout.overflow))
        };
        let code = _mm512_mask_mov_epi32(_mm512_or_si512(code, sign), nan, set(layout.nan));
        _mm512_cvtepi32_epi8(code)
    }
}
