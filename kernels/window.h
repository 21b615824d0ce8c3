// Which elements slice s of chunk c of round r is: the only arithmetic that exists twice. A test
// holds it equal to src/plan/window.rs on a million random cases.
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

KOLO_FN u64 at_most(u64 value, u64 most) { return value < most ? value : most; }
KOLO_FN u64 at_least(u64 value, u64 least) { return value > least ? value : least; }
KOLO_FN u64 div_up(u64 value, u64 by) { return (value + by - 1) / by; }
KOLO_FN u64 round_up(u64 value, u64 to) { return div_up(value, to) * to; }

// The remainder that is not negative.
KOLO_FN u32 modulo(i64 value, u32 by) {
  i64 rest = value % (i64)by;
  return (u32)(rest < 0 ? rest + by : rest);
}

// Start and length of a chunk.
KOLO_FN Region chunk_region(const Window& w, bool of_input, u32 chunk, u64 round) {
  if (w.layout == LAYOUT_SPLIT) {
    u64 round_start = w.low + round * w.chunk_count * w.chunks;
    u64 rest = w.high > round_start ? w.high - round_start : 0;
    u64 even = round_up(div_up(rest, w.chunks), CHUNK_ELEMENTS);
    u64 length = at_most(even, w.chunk_count);
    u64 start = at_most(round_start + length * chunk, w.high);
    return {start, at_most(length, w.high - start)};
  }
  u32 inputs = w.blocks[0], outputs = w.blocks[1];
  u32 blocks = of_input ? inputs : outputs;
  u64 block = chunk % (blocks ? blocks : 1);
  u64 start = at_most(w.low + round * w.chunk_count, w.high);
  return {block * w.block_stride + start, at_most(w.chunk_count, w.high - start)};
}

// Where a slice of a chunk lies.
KOLO_FN Region slice_region(const Window& w, bool of_input, u32 chunk, u64 round, u32 slice) {
  Region whole = chunk_region(w, of_input, chunk, round);
  u64 share = div_up(whole.count, SLICE_ELEMENTS * w.slices) * SLICE_ELEMENTS;
  u64 per_slice = at_most(at_least(share, w.slice_count / 32), w.slice_count);
  u64 first = at_most(per_slice * slice, whole.count);
  return {whole.offset + first, at_most(per_slice, whole.count - first)};
}

// Elements from one chunk of scratch to the next.
KOLO_FN u64 scratch_stride(const Window& w) {
  u64 data = w.high - w.low;
  u64 largest = w.layout == LAYOUT_SPLIT ? div_up(data, w.chunks ? w.chunks : 1) : data;
  return round_up(at_most(largest, w.chunk_count), CHUNK_ELEMENTS);
}

// Where a slice of a chunk lies that was put into chunk `place` of the scratch memory.
KOLO_FN Region scratch_region(const Window& w, u32 place, u32 chunk, u64 round, u32 slice) {
  Region whole = chunk_region(w, false, chunk, round);
  Region part = slice_region(w, false, chunk, round, slice);
  return {place * scratch_stride(w) + part.offset - whole.offset, part.count};
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
