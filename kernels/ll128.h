// LL128: lines of 128 bytes, 120 of payload and a flag of 8. Eight neighbouring threads load and
// store a line together, 16 bytes each; the last one has the flag. It is right only where a line
// arrives as one, which no manual promises: a table of architectures and paths allows it, and a
// litmus test may forbid it.
//
// A flag is the position of the slot plus 1, in 64 bits: it never comes again.
#pragma once

#include "frame.h"

struct Ll128 {
  static constexpr bool HAS_LINES = true;
  static constexpr u64 WIPE_EVERY = 0;
  static constexpr u32 LINE_BYTES = 128, LINE_WORDS = 15;
  // Lines that a warp moves at once; tokens are filled up to a multiple of them.
  static constexpr u32 GROUP = 4;

  static KOLO_FN u64 place(const Connection& end, u64 position, u64 offset) {
    return end.area + position % SLOTS * end.slot_bytes + offset / (8 * LINE_WORDS) * LINE_BYTES;
  }

  // Pieces begin a group.
  static KOLO_FN u64 piece_bytes(u64 bytes) {
    u64 group = GROUP * LINE_WORDS * 8;
    return (bytes + group - 1) / group * group;
  }

  static KOLO_FN u32 flag(u64 position) { return (u32)position; }

  static KOLO_FN bool is_begun(u64 place, u64 position) {
    return dev::load_acquire((const u64*)(place + LINE_BYTES - 8)) == position + 1;
  }

  template <class E, class Op>
  static KOLO_FN void work(const Frame& frame, Worker worker) {
    u64 words = (frame.bytes + 7) / 8;
    u64 lines = words ? (words + LINE_WORDS - 1) / LINE_WORDS : 1;
    u32 part = worker.index % 8;
    u64 group = worker.index / dev::WARP;
    for (; group * GROUP < lines; group += worker.count / dev::WARP) {
      u64 line = group * GROUP + worker.index % dev::WARP / 8;
      u64 word = line * LINE_WORDS + 2 * part;
      // The last thread of a line has one word and the flag.
      Two two = {{left(frame.bytes, word), part == 7 ? 0 : left(frame.bytes, word + 1)}};
      u64 at = line * LINE_BYTES + 16 * part;
      bool gave_up = false;
      Vector folded = fold<E, Op>(frame, worker, word, two, at, gave_up);
      if (gave_up) {
        return;
      }
      for (u32 d = frame.srcs; d < frame.srcs + frame.dsts; d++) {
        if (frame.in_lines[d]) {
          Vector out = {folded.low, part == 7 ? frame.position[d] + 1 : folded.high};
          dev::store_line128((void*)(frame.place[d] + at), out);
        } else {
          store_word<E::BYTES>(frame.place[d] + 8 * word, folded.low, two.bytes[0]);
          store_word<E::BYTES>(frame.place[d] + 8 * word + 8, folded.high, two.bytes[1]);
        }
      }
    }
  }

 private:
  // Payload of the two words of a thread, 0 to 8 bytes each.
  struct Two {
    u64 bytes[2];
  };

  static KOLO_FN u64 left(u64 bytes, u64 word) {
    u64 rest = bytes > 8 * word ? bytes - 8 * word : 0;
    return rest < 8 ? rest : 8;
  }

  template <class E, class Op>
  static KOLO_FN Vector fold(const Frame& frame, Worker worker, u64 word, Two two, u64 at,
                             bool& gave_up) {
    Vector sofar = load<E>(frame, worker, 0, word, two, at, gave_up);
    if (frame.kind != FRAME_FOLD) {
      // A token without payload still waits for all its sources.
      for (u32 s = 1; s < frame.srcs; s++) {
        load<E>(frame, worker, s, word, two, at, gave_up);
      }
      return sofar;
    }
    typename E::Acc scalar = E::widen(frame.scalar);
    Word<E> low = Word<E>::widen(sofar.low), high = Word<E>::widen(sofar.high);
    if (Op::SCALES && frame.scaled & 1) {
      low.multiply(scalar);
      high.multiply(scalar);
    }
    for (u32 s = 1; s < frame.srcs; s++) {
      Vector loaded = load<E>(frame, worker, s, word, two, at, gave_up);
      Word<E> next_low = Word<E>::widen(loaded.low), next_high = Word<E>::widen(loaded.high);
      if (Op::SCALES && frame.scaled >> s & 1) {
        next_low.multiply(scalar);
        next_high.multiply(scalar);
      }
      low.template combine<Op>(next_low);
      high.template combine<Op>(next_high);
    }
    if (Op::SCALES && frame.divisor) {
      low.divide(frame.divisor);
      high.divide(frame.divisor);
    }
    return {low.narrow(), high.narrow()};
  }

  template <class E>
  static KOLO_FN Vector load(const Frame& frame, Worker worker, u32 s, u64 word, Two two, u64 at,
                             bool& gave_up) {
    if (s >= frame.srcs) {
      return {0, 0};
    }
    u64 place = frame.place[s];
    if (frame.in_lines[s]) {
      return await(place + at, frame.position[s] + 1, worker, gave_up);
    }
    return {load_word<E::BYTES>(place + 8 * word, two.bytes[0]),
            load_word<E::BYTES>(place + 8 * word + 8, two.bytes[1])};
  }

  // Until all lines of the warp are there; the whole warp calls it, and gives up together after an
  // abort: then it stores nothing that follows.
  static KOLO_FN Vector await(u64 mine, u64 flag, Worker worker, bool& gave_up) {
    for (;;) {
      Vector loaded = dev::load_line128((const void*)mine);
      bool waits = worker.index % 8 == 7 && loaded.high != flag;
      if (!dev::any_of_warp(waits)) {
        return loaded;
      }
      if (dev::any_of_warp(gave_up || dev::shared_load_acquire(worker.abandoned) != 0)) {
        gave_up = true;
        return {0, 0};
      }
      dev::spin();
    }
  }
};
