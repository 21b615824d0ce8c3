// Narrow floats: how the words of half, bfloat16 and the two of 8 bits become floats, exactly, and
// how floats become them again: to nearest, ties to even, and any NaN is written as one.
//
// The device's own conversions between float and half, and from float to bfloat16, are bit for bit
// those of docs/numerics.md, but for NaN, which they write as 7fff. Floats of 8 bits go by half:
// each of their numbers is one.
#pragma once

#include "device.h"

struct Half {
  // NaN becomes the bits of `nan`, in each half.
  static KOLO_FN u32 narrow_pair(f32 low, f32 high, u32 nan) {
    u32 two = dev::halves_of(low, high), which = dev::nan_halves(two);
    return (two & ~which) | (nan & which);
  }

  static KOLO_FN void widen(u64 stored, f32 (&to)[4]) {
    dev::floats_of_halves((u32)stored, to[0], to[1]);
    dev::floats_of_halves((u32)(stored >> 32), to[2], to[3]);
  }
  static KOLO_FN u64 narrow(const f32 (&from)[4]) {
    u64 high = narrow_pair(from[2], from[3], 0x7e007e00);
    return high << 32 | narrow_pair(from[0], from[1], 0x7e007e00);
  }
};

struct Bfloat {
  static KOLO_FN void widen(u64 stored, f32 (&to)[4]) {
KOLO_UNROLL
    for (u32 pair = 0; pair < 2; pair++) {
      u32 two = (u32)(stored >> (32 * pair));
      to[2 * pair] = dev::float_of(two << 16);
      to[2 * pair + 1] = dev::float_of(two & 0xffff0000);
    }
  }
  static KOLO_FN u64 narrow(const f32 (&from)[4]) {
    u64 high = narrow_pair(from[2], from[3]);
    return high << 32 | narrow_pair(from[0], from[1]);
  }

 private:
  static KOLO_FN u32 narrow_pair(f32 low, f32 high) {
    u32 two = dev::bfloats_of(low, high);
    two = low != low ? dev::permute(two, 0x7fc0, 0x3254) : two;
    return high != high ? dev::permute(two, 0x7fc0, 0x5410) : two;
  }
};

// Floats of 8 bits, of which Code converts four in 32 bits.
template <class Code>
struct Quarters {
  static KOLO_FN void widen(u64 stored, f32 (&to)[8]) {
    Code::widen_pair((u32)stored, false, to[0], to[1]);
    Code::widen_pair((u32)stored, true, to[2], to[3]);
    Code::widen_pair((u32)(stored >> 32), false, to[4], to[5]);
    Code::widen_pair((u32)(stored >> 32), true, to[6], to[7]);
  }
  static KOLO_FN u64 narrow(const f32 (&from)[8]) {
    u64 high = Code::narrow_four(from[4], from[5], from[6], from[7]);
    return high << 32 | Code::narrow_four(from[0], from[1], from[2], from[3]);
  }

 protected:
  static constexpr u32 SIGN = 0x80000000, EXPONENT = 0x7f800000;
  static KOLO_FN u32 power(i32 exponent) { return (u32)(exponent + 127) << 23; }

  // Two codes, each as the upper byte of 16 bits.
  static KOLO_FN u32 apart(u32 four, bool upper) {
    return dev::permute(four, 0, upper ? 0x3424 : 0x1404);
  }
  // The upper bytes of four times 16 bits.
  static KOLO_FN u32 together(u32 low, u32 high) { return dev::permute(low, high, 0x7531); }

  // The exponent of a positive number, at least `least`.
  static KOLO_FN u32 exponent_of(u32 magnitude, i32 least) {
    u32 exponent = magnitude & EXPONENT;
    return exponent < power(least) ? power(least) : exponent;
  }
  // A positive number below twice `exponent`, to nearest, MANTISSA bits behind that power. The sum
  // has no bits for what is less, and rounds once.
  template <u32 MANTISSA>
  static KOLO_FN f32 rounded(u32 magnitude, u32 exponent) {
    f32 shift = dev::float_of(exponent + ((23 - MANTISSA) << 23));
    return dev::subtract(dev::add(dev::float_of(magnitude), shift), shift);
  }
  static KOLO_FN f32 with_sign(f32 value, f32 of) {
    return dev::float_of((dev::bits(value) & ~SIGN) | (dev::bits(of) & SIGN));
  }
};

// 5 bits of exponent, 2 of mantissa: the upper byte of a half.
struct E5m2 : Quarters<E5m2> {
  static KOLO_FN void widen_pair(u32 four, bool upper, f32& low, f32& high) {
    dev::floats_of_halves(apart(four, upper), low, high);
  }
  static KOLO_FN u32 narrow_four(f32 a, f32 b, f32 c, f32 d) {
    u32 low = Half::narrow_pair(rounded(a), rounded(b), 0x7f007f00);
    return together(low, Half::narrow_pair(rounded(c), rounded(d), 0x7f007f00));
  }

 private:
  // Nothing is lost when it becomes half; what is too large becomes infinity there.
  static KOLO_FN f32 rounded(f32 value) {
    u32 magnitude = dev::bits(value) & ~SIGN;
    u32 exponent = exponent_of(magnitude, -14);
    exponent = exponent < power(17) ? exponent : power(17);
    return with_sign(Quarters::rounded<2>(magnitude, exponent), value);
  }
};

// 4 bits of exponent, 3 of mantissa, no infinity: what is too large is NaN. A half has the bits of
// a code 7 places up, and is then 2^-8 of it.
struct E4m3 : Quarters<E4m3> {
  static KOLO_FN void widen_pair(u32 four, bool upper, f32& low, f32& high) {
    u32 codes = apart(four, upper);
    u32 halves = codes >> 1 & 0x3f803f80;
    // 7f, which is NaN, carries into the highest bit of the exponent.
    halves |= (halves + 0x00800080) & 0x40004000;
    dev::floats_of_halves(halves | (codes & 0x80008000), low, high);
    low = dev::multiply(low, dev::float_of(power(8)));
    high = dev::multiply(high, dev::float_of(power(8)));
  }
  static KOLO_FN u32 narrow_four(f32 a, f32 b, f32 c, f32 d) {
    u32 codes = together(narrow_pair(a, b), narrow_pair(c, d));
    u32 nan = ((codes & 0x7f7f7f7f) + 0x01010101) & 0x80808080;
    return codes & ~nan;
  }

 private:
  // Codes as upper bytes; NaN has the sign of what it comes from.
  static KOLO_FN u32 narrow_pair(f32 low, f32 high) {
    u32 halves = dev::halves_of(rounded(low), rounded(high));
    return (halves << 1 & 0x7fff7fff) | (halves & 0x80008000);
  }
  // 2^-8 of it. 480 would be code 7f: all that is larger, and NaN, is taken for it.
  static KOLO_FN f32 rounded(f32 value) {
    u32 magnitude = dev::bits(value) & ~SIGN;
    magnitude = magnitude < TOO_LARGE ? magnitude : TOO_LARGE;
    f32 whole = Quarters::rounded<3>(magnitude, exponent_of(magnitude, -6));
    return with_sign(dev::multiply(whole, dev::float_of(power(-8))), value);
  }
  static constexpr u32 TOO_LARGE = 0x43f00000;
};
