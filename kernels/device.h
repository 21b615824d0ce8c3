// Everything that a kernel asks of the machine it runs on: the only file with instructions of a
// GPU.
//
// The rest of this folder is plain C++ over these functions. A GPU compiler gets them from here,
// as PTX; a host compiler gets them from machine.h, where each thread of a grid is a fiber.
//
// Orders of memory (NVIDIA, "PTX ISA", chapter "Memory Consistency Model"; D. Lustig, S.
// Sahasrabuddhe, O. Giroux, "A Formal Analysis of the NVIDIA PTX Memory Consistency Model",
// ASPLOS 2019, doi:10.1145/3297858.3304043):
//   - load and store are weak: others may see stores late and in another order, and a load may
//     give what a first-level cache kept, until this block acquires something;
//   - release and acquire are for the whole system: who acquires what was released sees
//     everything that the releasing thread did or knew of (through barriers of its block, too)
//     before;
//   - a barrier of the block orders what its threads do for each other, not for other blocks.
#pragma once

#include "types.h"

#if defined(__CUDACC__)

#define KOLO_FN __device__ __forceinline__
// Before a loop of a known number of passes.
#define KOLO_UNROLL _Pragma("unroll")
#define KOLO_SHARED(Type, name) __shared__ Type name
// One launch is one structure of at most 4 KB.
#define KOLO_KERNEL(name, Launch, launch) \
  extern "C" __global__ void __launch_bounds__(640, 1) name(const __grid_constant__ Launch launch)

namespace dev {

constexpr u32 WARP = 32;

// ---- who this thread is

KOLO_FN u32 thread() { return threadIdx.x; }
KOLO_FN u32 threads() { return blockDim.x; }
KOLO_FN u32 block() { return blockIdx.x; }
KOLO_FN u32 blocks() { return gridDim.x; }

// ---- all 32 threads of a warp

KOLO_FN void warp_sync() { asm volatile("bar.warp.sync 0xffffffff;" ::: "memory"); }
KOLO_FN bool all_of_warp(bool here) { return __all_sync(0xffffffffu, here); }
KOLO_FN bool any_of_warp(bool here) { return __any_sync(0xffffffffu, here); }
// What thread `from` of the warp has.
KOLO_FN u64 from_thread(u64 value, u32 from) { return __shfl_sync(0xffffffffu, value, from); }

// ---- all threads of a block

KOLO_FN void block_sync() { asm volatile("bar.sync 0;" ::: "memory"); }
// Barrier `id` (1 to 15) of `count` threads, a multiple of 32: to come and go on, or to come and
// wait.
KOLO_FN void barrier_arrive(u32 id, u32 count) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(count) : "memory");
}
KOLO_FN void barrier_wait(u32 id, u32 count) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(count) : "memory");
}

// ---- words in the block's shared memory, ordered for the block

KOLO_FN u32 shared_address(const void* at) { return (u32)__cvta_generic_to_shared(at); }
KOLO_FN void shared_add_release(u32* at, u32 value) {
  asm volatile("red.release.cta.shared.add.u32 [%0], %1;" ::"r"(shared_address(at)), "r"(value)
               : "memory");
}
KOLO_FN u32 shared_load_acquire(const u32* at) {
  u32 value;
  asm volatile("ld.acquire.cta.shared.u32 %0, [%1];"
               : "=r"(value)
               : "r"(shared_address(at))
               : "memory");
  return value;
}
KOLO_FN void shared_store_release(u32* at, u32 value) {
  asm volatile("st.release.cta.shared.u32 [%0], %1;" ::"r"(shared_address(at)), "r"(value)
               : "memory");
}

// ---- device memory, that of peers, and mapped memory of the host: weak, at multiples of the size

KOLO_FN Vector load16(const void* at) {
  Vector v;
  asm volatile("ld.global.v2.u64 {%0, %1}, [%2];" : "=l"(v.low), "=l"(v.high) : "l"(at) : "memory");
  return v;
}
KOLO_FN void store16(void* at, Vector v) {
  asm volatile("st.global.v2.u64 [%0], {%1, %2};" ::"l"(at), "l"(v.low), "l"(v.high) : "memory");
}
KOLO_FN u64 load8(const void* at) {
  u64 v;
  asm volatile("ld.global.u64 %0, [%1];" : "=l"(v) : "l"(at) : "memory");
  return v;
}
KOLO_FN u32 load4(const void* at) {
  u32 v;
  asm volatile("ld.global.u32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
  return v;
}
KOLO_FN u16 load2(const void* at) {
  u16 v;
  asm volatile("ld.global.u16 %0, [%1];" : "=h"(v) : "l"(at) : "memory");
  return v;
}
KOLO_FN u8 load1(const void* at) {
  u32 v;
  asm volatile("ld.global.u8 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
  return (u8)v;
}
KOLO_FN void store8(void* at, u64 v) {
  asm volatile("st.global.u64 [%0], %1;" ::"l"(at), "l"(v) : "memory");
}
KOLO_FN void store4(void* at, u32 v) {
  asm volatile("st.global.u32 [%0], %1;" ::"l"(at), "r"(v) : "memory");
}
KOLO_FN void store2(void* at, u16 v) {
  asm volatile("st.global.u16 [%0], %1;" ::"l"(at), "h"(v) : "memory");
}
KOLO_FN void store1(void* at, u8 v) {
  asm volatile("st.global.u8 [%0], %1;" ::"l"(at), "r"((u32)v) : "memory");
}

// ---- counts and flags that others wait for, ordered for the whole system

KOLO_FN u64 load_acquire(const u64* at) {
  u64 v;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(at) : "memory");
  return v;
}
KOLO_FN void store_release(u64* at, u64 v) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(at), "l"(v) : "memory");
}
// Without order: for a word that says nothing about others.
KOLO_FN u32 load_relaxed4(const u32* at) {
  u32 v;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
  return v;
}
// Both an acquire and a release, without an address.
KOLO_FN void fence() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }

// ---- lines that carry their own flags, past the first-level cache

// Two accesses of 8 bytes, each of which is whole: a word of data and its flag.
KOLO_FN Line load_line(const void* at) {
  u64 low, high;
  asm volatile("ld.volatile.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(low), "=l"(high)
               : "l"(at)
               : "memory");
  return {(u32)low, (u32)(low >> 32), (u32)high, (u32)(high >> 32)};
}
KOLO_FN void store_line(void* at, Line l) {
  u64 low = (u64)l.flag_low << 32 | l.data_low, high = (u64)l.flag_high << 32 | l.data_high;
  asm volatile("st.volatile.global.v2.u64 [%0], {%1, %2};" ::"l"(at), "l"(low), "l"(high)
               : "memory");
}
// All 32 threads of a warp call these together; 8 neighbours have one line of 128 bytes, 16 bytes
// each. A store moves each line whole where the path keeps it together (LL128 is allowed only
// there).
KOLO_FN Vector load_line128(const void* mine) {
  Vector v;
  // Threads that came here by different ways would load their parts at different times.
  warp_sync();
  asm volatile("ld.volatile.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(v.low), "=l"(v.high)
               : "l"(mine)
               : "memory");
  return v;
}
KOLO_FN void store_line128(void* mine, Vector v) {
  warp_sync();
  asm volatile("st.volatile.global.v2.u64 [%0], {%1, %2};" ::"l"(mine), "l"(v.low), "l"(v.high)
               : "memory");
}

// ---- waiting

// Looks in vain between two looks at the abort flag: some milliseconds. The flag lies in memory
// of the host, and all loads of a multiprocessor wait behind such a look: with one in 64, a fold of
// 132 blocks took twelve times as long (H200).
constexpr u32 ABORT_EVERY = 10000;

// Before the next look at what somebody else writes.
KOLO_FN void spin() { __nanosleep(20); }

// ---- arithmetic that a compiler must not change: rounded to nearest, nothing contracted or
// flushed

KOLO_FN f32 add(f32 a, f32 b) { return __fadd_rn(a, b); }
KOLO_FN f32 subtract(f32 a, f32 b) { return __fsub_rn(a, b); }
KOLO_FN f32 multiply(f32 a, f32 b) { return __fmul_rn(a, b); }
KOLO_FN f32 divide(f32 a, f32 b) { return __fdiv_rn(a, b); }
KOLO_FN f64 add(f64 a, f64 b) { return __dadd_rn(a, b); }
KOLO_FN f64 multiply(f64 a, f64 b) { return __dmul_rn(a, b); }
KOLO_FN f64 divide(f64 a, f64 b) { return __ddiv_rn(a, b); }
KOLO_FN u32 bits(f32 value) { return __float_as_uint(value); }
KOLO_FN f32 float_of(u32 bits) { return __uint_as_float(bits); }
KOLO_FN u64 bits(f64 value) { return (u64)__double_as_longlong(value); }
KOLO_FN f64 double_of(u64 bits) { return __longlong_as_double((i64)bits); }

// ---- narrow floats, two in 32 bits: to nearest, subnormal numbers kept, too large is infinity.
// NaN comes out as 7fff (a float as 7fffffff), whatever it was.

KOLO_FN void floats_of_halves(u32 two, f32& low, f32& high) {
  asm("{.reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h;}"
      : "=f"(low), "=f"(high)
      : "r"(two));
}
KOLO_FN u32 halves_of(f32 low, f32 high) {
  u32 two;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(high), "f"(low));
  return two;
}
KOLO_FN u32 bfloats_of(f32 low, f32 high) {
  u32 two;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(high), "f"(low));
  return two;
}
// All bits of each half that is NaN.
KOLO_FN u32 nan_halves(u32 two) {
  u32 which;
  asm("set.nan.u32.f16x2 %0, %1, %1;" : "=r"(which) : "r"(two));
  return which;
}
// Four of the 8 bytes of two words (low: 0 to 3, high: 4 to 7), by a digit each.
KOLO_FN u32 permute(u32 low, u32 high, u32 digits) { return __byte_perm(low, high, digits); }

}  // namespace dev

#else
#define KOLO_UNROLL
#include "machine.h"
#endif
