// Numbers of fixed size, for a source that includes nothing of a system.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef float f32;
typedef double f64;

static_assert(sizeof(u16) == 2 && sizeof(u32) == 4 && sizeof(u64) == 8, "sizes of integers");
static_assert(sizeof(f32) == 4 && sizeof(f64) == 8, "sizes of floats");

// 16 bytes that one thread loads or stores at once.
struct alignas(16) Vector {
  u64 low, high;
};

// A line of LL: two words of data, each beside a flag. Each half of 8 bytes moves whole.
struct alignas(16) Line {
  u32 data_low, flag_low, data_high, flag_high;
};
