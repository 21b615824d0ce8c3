// Numbers drawn from a seed.
#pragma once

#include "types.h"

namespace host {

// SplitMix64: G. Steele, D. Lea, C. Flood, "Fast Splittable Pseudorandom Number Generators",
// OOPSLA 2014, doi:10.1145/2660193.2660195.
class Random {
 public:
  explicit Random(u64 seed) : state(seed) {}

  u64 next() {
    state += 0x9e3779b97f4a7c15;
    return mix(state);
  }

  static u64 mix(u64 z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  u32 below(u32 n) { return static_cast<u32>((next() >> 32) * n >> 32); }

  // Whether something happens that does so once in `n` times; 0: never.
  bool one_in(u32 n) { return n != 0 && below(n) == 0; }

  template <u32 N>
  u32 one_of(const u32 (&values)[N]) {
    return values[below(N)];
  }

 private:
  u64 state;
};

}  // namespace host
