// What one element does, for each type and operation: the bits that docs/numerics.md promises,
// equal to those of the host (src/dtype/scalar.rs, src/dtype/minifloat.rs).
//
// The unit is a word of 8 bytes: 1, 2, 4 or 8 elements. A word is widened to accumulators (narrow
// floats to float, exactly), combined there, and narrowed once.
#pragma once

#include "narrow.h"

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
    f32 all[8 / WIDTH];
    Code::widen(stored, all);
    return all[0];
  }
};

struct Float : Floats {
  static constexpr u32 BYTES = 4;
  static KOLO_FN f32 widen(u64 stored) { return dev::float_of((u32)stored); }
  static KOLO_FN u64 narrow(f32 value) { return value != value ? 0x7fc00000u : dev::bits(value); }
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

// How the elements of a word are widened and narrowed: one by one, or by the code of narrow floats.
template <class E>
struct Elements {
  static constexpr u32 COUNT = 8 / E::BYTES;
  typedef typename E::Acc Acc;

  static KOLO_FN void widen(u64 stored, Acc (&to)[COUNT]) {
KOLO_UNROLL
    for (u32 k = 0; k < COUNT; k++) {
      to[k] = E::widen(stored >> (8 * E::BYTES * k));
    }
  }

  static KOLO_FN u64 narrow(const Acc (&from)[COUNT]) {
    if (COUNT == 1) {
      return E::narrow(from[0]);
    }
    u64 stored = 0;
KOLO_UNROLL
    for (u32 k = 0; k < COUNT; k++) {
      stored |= (E::narrow(from[k]) & mask()) << (8 * E::BYTES * k % 64);
    }
    return stored;
  }

 private:
  static KOLO_FN u64 mask() { return E::BYTES == 8 ? ~0ull : (1ull << (8 * E::BYTES % 64)) - 1; }
};

template <class Code, u32 WIDTH>
struct Elements<NarrowElement<Code, WIDTH>> : Code {};

// The elements of a word, widened.
template <class E>
struct Word {
  static constexpr u32 COUNT = 8 / E::BYTES;
  typename E::Acc of[COUNT];

  static KOLO_FN Word widen(u64 stored) {
    Word word;
    Elements<E>::widen(stored, word.of);
    return word;
  }

  KOLO_FN u64 narrow() const { return Elements<E>::narrow(of); }

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
};
