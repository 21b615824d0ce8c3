// What may be seen in parts: 16 bytes, lines of LL, lines of 128 bytes.
#include "device.h"

// The first block stores a number to all words of a place, again and again; the second block looks.
struct Torn {
  // Where 512 bytes are; how often halves differed, a word's parts differed.
  u64 place, torn, broken, rounds, how;
};

enum How : u64 { VECTORS, LINES, LINES_128, LINES_128_BY_VECTORS };

// A number in both halves of a word.
static KOLO_FN u64 twice(u64 i) { return i << 32 | i; }

static KOLO_FN void put(u64 how, u64 mine, u64 i) {
  u64 both = twice(i);
  switch (how) {
    case LINES:
      dev::store_line((void*)mine, {(u32)i, (u32)i, (u32)i, (u32)i});
      break;
    case LINES_128:
      dev::store_line128((void*)mine, {both, both});
      break;
    default:
      dev::store16((void*)mine, {both, both});
  }
}

static KOLO_FN Vector get(u64 how, u64 mine) {
  if (how == VECTORS) {
    return dev::load16((const void*)mine);
  }
  if (how == LINES) {
    Line line = dev::load_line((const void*)mine);
    return {(u64)line.flag_low << 32 | line.data_low, (u64)line.flag_high << 32 | line.data_high};
  }
  return dev::load_line128((const void*)mine);
}

KOLO_KERNEL(litmus_torn, Torn, torn) {
  u64 thread = dev::thread();
  u64 mine = torn.place + 16 * thread;
  u64 halves = 0, broken = 0;
  for (u64 i = 1; i <= torn.rounds; i++) {
    if (dev::block() == 0) {
      put(torn.how, mine, i);
      continue;
    }
    Vector seen = get(torn.how, mine);
    // A line's words are compared with those of its first thread.
    u64 first = torn.how < LINES_128 ? seen.low : dev::from_thread(seen.low, thread / 8 * 8);
    halves += seen.low != first || seen.high != first;
    broken += twice((u32)seen.low) != seen.low || twice((u32)seen.high) != seen.high;
  }
  if (dev::block() == 1) {
    dev::store8((u64*)(torn.torn + 8 * thread), halves);
    dev::store8((u64*)(torn.broken + 8 * thread), broken);
  }
}

// A line after data, with and without a fence between them: 32 words of data, then 4 lines.
struct After {
  u64 data, lines, seen, has_fence;
};

KOLO_KERNEL(litmus_after, After, after) {
  u64 thread = dev::thread();
  u64* data = (u64*)(after.data + 8 * thread);
  void* line = (void*)(after.lines + 16 * thread);
  if (dev::block() == 0) {
    dev::store8(data, 7);
    if (after.has_fence) dev::fence();
    dev::store_line128(line, {1, 1});
    return;
  }
  while (!dev::all_of_warp(dev::load_line128(line).high == 1)) dev::spin();
  dev::fence();
  dev::store8((u64*)(after.seen + 8 * thread), dev::load8(data));
}
