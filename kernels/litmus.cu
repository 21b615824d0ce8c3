// Litmus kernels: what the protocols take for granted of a device and its paths, tried in the open.
// They are no part of kolo's calls; ../docs/gpu.md says which program runs them.
//
// A trial has two sides: side 0 stores, side 1 looks. They are blocks of one grid, or two grids, of
// one process or of two, with a mapping of the memory each. Every wait gives up after `patience`
// looks, so a path that does not work is seen, and does not hang.

#include "device.h"

// The words of every trial.
struct Trial {
  u64 place;     // the memory that is tried, as this side's mapping has it
  u64 ready;     // side 1 has begun: a word, as this side's mapping has it
  u64 result;    // where this side writes what it has seen: words
  u64 side;      // of the first block
  u64 rounds;
  u64 patience;  // looks in vain
  u64 how;       // of `kolo_litmus_lines`
};

enum How : u64 { VECTORS, LINES, LINES_128, LINES_128_BY_VECTORS };

// A number in both halves of a word.
static KOLO_FN u64 twice(u64 number) { return number << 32 | number; }

static KOLO_FN void put(u64 how, u64 mine, u64 number) {
  u64 both = twice(number);
  u32 n = (u32)number;
  switch (how) {
    case LINES:
      dev::store_line((void*)mine, {n, n, n, n});
      break;
    case LINES_128:
      dev::store_line128((void*)mine, {both, both});
      break;
    default:
      dev::store16((void*)mine, {both, both});
  }
}

static KOLO_FN Vector look(u64 how, u64 mine) {
  if (how == VECTORS) {
    // What a first-level cache keeps goes by the fence.
    dev::fence();
    return dev::load16((const void*)mine);
  }
  if (how == LINES) {
    Line line = dev::load_line((const void*)mine);
    return {(u64)line.flag_low << 32 | line.data_low, (u64)line.flag_high << 32 | line.data_high};
  }
  return dev::load_line128((const void*)mine);
}

// Until a word is `number`. False: patience is over.
static KOLO_FN bool await(u64 word, u64 number, u64 patience) {
  for (u64 looks = 0; looks < patience; looks++) {
    if (dev::load_acquire((const u64*)word) == number) {
      return true;
    }
    dev::spin();
  }
  return false;
}

// What a thread of side 1 has seen of the lines: where each count is in its part of `result`.
struct Seen {
  u64 torn;     // 16 bytes, or a line of 128, that held two numbers
  u64 broken;   // words of 8 bytes that did
  u64 changes;  // numbers that were seen
  u64 whole;    // the last number was seen
};

// Side 0 stores the numbers 1 to `rounds` to all words of 512 bytes, one after the other; side 1
// looks, and counts what came in parts. Blocks of 32 threads.
KOLO_KERNEL(kolo_litmus_lines, Trial, trial) {
  u64 thread = dev::thread();
  u64 mine = trial.place + 16 * thread;
  if (trial.side + dev::block() == 0) {
    bool is_ready = dev::all_of_warp(await(trial.ready, 1, trial.patience));
    for (u64 i = 1; i <= trial.rounds && is_ready; i++) {
      put(trial.how, mine, i);
    }
    return;
  }
  if (thread == 0) {
    dev::store_release((u64*)trial.ready, 1);
  }
  Seen seen = {0, 0, 0, 0};
  u64 last = 0;
  for (u64 vain = 0; vain < trial.patience && !seen.whole;) {
    Vector now = look(trial.how, mine);
    // The words of a line of 128 bytes are compared with those of its first thread.
    u64 first = trial.how < LINES_128 ? now.low : dev::from_thread(now.low, thread / 8 * 8);
    seen.torn += now.low != first || now.high != first;
    seen.broken += twice((u32)now.low) != now.low || twice((u32)now.high) != now.high;
    bool is_new = now.low != last || now.high != last;
    seen.changes += is_new;
    last = now.low;
    vain = dev::any_of_warp(is_new) ? 0 : vain + 1;
    bool is_last = now.low == twice(trial.rounds) && now.high == now.low;
    seen.whole = dev::all_of_warp(is_last);
    if (vain) {
      dev::spin();
    }
  }
  u64 result = trial.result + sizeof(Seen) * thread;
  dev::store8((u64*)result, seen.torn);
  dev::store8((u64*)(result + 8), seen.broken);
  dev::store8((u64*)(result + 16), seen.changes);
  dev::store8((u64*)(result + 24), seen.whole);
}

// A message and its answer lie behind each other: a count in a line of its own, then the words of
// the threads.
static KOLO_FN u64 message_at(u64 place, u64 side) { return place + side * (128 + 8 * 1024); }
// What side `side` writes in round `round`.
static KOLO_FN u64 word_of(u64 side, u64 round, u64 thread) {
  return (side + 1) << 48 | round << 16 | thread;
}

// Both sides answer each other, round by round: words of all threads, then one release. Each side
// writes how many words were wrong, and how many rounds it has done, for each thread.
KOLO_KERNEL(kolo_litmus_answer, Trial, trial) {
  u64 thread = dev::thread(), side = trial.side + dev::block();
  u64 mine = message_at(trial.place, side), theirs = message_at(trial.place, 1 - side);
  KOLO_SHARED(u64, is_there);
  u64 wrong = 0, round = 1;
  for (; round <= trial.rounds; round++) {
    for (u64 turn = 0; turn < 2; turn++) {
      if (turn == side) {
        dev::store8((u64*)(mine + 128 + 8 * thread), word_of(side, round, thread));
        dev::block_sync();
        if (thread == 0) {
          dev::store_release((u64*)mine, round);
        }
      } else {
        if (thread == 0) {
          is_there = await(theirs, round, trial.patience);
        }
        dev::block_sync();
        if (!is_there) {
          goto over;
        }
        u64 word = dev::load8((const u64*)(theirs + 128 + 8 * thread));
        wrong += word != word_of(1 - side, round, thread);
      }
    }
    // Nobody sets the shared word anew while others still read it.
    dev::block_sync();
  }
over:
  u64 result = trial.result + 16 * (side * dev::threads() + thread);
  dev::store8((u64*)result, wrong);
  dev::store8((u64*)(result + 8), round - 1);
}

// Each block of each grid says that it is there, and counts which of all `rounds` blocks are;
// `side` is the number of the grid's first block. They are all there only if they run at once.
KOLO_KERNEL(kolo_litmus_meet, Trial, trial) {
  if (dev::thread() == 0) {
    u64 me = trial.side + dev::block();
    dev::store_release((u64*)(trial.place + 8 * me), 1);
    u64 met = 0;
    while (met < trial.rounds && await(trial.place + 8 * met, 1, trial.patience)) {
      met++;
    }
    dev::store8((u64*)(trial.result + 8 * me), met);
  }
  dev::block_sync();
}
