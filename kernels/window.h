// Which elements slice s of chunk c of round r is: the only arithmetic that exists twice. A test
// holds it equal to src/plan/window.rs on a million random cases.
//
// A division of 64 bits takes a GPU a hundred instructions. So what holds for a whole round is
// computed where the round begins (`round_of`), and a frame takes no division.
#pragma once

#include "device.h"
#include "plan.h"

// Chunks of a split and of scratch begin at a multiple of so many elements.
constexpr u64 CHUNK_ELEMENTS = 64;
// Slices begin at a multiple of so many elements.
constexpr u64 SLICE_ELEMENTS = 16;

// A part of a buffer, in elements.
struct Region {
  u64 offset, count;
};

// What a window is in one round.
struct Round {
  u64 start;   // where its first chunk begins; of blocks: in each block
  u64 length;  // elements of a chunk; at the end of the data there are fewer
  u64 shift;   // a chunk has 2^shift slices
};

KOLO_FN u64 at_most(u64 value, u64 most) { return value < most ? value : most; }
KOLO_FN u64 at_least(u64 value, u64 least) { return value > least ? value : least; }
// To a power of two.
KOLO_FN u64 round_up(u64 value, u64 to) { return (value + to - 1) & ~(to - 1); }

// Rounded up. Large numbers are rare, and go bit by bit.
KOLO_FN u64 div_up(u64 value, u32 by) {
  value += by - 1;
  if (value >> 32 == 0) {
    return (u32)value / by;
  }
  u64 quotient = 0, rest = 0;
  for (i32 bit = 63; bit >= 0; bit--) {
    rest = rest << 1 | (value >> bit & 1);
    quotient = quotient << 1 | (rest >= by);
    rest -= rest >= by ? by : 0;
  }
  return quotient;
}

// The remainder that is not negative, of a value of at most 32 bits and its sign. Nearly every
// value is less than `by` away from it.
KOLO_FN u32 modulo(i64 value, u32 by) {
  value += value < 0 ? (i64)by : value >= (i64)by ? -(i64)by : 0;
  if ((u64)value < by) {
    return (u32)value;
  }
  u32 rest = (u32)(value < 0 ? -value : value) % by;
  return value < 0 && rest ? by - rest : rest;
}

// The least power of two that `slices` chunks of a slice are: the host makes no other numbers.
KOLO_FN u64 shift_of(u32 slices) {
  u64 shift = 0;
  while (slices >> (shift + 1)) {
    shift++;
  }
  return shift;
}

KOLO_FN Round round_of(const Window& w, u64 round) {
  u64 shift = shift_of(w.slices);
  if (w.layout != LAYOUT_SPLIT) {
    u64 start = at_most(w.low + round * w.chunk_count, w.high);
    return {start, at_most(w.chunk_count, w.high - start), shift};
  }
  u64 whole = w.chunk_count * w.chunks;
  u64 start = w.low + round * whole;
  u64 rest = w.high > start ? w.high - start : 0;
  u64 length = w.chunk_count;
  if (rest < whole) {
    length = at_most(round_up(div_up(rest, w.chunks), CHUNK_ELEMENTS), length);
  }
  return {start, length, shift};
}

// Start and length of a chunk.
KOLO_FN Region chunk_region(const Window& w, const Round& round, bool of_input, u32 chunk) {
  if (w.layout == LAYOUT_SPLIT) {
    u64 start = at_most(round.start + round.length * chunk, w.high);
    return {start, at_most(round.length, w.high - start)};
  }
  u32 blocks = w.blocks[of_input ? 0 : 1];
  u32 block = blocks > 1 ? modulo(chunk, blocks) : 0;
  return {block * w.block_stride + round.start, round.length};
}

// Where a slice of a chunk lies.
KOLO_FN Region slice_region(const Window& w, const Round& round, bool of_input, u32 chunk,
                            u32 slice) {
  Region whole = chunk_region(w, round, of_input, chunk);
  u64 share = round_up(whole.count, SLICE_ELEMENTS << round.shift) >> round.shift;
  u64 per_slice = at_most(at_least(share, w.slice_count / 32), w.slice_count);
  u64 first = at_most(per_slice * slice, whole.count);
  return {whole.offset + first, at_most(per_slice, whole.count - first)};
}

// Elements from one chunk of scratch to the next.
KOLO_FN u64 scratch_stride(const Window& w) {
  u64 data = w.high - w.low, chunks = w.layout == LAYOUT_SPLIT && w.chunks ? w.chunks : 1;
  u64 largest = w.chunk_count;
  if (data < largest * chunks) {
    largest = at_most(div_up(data, (u32)chunks), largest);
  }
  return round_up(largest, CHUNK_ELEMENTS);
}

// Where a slice of a chunk lies that was put into chunk `place` of scratch memory, whose chunks
// are `stride` elements apart.
KOLO_FN Region scratch_region(const Window& w, const Round& round, u64 stride, u32 place, u32 chunk,
                              u32 slice) {
  u64 start = chunk_region(w, round, false, chunk).offset;
  Region part = slice_region(w, round, false, chunk, slice);
  return {place * stride + part.offset - start, part.count};
}

// The chunk of repetition or piece `number` of a step: see src/plan/step.rs.
KOLO_FN u32 chunk_of(const Step& step, u32 number, u32 chunks) {
  u32 modulus = chunks ? chunks : 1;
  if (!(step.flags & PACKED)) {
    return modulo((i64)step.chunk + (i64)number * step.stride, modulus);
  }
  u32 length = step.chunks ? step.chunks : 1;
  u32 run = number / length, within = number % length;
  return modulo((i64)step.chunk + (i64)run * step.stride + within, modulus);
}
