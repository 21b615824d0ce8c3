// What one element does, for each type and operation: the bits that docs/numerics.md promises,
// equal to those of the host (src/dtype/scalar.rs, src/dtype/minifloat.rs).
//
// The unit is a word of 8 bytes: 1, 2, 4 or 8 elements. A word is widened to accumulators (narrow
// floats to float, exactly), combined there, and narrowed once.
#pragma once

#include "device.h"

// ---- narrow floats, in integer arithmetic and exact float operations

// A sign, an exponent and a mantissa in 8 or 16 bits.
template <u32 MANTISSA, u32 BIAS, u32 OVERFLOW, bool INFINITY_, u32 NAN_, u32 SIGN>
struct Minifloat {
  static constexpr u32 DROPPED = 23 - MANTISSA;
  static constexpr u32 F32_INFINITY = 0x7f800000, F32_NAN = 0x7fc00000;

  // 2^exponent.
  static KOLO_FN f32 power(i32 exponent) { return dev::float_of((u32)(exponent + 127) << 23); }
  // The exponent of the unit of subnormal numbers.
  static constexpr i32 UNIT = 1 - (i32)BIAS - (i32)MANTISSA;

  static KOLO_FN f32 widen(u32 stored) {
    u32 sign = (stored & SIGN) * (0x80000000u / SIGN);
    u32 code = stored & (SIGN - 1);
    u32 normal = (code << DROPPED) + ((127 - BIAS) << 23);
    u32 subnormal = dev::bits(dev::multiply((f32)(i32)code, power(UNIT)));
    u32 finite = code < 1u << MANTISSA ? subnormal : normal;
    u32 special = INFINITY_ && code == OVERFLOW ? F32_INFINITY : F32_NAN;
    return dev::float_of(sign | (code < OVERFLOW ? finite : special));
  }

  // To nearest, ties to even; what is too large becomes infinity or NaN, never the largest number.
  static KOLO_FN u32 narrow(f32 value) {
    u32 bits = dev::bits(value);
    u32 sign = (bits & 0x80000000u) / (0x80000000u / SIGN);
    u32 magnitude = bits & 0x7fffffffu;
    u32 round = (1u << (DROPPED - 1)) - 1 + (magnitude >> DROPPED & 1);
    u32 normal = ((magnitude + round) >> DROPPED) - ((127 - BIAS) << MANTISSA);
    // 2^23 units: the addition rounds to the last of them.
    f32 shift = power(UNIT + 23);
    u32 subnormal = dev::bits(dev::add(dev::float_of(magnitude), shift)) - dev::bits(shift);
    u32 finite = magnitude < (128 - BIAS) << 23 ? subnormal & (SIGN - 1) : normal;
    u32 code = finite < OVERFLOW ? finite : OVERFLOW;
    if (magnitude > F32_INFINITY || (!INFINITY_ && code == OVERFLOW)) {
      return NAN_;
    }
    return sign | code;
  }
};

struct Bfloat {
  static KOLO_FN f32 widen(u32 stored) { return dev::float_of(stored << 16); }
  static KOLO_FN u32 narrow(f32 value) {
    u32 bits = dev::bits(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
      return 0x7fc0;
    }
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  }
};

typedef Minifloat<10, 15, 0x7c00, true, 0x7e00, 0x8000> Half;
typedef Minifloat<3, 7, 0x7f, false, 0x7f, 0x80> E4m3;
typedef Minifloat<2, 15, 0x7c, true, 0x7f, 0x80> E5m2;

// ---- arithmetic of accumulators

template <class T>
struct Integers {
  typedef T Acc;
  static KOLO_FN T add(T a, T b) { return (T)((u64)a + (u64)b); }
  static KOLO_FN T multiply(T a, T b) { return (T)((u64)a * (u64)b); }
  static KOLO_FN T larger(T a, T b) { return a > b ? a : b; }
  static KOLO_FN T smaller(T a, T b) { return a < b ? a : b; }
};

template <class T, class Bits, Bits INFINITY_, Bits NAN_>
struct Reals {
  typedef T Acc;
  static KOLO_FN T add(T a, T b) { return dev::add(a, b); }
  static KOLO_FN T multiply(T a, T b) { return dev::multiply(a, b); }
  static KOLO_FN T divide(T a, u32 by) { return dev::divide(a, (T)by); }
  // NaN if either is NaN; +0 above -0: equal numbers differ at most in the sign of zero.
  static KOLO_FN T larger(T a, T b) {
    T most = a == b ? of(dev::bits(a) & dev::bits(b)) : a > b ? a : b;
    return a != a ? a : most;
  }
  static KOLO_FN T smaller(T a, T b) {
    T least = a == b ? of(dev::bits(a) | dev::bits(b)) : a < b ? a : b;
    return a != a ? a : least;
  }
  // Any NaN is written as one.
  static KOLO_FN Bits canonical(T value) {
    Bits bits = dev::bits(value);
    return (bits & (~(Bits)0 >> 1)) > INFINITY_ ? NAN_ : bits;
  }
  static KOLO_FN f32 of(u32 bits) { return dev::float_of(bits); }
  static KOLO_FN f64 of(u64 bits) { return dev::double_of(bits); }
};

typedef Reals<f32, u32, 0x7f800000u, 0x7fc00000u> Floats;
typedef Reals<f64, u64, 0x7ff0000000000000ull, 0x7ff8000000000000ull> Doubles;

// ---- the types of NCCL; the low BYTES of a word are an element

// The divisor is a number of ranks: quotients fit, and truncate toward zero.
template <class T, class Wide>
struct IntegerElement : Integers<T> {
  static constexpr u32 BYTES = sizeof(T);
  static KOLO_FN T widen(u64 stored) { return (T)stored; }
  static KOLO_FN u64 narrow(T value) { return (u64)value; }
  static KOLO_FN T divide(T a, u32 by) { return (T)((Wide)a / (Wide)by); }
};

template <class Code, u32 WIDTH>
struct NarrowElement : Floats {
  static constexpr u32 BYTES = WIDTH;
  static KOLO_FN f32 widen(u64 stored) {
    return Code::widen((u32)stored & ((1u << 8 * WIDTH) - 1));
  }
  static KOLO_FN u64 narrow(f32 value) { return Code::narrow(value); }
};

struct Float : Floats {
  static constexpr u32 BYTES = 4;
  static KOLO_FN f32 widen(u64 stored) { return dev::float_of((u32)stored); }
  static KOLO_FN u64 narrow(f32 value) { return canonical(value); }
};

struct Double : Doubles {
  static constexpr u32 BYTES = 8;
  static KOLO_FN f64 widen(u64 stored) { return dev::double_of(stored); }
  static KOLO_FN u64 narrow(f64 value) { return canonical(value); }
};

typedef IntegerElement<i8, i64> Int8;
typedef IntegerElement<u8, u32> Uint8;
typedef IntegerElement<i32, i64> Int32;
typedef IntegerElement<u32, u32> Uint32;
typedef IntegerElement<i64, i64> Int64;
typedef IntegerElement<u64, u64> Uint64;
typedef NarrowElement<Half, 2> Float16;
typedef NarrowElement<Bfloat, 2> Bfloat16;
typedef NarrowElement<E4m3, 1> Float8e4m3;
typedef NarrowElement<E5m2, 1> Float8e5m2;

// ---- the operations. An average is a sum with a divisor, a pre-multiplied sum one with a scalar:
// only sums have code for these.

struct Sum {
  static constexpr bool SCALES = true;
  template <class E>
  static KOLO_FN typename E::Acc combine(typename E::Acc a, typename E::Acc b) {
    return E::add(a, b);
  }
};
struct Prod {
  static constexpr bool SCALES = false;
  template <class E>
  static KOLO_FN typename E::Acc combine(typename E::Acc a, typename E::Acc b) {
    return E::multiply(a, b);
  }
};
struct Max {
  static constexpr bool SCALES = false;
  template <class E>
  static KOLO_FN typename E::Acc combine(typename E::Acc a, typename E::Acc b) {
    return E::larger(a, b);
  }
};
struct Min {
  static constexpr bool SCALES = false;
  template <class E>
  static KOLO_FN typename E::Acc combine(typename E::Acc a, typename E::Acc b) {
    return E::smaller(a, b);
  }
};

// ---- words

// The elements of a word, widened.
template <class E>
struct Word {
  static constexpr u32 COUNT = 8 / E::BYTES;
  typename E::Acc of[COUNT];

  static KOLO_FN Word widen(u64 stored) {
    Word word;
KOLO_UNROLL
    for (u32 k = 0; k < COUNT; k++) {
      word.of[k] = E::widen(stored >> (8 * E::BYTES * k));
    }
    return word;
  }

  KOLO_FN u64 narrow() const {
    if (COUNT == 1) {
      return E::narrow(of[0]);
    }
    u64 stored = 0;
KOLO_UNROLL
    for (u32 k = 0; k < COUNT; k++) {
      stored |= (E::narrow(of[k]) & mask()) << (8 * E::BYTES * k % 64);
    }
    return stored;
  }

  template <class Op>
  KOLO_FN void combine(const Word& next) {
KOLO_UNROLL
    for (u32 k = 0; k < COUNT; k++) {
      of[k] = Op::template combine<E>(of[k], next.of[k]);
    }
  }

  KOLO_FN void multiply(typename E::Acc by) {
KOLO_UNROLL
    for (u32 k = 0; k < COUNT; k++) {
      of[k] = E::multiply(of[k], by);
    }
  }

  KOLO_FN void divide(u32 by) {
KOLO_UNROLL
    for (u32 k = 0; k < COUNT; k++) {
      of[k] = E::divide(of[k], by);
    }
  }

 private:
  static KOLO_FN u64 mask() { return E::BYTES == 8 ? ~0ull : (1ull << (8 * E::BYTES % 64)) - 1; }
};
