// A frame: one slice of one step with all places resolved, from the warp that leads a block to
// the warps that work; and what a word of memory and a list of words are for them.
#pragma once

#include "device.h"
#include "fold.h"
#include "plan.h"

enum FrameKind : u32 {
  FRAME_TOKEN,  // nothing to move
  FRAME_COPY,   // the only source, unchanged, to every destination
  FRAME_FOLD,
  FRAME_STOP,  // the launch ends
};

struct Frame {
  u64 place[MAX_OPERANDS];  // where the payload begins; sources first
  u32 flag[MAX_OPERANDS];   // of lines; LL128 takes `position`
  u64 position[MAX_OPERANDS];
  u8 in_lines[MAX_OPERANDS];  // whether the place is lines of a connection
  u64 count[MAX_OPERANDS];    // what `raised` gets when the frame is done
  u64 raised[MAX_OPERANDS];   // a head or a tail; 0: nothing
  u64 bytes;                  // payload of each operand
  u64 scaled;                 // one bit for each source that is multiplied by the scalar
  u64 scalar;
  u32 kind;
  u32 srcs, dsts;
  u32 divisor;  // 0: none
  u32 shift;    // all places are so many bytes behind a multiple of 16; NO_SHIFT: they differ
};

constexpr u32 NO_SHIFT = 16;

// One source that nothing scales passes unchanged, the bits of a NaN too.
KOLO_FN bool is_copy(u32 srcs, u64 scaled, u32 divisor) { return srcs == 1 && !scaled && !divisor; }

// Payload of a slot whose tokens are counted, from byte `offset` on.
KOLO_FN u64 slot_place(const Connection& end, u64 position, u64 offset) {
  return end.area + position % SLOTS * end.slot_bytes + offset;
}

// The threads that work.
struct Worker {
  u32 index, count;      // threads
  const u32* abandoned;  // in shared memory: not 0 when the launch is aborted
};

// An element at an address that its size divides.
template <u32 BYTES>
KOLO_FN u64 load_element(u64 at) {
  if (BYTES == 8) return dev::load8((const void*)at);
  if (BYTES == 4) return dev::load4((const void*)at);
  if (BYTES == 2) return dev::load2((const void*)at);
  return dev::load1((const void*)at);
}

template <u32 BYTES>
KOLO_FN void store_element(u64 at, u64 value) {
  if (BYTES == 8) return dev::store8((void*)at, value);
  if (BYTES == 4) return dev::store4((void*)at, (u32)value);
  if (BYTES == 2) return dev::store2((void*)at, (u16)value);
  dev::store1((void*)at, (u8)value);
}

// The first `bytes` bytes, at most 8 and whole elements, of a word at any address of elements.
template <u32 BYTES>
KOLO_FN u64 load_word(u64 at, u64 bytes) {
  if (bytes == 8 && at % 8 == 0) {
    return dev::load8((const void*)at);
  }
  u64 word = 0;
  for (u32 k = 0; k < bytes; k += BYTES) {
    word |= load_element<BYTES>(at + k) << (8 * k);
  }
  return word;
}

template <u32 BYTES>
KOLO_FN void store_word(u64 at, u64 word, u64 bytes) {
  if (bytes == 8 && at % 8 == 0) {
    return dev::store8((void*)at, word);
  }
  for (u32 k = 0; k < bytes; k += BYTES) {
    store_element<BYTES>(at + k, word >> (8 * k));
  }
}

// Sources whose words are under way together.
constexpr u32 LOOKS = 8;

// Folds one word of every source, in the order of the list. `look` begins to load that of a source
// by number, `take` gives it from what was loaded, and may wait: not before all of a group have
// begun.
template <class E, class Op, class Look, class Take>
KOLO_FN u64 fold_word(const Frame& frame, Look look, Take take) {
  typename E::Acc scalar = E::widen(frame.scalar);
  Word<E> sofar = {};
  u64 only = 0;
  for (u32 first = 0; first < frame.srcs; first += LOOKS) {
    decltype(look(0)) looked[LOOKS] = {};
KOLO_UNROLL
    for (u32 k = 0; k < LOOKS; k++) {
      if (first + k < frame.srcs) {
        looked[k] = look(first + k);
      }
    }
KOLO_UNROLL
    for (u32 k = 0; k < LOOKS; k++) {
      u32 s = first + k;
      if (s >= frame.srcs) {
        break;
      }
      u64 word = take(s, looked[k]);
      // A token without payload has any number of sources, and waits for all.
      if (frame.kind != FRAME_FOLD) {
        only = s == 0 ? word : only;
        continue;
      }
      Word<E> next = Word<E>::widen(word);
      if (Op::SCALES && frame.scaled >> s & 1) {
        next.multiply(scalar);
      }
      if (s == 0) {
        sofar = next;
      } else {
        sofar.template combine<Op>(next);
      }
    }
  }
  if (frame.kind != FRAME_FOLD) {
    return only;
  }
  if (Op::SCALES && frame.divisor) {
    sofar.divide(frame.divisor);
  }
  return sofar.narrow();
}
