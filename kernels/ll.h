// LL ("low latency"): every 8 bytes of payload travel in a line of 16 with two flags, and each
// thread waits for the flags of its own lines: there is no count to wait for, and no fence.
//
// A flag is the position of the slot, modulo 2^32 - 1, plus 1: never 0. Lines that a shorter
// token left behind keep older flags, so the writer wipes the area at the first launch behind
// each multiple of 2^30 slots (begin.h): no line ever shows a flag that comes again.
#pragma once

#include "frame.h"

struct Ll {
  static constexpr bool HAS_LINES = true;
  static constexpr u64 WIPE_EVERY = ::WIPE_EVERY;

  static KOLO_FN u64 place(const Connection& end, u64 position, u64 offset) {
    return end.area + position % SLOTS * end.slot_bytes + 2 * offset;
  }

  static KOLO_FN u64 piece_bytes(u64 bytes) { return (bytes + 7) / 8 * 8; }

  static KOLO_FN u32 flag(u64 position) { return (u32)(position % 0xffffffffull) + 1; }

  // Whether the writer has begun the token at `place`. What is begun is finished without waiting
  // for anything but other begun tokens.
  static KOLO_FN bool is_begun(u64 place, u64 position) {
    Line line = dev::load_line((const void*)place);
    return line.flag_low == flag(position) && line.flag_high == flag(position);
  }

  template <class E, class Op>
  static KOLO_FN void work(const Frame& frame, Worker worker) {
    // A token without payload is one line.
    u64 words = frame.bytes ? (frame.bytes + 7) / 8 : 1;
    for (u64 w = worker.index; w < words; w += worker.count) {
      u64 rest = frame.bytes - 8 * w;
      u64 bytes = rest < 8 ? rest : 8;
      bool gave_up = false;
      u64 word = fold_word<E, Op>(
          frame, [&](u32 s) { return look(frame, s, w); },
          [&](u32 s, Line line) {
            return frame.in_lines[s] ? await(frame, s, w, line, worker, gave_up)
                                     : load_word<E::BYTES>(frame.place[s] + 8 * w, bytes);
          });
      if (gave_up) {
        return;
      }
      for (u32 d = frame.srcs; d < frame.srcs + frame.dsts; d++) {
        if (frame.in_lines[d]) {
          u32 flag = frame.flag[d];
          dev::store_line((void*)(frame.place[d] + 16 * w),
                          {(u32)word, flag, (u32)(word >> 32), flag});
        } else {
          store_word<E::BYTES>(frame.place[d] + 8 * w, word, bytes);
        }
      }
    }
  }

 private:
  // The line of a source as it is now. Words of memory wait until all lines are under way.
  static KOLO_FN Line look(const Frame& frame, u32 s, u64 w) {
    return frame.in_lines[s] ? dev::load_line((const void*)(frame.place[s] + 16 * w)) : Line{};
  }

  // The payload of a line once it is there. After an abort it may never be: then nothing that
  // follows from it is stored, so that nobody takes it for data.
  static KOLO_FN u64 await(const Frame& frame, u32 s, u64 w, Line line, Worker worker,
                           bool& gave_up) {
    u32 flag = frame.flag[s];
    for (;;) {
      if (line.flag_low == flag && line.flag_high == flag) {
        return (u64)line.data_high << 32 | line.data_low;
      }
      if (gave_up || dev::shared_load_acquire(worker.abandoned)) {
        gave_up = true;
        return 0;
      }
      dev::spin();
      line = dev::load_line((const void*)(frame.place[s] + 16 * w));
    }
  }
};
