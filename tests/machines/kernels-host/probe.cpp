// Single functions of the kernels, for tests that compare them with the host's.

#include "frame.h"
#include "window.h"

extern "C" {

u64 kolo_probe_layout_hash() { return layout_hash(); }

u32 kolo_probe_chunk(const Step* step, u32 number, u32 chunks) {
  return chunk_of(*step, number, chunks);
}

u32 kolo_probe_modulo(i64 value, u32 by) { return modulo(value, by); }

// `place` is a chunk of scratch memory, or -1 for input and -2 for output.
void kolo_probe_region(const Window* window, i64 place, u32 chunk, u64 round, u32 slice,
                       Region* to) {
  Round at = round_of(*window, round);
  u64 stride = scratch_stride(*window);
  *to = place < 0 ? slice_region(*window, at, place == -1, chunk, slice)
                  : scratch_region(*window, at, stride, (u32)place, chunk, slice);
}

u64 kolo_probe_scratch_stride(const Window* window) { return scratch_stride(*window); }

}  // extern "C"

namespace {

template <class E, class Op>
void fold_words(Frame& frame, const u64* srcs, u64 words, u64* to) {
  for (u64 w = 0; w < words; w++) {
    to[w] = fold_word<E, Op>(
        frame, [&](u32 s) { return srcs[s * words + w]; }, [](u32, u64 word) { return word; });
  }
}

struct Probe {
  const char* name;
  void (*fold)(Frame&, const u64*, u64, u64*);
};

#define KOLO_EACH(type, op) {#type "_" #op, fold_words<type, op>},
const Probe PROBES[] = {
#include "kernels.def"
};

}  // namespace

extern "C" {

// The name of a type and operation, "Float_Sum"; null behind the last one.
const char* kolo_probe_name(u32 index) {
  return index < sizeof PROBES / sizeof *PROBES ? PROBES[index].name : nullptr;
}

// Folds `words` words of `count` sources, one behind the other; `scaled`, `scalar` and `divisor` as
// in a frame.
void kolo_probe_fold(u32 index, const u64* srcs, u32 count, u64 words, u64* to, u64 scaled,
                     u64 scalar, u32 divisor) {
  Frame frame = {};
  frame.kind = is_copy(count, scaled, divisor) ? FRAME_COPY : FRAME_FOLD;
  frame.srcs = count;
  frame.scaled = scaled;
  frame.scalar = scalar;
  frame.divisor = divisor;
  PROBES[index].fold(frame, srcs, words, to);
}

}  // extern "C"
