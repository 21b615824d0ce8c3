// Simple: payload in slots, and a count of them that says so. The leader has seen every token and
// every credit before it issues a frame; the workers move and fold 16 bytes a load, and when all
// have finished, the leader raises the counts.
//
// A load takes as long as some hundred instructions, and a thread goes on until it needs what it
// has loaded. So each pass of a loop begins with all its loads, eight where that is possible: what
// moves by them is bounded by the memory, not by its distance.
#pragma once

#include "frame.h"

// What one load and one store move: 16 bytes, or the bytes of an element.
template <u32 BYTES>
struct Unit {
  static constexpr u32 WORDS = 1;
  u64 word[WORDS];

  KOLO_FN void load(u64 at) { word[0] = load_element<BYTES>(at); }
  KOLO_FN void store(u64 at) const { store_element<BYTES>(at, word[0]); }
};

template <>
struct Unit<16> {
  static constexpr u32 WORDS = 2;
  u64 word[WORDS];

  KOLO_FN void load(u64 at) {
    Vector loaded = dev::load16((const void*)at);
    word[0] = loaded.low;
    word[1] = loaded.high;
  }
  KOLO_FN void store(u64 at) const { dev::store16((void*)at, {word[0], word[1]}); }
};

// Units of a frame, `count` of them from byte `first` on. A warp takes N times 32 that lie
// together: so a thread knows the distances of its N units, and keeps no address for each.
template <u32 BYTES, u32 N>
struct Units {
  u64 first, count;
  u64 index;  // the first one of this thread in the pass at hand
  u32 left;   // from it on, at most those of a warp

  KOLO_FN Units(u64 first, u64 count, Worker worker)
      : first(first), count(count),
        index(worker.index / dev::WARP * (N * dev::WARP) + worker.index % dev::WARP) {
    look();
  }
  KOLO_FN void next(Worker worker) {
    index += N * worker.count;
    look();
  }
  KOLO_FN bool has(u32 n) const { return n * dev::WARP < left; }
  // The place of unit n, behind `from`.
  KOLO_FN u64 at(u64 from, u32 n) const {
    return from + first + index * BYTES + n * (dev::WARP * BYTES);
  }

 private:
  KOLO_FN void look() {
    u64 behind = index < count ? count - index : 0;
    left = behind < N * dev::WARP ? (u32)behind : N * dev::WARP;
  }
};

struct Simple {
  static KOLO_FN u64 place(const Connection& end, u64 position, u64 offset) {
    return slot_place(end, position, offset);
  }

  // Where the next piece of a packed token begins.
  static KOLO_FN u64 piece_bytes(u64 bytes) { return (bytes + 15) / 16 * 16; }

  static constexpr bool HAS_LINES = false;
  static constexpr u64 WIPE_EVERY = 0;

  // Units of 16 bytes, or narrower ones where the places do not fit each other; then what is left
  // at the edges, by elements.
  template <class E, class Op>
  static KOLO_FN void work(const Frame& frame, Worker worker) {
    bool moves = frame.kind == FRAME_COPY;
    u32 width = frame.shift != NO_SHIFT ? 16 : moves ? common_width(frame) : 0;
    u64 head = frame.bytes, middle = 0;
    if (width > E::BYTES) {
      // By masks, as widths are powers of two: a frame takes no division.
      head = (0 - frame.place[0]) & (width - 1);
      head = head < frame.bytes ? head : frame.bytes;
      middle = (frame.bytes - head) & ~(u64)(width - 1);
    }
    if (moves && width == 16) {
      move<16>(frame, head, middle, worker);
    } else if (moves && width == 8) {
      move<8>(frame, head, middle, worker);
    } else if (moves && width == 4) {
      move<4>(frame, head, middle, worker);
    } else {
      fold<E, Op, 16>(frame, head, middle, worker);
    }
    for (u32 edge = 0; edge < 2; edge++) {
      u64 first = edge ? head + middle : 0, bytes = edge ? frame.bytes - first : head;
      if (moves) {
        move<E::BYTES>(frame, first, bytes, worker);
      } else {
        fold<E, Op, E::BYTES>(frame, first, bytes, worker);
      }
    }
  }

 private:
  // Loads of a pass.
  static constexpr u32 LOADS = 8;

  // The widest unit, up to 8 bytes, in which all places of a move lie alike.
  static KOLO_FN u32 common_width(const Frame& frame) {
    u64 differ = 8;
    for (u32 d = frame.srcs; d < frame.srcs + frame.dsts; d++) {
      differ |= frame.place[d] ^ frame.place[0];
    }
    return differ % 8 == 0 ? 8 : differ % 4 == 0 ? 4 : 1;
  }

  // The only source, to every destination.
  template <u32 BYTES>
  static KOLO_FN void move(const Frame& frame, u64 first, u64 bytes, Worker worker) {
    Units<BYTES, LOADS> units(first, bytes / BYTES, worker);
    for (; units.has(0); units.next(worker)) {
      Unit<BYTES> loaded[LOADS];
      load(loaded, frame.place[0], units);
      store(loaded, frame, units);
    }
  }

  template <class E, class Op, u32 BYTES>
  static KOLO_FN void fold(const Frame& frame, u64 first, u64 bytes, Worker worker) {
    if (frame.srcs == 2 && !frame.scaled && !frame.divisor) {
      Units<BYTES, LOADS / 2> units(first, bytes / BYTES, worker);
      for (; units.has(0); units.next(worker)) {
        fold_two<E, Op>(frame, units);
      }
    } else {
      // Bytes become four times as many registers.
      Units<BYTES, E::BYTES == 1 ? 1 : LOADS / SOURCES> units(first, bytes / BYTES, worker);
      for (; units.has(0); units.next(worker)) {
        fold_many<E, Op>(frame, units);
      }
    }
  }

  // The step of a ring: two sources that nothing scales.
  template <class E, class Op, u32 BYTES, u32 N>
  static KOLO_FN void fold_two(const Frame& frame, const Units<BYTES, N>& units) {
    Unit<BYTES> sofar[N], next[N];
    load(sofar, frame.place[0], units);
    load(next, frame.place[1], units);
KOLO_UNROLL
    for (u32 n = 0; n < N; n++) {
KOLO_UNROLL
      for (u32 w = 0; w < Unit<BYTES>::WORDS; w++) {
        Word<E> word = Word<E>::widen(sofar[n].word[w]);
        word.template combine<Op>(Word<E>::widen(next[n].word[w]));
        sofar[n].word[w] = word.narrow();
      }
    }
    store(sofar, frame, units);
  }

  // Any number of sources, some of them together.
  static constexpr u32 SOURCES = 4;

  template <class E, class Op, u32 BYTES, u32 N>
  static KOLO_FN void fold_many(const Frame& frame, const Units<BYTES, N>& units) {
    constexpr u32 WORDS = Unit<BYTES>::WORDS;
    typename E::Acc scalar = E::widen(frame.scalar);
    Word<E> sofar[N * WORDS] = {};
    Unit<BYTES> loaded[SOURCES][N];
    for (u32 first = 0; first < frame.srcs; first += SOURCES) {
KOLO_UNROLL
      for (u32 k = 0; k < SOURCES; k++) {
        if (first + k < frame.srcs) {
          load(loaded[k], frame.place[first + k], units);
        } else {
          clear(loaded[k]);
        }
      }
KOLO_UNROLL
      for (u32 k = 0; k < SOURCES; k++) {
        u32 s = first + k;
        if (s >= frame.srcs) {
          break;
        }
        bool scaled = Op::SCALES && frame.scaled >> s & 1;
KOLO_UNROLL
        for (u32 w = 0; w < N * WORDS; w++) {
          Word<E> next = Word<E>::widen(loaded[k][w / WORDS].word[w % WORDS]);
          if (scaled) {
            next.multiply(scalar);
          }
          if (s == 0) {
            sofar[w] = next;
          } else {
            sofar[w].template combine<Op>(next);
          }
        }
      }
    }
KOLO_UNROLL
    for (u32 w = 0; w < N * WORDS; w++) {
      if (Op::SCALES && frame.divisor) {
        sofar[w].divide(frame.divisor);
      }
      loaded[0][w / WORDS].word[w % WORDS] = sofar[w].narrow();
    }
    store(loaded[0], frame, units);
  }

  // A load under a condition leaves the rest as it was: a compiler would keep registers for it from
  // the kernel's beginning on.
  template <u32 BYTES, u32 N>
  static KOLO_FN void clear(Unit<BYTES> (&units)[N]) {
KOLO_UNROLL
    for (u32 n = 0; n < N; n++) {
      units[n] = {};
    }
  }

  template <u32 BYTES, u32 N>
  static KOLO_FN void load(Unit<BYTES> (&to)[N], u64 from, const Units<BYTES, N>& units) {
    clear(to);
KOLO_UNROLL
    for (u32 n = 0; n < N; n++) {
      if (units.has(n)) {
        to[n].load(units.at(from, n));
      }
    }
  }

  template <u32 BYTES, u32 N>
  static KOLO_FN void store(const Unit<BYTES> (&from)[N], const Frame& frame,
                            const Units<BYTES, N>& units) {
    for (u32 d = frame.srcs; d < frame.srcs + frame.dsts; d++) {
      u64 to = frame.place[d];
KOLO_UNROLL
      for (u32 n = 0; n < N; n++) {
        if (units.has(n)) {
          from[n].store(units.at(to, n));
        }
      }
    }
  }
};
