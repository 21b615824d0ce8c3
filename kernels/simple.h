// Simple: payload in slots, and a count of them that says so. The leader has seen every token and
// every credit before it issues a frame; the workers fold 16 bytes a thread, and when all have
// finished, the leader raises the counts.
#pragma once

#include "frame.h"

struct Simple {
  static KOLO_FN u64 place(const Connection& end, u64 position, u64 offset) {
    return slot_place(end, position, offset);
  }

  // Where the next piece of a packed token begins.
  static KOLO_FN u64 piece_bytes(u64 bytes) { return (bytes + 15) / 16 * 16; }

  static constexpr bool HAS_LINES = false;
  static constexpr u64 WIPE_EVERY = 0;

  template <class E, class Op>
  static KOLO_FN void work(const Frame& frame, Worker worker) {
    if (frame.shift == NO_SHIFT) {
      return words<E, Op>(frame, worker, 0, frame.bytes);
    }
    u64 head = (16 - frame.shift) % 16;
    head = head < frame.bytes ? head : frame.bytes;
    u32 vectors = (u32)((frame.bytes - head) / 16);
    words<E, Op>(frame, worker, 0, head);
    constexpr u32 UNROLL = E::BYTES == 1 ? 2 : 4;
    u32 done = vectors / (UNROLL * worker.count) * UNROLL * worker.count;
    for (u32 v = worker.index; v < done; v += UNROLL * worker.count) {
      fold_vectors<E, Op, UNROLL>(frame, head + 16ull * v, 16 * worker.count);
    }
    for (u32 v = done + worker.index; v < vectors; v += worker.count) {
      fold_vectors<E, Op, 1>(frame, head + 16ull * v, 0);
    }
    words<E, Op>(frame, worker, head + 16ull * vectors, frame.bytes);
  }

 private:
  // N vectors of every operand, `stride` bytes apart: all loads of a source come before its folds.
  template <class E, class Op, u32 N>
  static KOLO_FN void fold_vectors(const Frame& frame, u64 offset, u32 stride) {
    Vector loaded[N];
    load<N>(loaded, frame.place[0] + offset, stride);
    if (frame.kind == FRAME_FOLD) {
      typename E::Acc scalar = E::widen(frame.scalar);
      Word<E> sofar[2 * N];
KOLO_UNROLL
      for (u32 n = 0; n < N; n++) {
        sofar[2 * n] = widen<E>(loaded[n].low, Op::SCALES && frame.scaled & 1, scalar);
        sofar[2 * n + 1] = widen<E>(loaded[n].high, Op::SCALES && frame.scaled & 1, scalar);
      }
      for (u32 s = 1; s < frame.srcs; s++) {
        load<N>(loaded, frame.place[s] + offset, stride);
        bool scaled = Op::SCALES && frame.scaled >> s & 1;
KOLO_UNROLL
        for (u32 n = 0; n < N; n++) {
          sofar[2 * n].template combine<Op>(widen<E>(loaded[n].low, scaled, scalar));
          sofar[2 * n + 1].template combine<Op>(widen<E>(loaded[n].high, scaled, scalar));
        }
      }
KOLO_UNROLL
      for (u32 n = 0; n < N; n++) {
        if (Op::SCALES && frame.divisor) {
          sofar[2 * n].divide(frame.divisor);
          sofar[2 * n + 1].divide(frame.divisor);
        }
        loaded[n].low = sofar[2 * n].narrow();
        loaded[n].high = sofar[2 * n + 1].narrow();
      }
    }
    for (u32 d = frame.srcs; d < frame.srcs + frame.dsts; d++) {
KOLO_UNROLL
      for (u32 n = 0; n < N; n++) {
        dev::store16((void*)(frame.place[d] + offset + n * stride), loaded[n]);
      }
    }
  }

  template <u32 N>
  static KOLO_FN void load(Vector (&to)[N], u64 from, u32 stride) {
KOLO_UNROLL
    for (u32 n = 0; n < N; n++) {
      to[n] = dev::load16((const void*)(from + n * stride));
    }
  }

  template <class E>
  static KOLO_FN Word<E> widen(u64 stored, bool scaled, typename E::Acc scalar) {
    Word<E> word = Word<E>::widen(stored);
    if (scaled) {
      word.multiply(scalar);
    }
    return word;
  }

  // What is left at the edges, or lies at addresses that do not fit each other.
  template <class E, class Op>
  static KOLO_FN void words(const Frame& frame, Worker worker, u64 first, u64 end) {
    for (u64 at = first + 8 * worker.index; at < end; at += 8 * worker.count) {
      u64 bytes = end - at < 8 ? end - at : 8;
      u64 word = fold_word<E, Op>(
          frame, [&](u32 s) { return load_word<E::BYTES>(frame.place[s] + at, bytes); });
      for (u32 d = frame.srcs; d < frame.srcs + frame.dsts; d++) {
        store_word<E::BYTES>(frame.place[d] + at, word, bytes);
      }
    }
  }
};
