// The functions of kernels/device.h for a host compiler: what a kernel asks of its machine.
//
// Each thread of each block is a fiber; the machine (README.md) runs fibers in an order drawn from
// a seed, and lets stores land late, in pieces and out of order. A function here means what it
// means in device.h, and no more: what is not promised there happens on some seed.
//
// Kernels include device.h, never this file or one of a system.
#pragma once

#include "types.h"

#define KOLO_FN inline
// Names the block's shared memory: the same for all its threads, and with garbage in it at first.
#define KOLO_SHARED(Type, name)                                                 \
  static_assert(sizeof(Type) <= dev::MOST_SHARED_BYTES, "shared memory");       \
  static_assert(alignof(Type) <= dev::SHARED_ALIGNMENT, "shared memory");       \
  Type& name = *static_cast<Type*>(dev::shared_memory(sizeof(Type)))
// The function of a grid, and beside it `NAME_launch_bytes`, which the machine's user can look at.
#define KOLO_KERNEL(name, Launch, launch) KOLO_KERNEL_EXPANDED(name, Launch, launch)
#define KOLO_KERNEL_EXPANDED(name, Launch, launch)                              \
  static_assert(sizeof(Launch) <= dev::MOST_LAUNCH_BYTES, "launch arguments");  \
  extern "C" {                                                                  \
  extern const u32 name##_launch_bytes;                                         \
  const u32 name##_launch_bytes = sizeof(Launch);                               \
  }                                                                             \
  extern "C" void name(const Launch& launch)

// Kernels that a test compiles find these in the test's program.
namespace dev __attribute__((visibility("default"))) {

constexpr u32 WARP = 32;
constexpr u32 MOST_SHARED_BYTES = 48 * 1024;
constexpr u32 SHARED_ALIGNMENT = 128;
constexpr u32 MOST_LAUNCH_BYTES = 4096;

void* shared_memory(u64 bytes);

// ---- who this thread is

u32 thread();
u32 threads();
u32 block();
u32 blocks();

// ---- all 32 threads of a warp: each waits until all have come. Only warp_sync orders memory.

void warp_sync();
bool all_of_warp(bool here);
bool any_of_warp(bool here);
u64 from_thread(u64 value, u32 from);

// ---- all threads of a block

void block_sync();
void barrier_arrive(u32 id, u32 count);
void barrier_wait(u32 id, u32 count);

// ---- words in the block's shared memory, ordered for the block

void shared_add_release(u32* at, u32 value);
u32 shared_load_acquire(const u32* at);
void shared_store_release(u32* at, u32 value);

// ---- device memory, that of peers, and mapped memory of the host: weak, at multiples of the size

Vector load16(const void* at);
u64 load8(const void* at);
u32 load4(const void* at);
u16 load2(const void* at);
u8 load1(const void* at);
void store16(void* at, Vector v);
void store8(void* at, u64 v);
void store4(void* at, u32 v);
void store2(void* at, u16 v);
void store1(void* at, u8 v);

// ---- counts and flags that others wait for, ordered for the whole system

u64 load_acquire(const u64* at);
void store_release(u64* at, u64 v);
u32 load_relaxed4(const u32* at);
void fence();

// ---- lines that carry their own flags, past the first-level cache

Line load_line(const void* at);
void store_line(void* at, Line l);
Vector load_line128(const void* mine);
void store_line128(void* mine, Vector v);

// ---- waiting

constexpr u32 ABORT_EVERY = 64;
void spin();

// ---- arithmetic: rounded to nearest; build.rs forbids contraction

static inline f32 add(f32 a, f32 b) { return a + b; }
static inline f32 subtract(f32 a, f32 b) { return a - b; }
static inline f32 multiply(f32 a, f32 b) { return a * b; }
static inline f32 divide(f32 a, f32 b) { return a / b; }
static inline f64 add(f64 a, f64 b) { return a + b; }
static inline f64 multiply(f64 a, f64 b) { return a * b; }
static inline f64 divide(f64 a, f64 b) { return a / b; }
static inline u32 bits(f32 value) {
  u32 bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}
static inline f32 float_of(u32 bits) {
  f32 value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}
static inline u64 bits(f64 value) {
  u64 bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}
static inline f64 double_of(u64 bits) {
  f64 value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

// ---- narrow floats, as device.h says, in integer arithmetic and exact operations of floats

static inline f32 float_of_half(u16 half) {
  u32 sign = (u32)(half & 0x8000) << 16, code = half & 0x7fff;
  if (code > 0x7c00) {
    return float_of(0x7fffffff);
  }
  if (code == 0x7c00) {
    return float_of(sign | 0x7f800000);
  }
  if (code < 1 << 10) {
    return float_of(sign | bits((f32)code * float_of((127 - 24) << 23)));
  }
  return float_of(sign | ((code << 13) + ((127 - 15) << 23)));
}
static inline void floats_of_halves(u32 two, f32& low, f32& high) {
  low = float_of_half((u16)two);
  high = float_of_half((u16)(two >> 16));
}
static inline u32 half_of(f32 value) {
  u32 sign = bits(value) >> 16 & 0x8000, magnitude = bits(value) & 0x7fffffff;
  if (magnitude > 0x7f800000) {
    return 0x7fff;
  }
  if (magnitude < (127 - 14) << 23) {
    // 2^23 units of 2^-24: the addition rounds to the last of them.
    f32 shift = float_of((127 - 1) << 23);
    return sign | (bits(float_of(magnitude) + shift) - bits(shift));
  }
  u32 code = ((magnitude + 0xfff + (magnitude >> 13 & 1)) >> 13) - ((127 - 15) << 10);
  return sign | (code < 0x7c00 ? code : 0x7c00);
}
static inline u32 halves_of(f32 low, f32 high) { return half_of(high) << 16 | half_of(low); }
static inline u32 bfloat_of(f32 value) {
  u32 all = bits(value);
  return (all & 0x7fffffff) > 0x7f800000 ? 0x7fff : (all + 0x7fff + (all >> 16 & 1)) >> 16;
}
static inline u32 bfloats_of(f32 low, f32 high) { return bfloat_of(high) << 16 | bfloat_of(low); }
static inline u32 nan_halves(u32 two) {
  u32 low = (two & 0x7fff) > 0x7c00 ? 0xffff : 0;
  return low | ((two >> 16 & 0x7fff) > 0x7c00 ? 0xffff0000 : 0);
}
static inline u32 permute(u32 low, u32 high, u32 digits) {
  u64 all = (u64)high << 32 | low;
  u32 chosen = 0;
  for (u32 k = 0; k < 4; k++) {
    chosen |= (u32)(all >> 8 * (digits >> 4 * k & 7) & 0xff) << 8 * k;
  }
  return chosen;
}

}  // namespace dev
