// The leader of a block: its first warp. It walks the lanes of the block step by step, waits for
// tokens and credits, hands frames to the workers, and raises the counts of what they have
// finished.
//
// The state of a lane is {round, step, repetition, slice, piece}: a lane that must wait is left
// for the next one, so a block passes any number of lanes and none of them can hold up another.
// Two frames are on their way at once: while the workers fold one, the leader waits for what the
// next one needs.
#pragma once

#include "ends.h"
#include "frame.h"
#include "image.h"
#include "window.h"

struct LaneState {
  u64 number;  // of the round
  Round round;
  u64 scratch_stride;
  u64 offset;  // bytes that the pieces so far take in a slot
  u32 step, slice, piece;
  u16 repetition;
  bool begun;  // the token at hand: its sources and credits are there
  bool ended;
};

// What the threads of a block share.
struct alignas(16) Shared {
  u8 image[IMAGE_BYTES];
  Frame frames[2];
  LaneState lanes[MAX_LANES];
  KeptEnds kept;
  Window window;  // of the lane at hand, where the image is too large to be kept
  u32 done;       // frames finished, once for each warp of workers
  u32 abandoned;  // the launch is aborted
  u32 must_wipe;  // an end has lines that must be wiped
};

// Barriers: the first of two, one for each frame.
constexpr u32 FRAME_BARRIER = 1;

template <class Protocol, u32 ELEMENT_BYTES>
struct Leader {
  const Launch& launch;
  Shared& shared;
  Image image;
  const ProgramHeader& header;  // it and the window stay in shared memory, to save registers
  u32 me;            // thread of the warp
  u32 worker_warps;
  u32 issued = 0, settled = 0;  // frames
  u32 idle = 0;
  u32 window_of = ~0u;  // the lane whose window was fetched
  u64 steps = 0;

  KOLO_FN Leader(const Launch& launch, Shared& shared, Image image)
      : launch(launch), shared(shared), image(image), header(*(const ProgramHeader*)shared.image),
        me(dev::thread()), worker_warps(dev::threads() / dev::WARP - 1) {}

  // All lanes of the block, from their beginnings to their ends.
  KOLO_FN void run() {
    u32 mine = lanes_of_block();
    u32 left = 0;
    for (u32 slot = 0; slot < mine; slot++) {
      left += !shared.lanes[slot].ended;
    }
    bool stopped = false;
    while (left && !stopped) {
      bool moved = false;
      for (u32 slot = 0; slot < mine && !stopped; slot++) {
        if (!shared.lanes[slot].ended && pass(slot, mine > 1)) {
          moved = true;
          left -= shared.lanes[slot].ended;
        }
        stopped = shared.abandoned != 0;
      }
      if (!settle() && !moved) {
        stopped = is_aborted(mine);
      }
    }
    while (settled != issued) {
      if (!settle()) {
        is_aborted(1);
      }
    }
    if (me == 0) {
      shared.frames[issued & 1].kind = FRAME_STOP;
      if (launch.steps) {
        u64* counted = (u64*)launch.steps + dev::block();
        dev::store8(counted, dev::load8(counted) + steps);
      }
    }
    announce();
  }

  KOLO_FN u32 lanes_of_block() const {
    u32 lanes = header.lanes.count, block = dev::block();
    return lanes > block ? (lanes - block - 1) / dev::blocks() + 1 : 0;
  }

 private:
  // One step of a lane, with what decides its frames.
  struct At {
    u32 lane;
    const Window& window;
    Step step;
    ListEntry srcs, dsts;
    u32 tokens, pieces;
  };

  KOLO_FN u32 operands(const At& at) const { return at.srcs.count + at.dsts.count; }

  KOLO_FN Operand operand(const At& at, u32 i) const {
    u32 index = i < at.srcs.count ? at.srcs.first + i : at.dsts.first + i - at.srcs.count;
    return image.entry<Operand>(header.operands, index);
  }

  // An end for one look or one frame: where it is kept, or fetched anew where another one has its
  // place.
  KOLO_FN KeptEnd& end_of(Operand o) const {
    u32 place = o.index % KEPT_ENDS;
    if (shared.kept.numbers[place] == o.index) {
      return shared.kept.ends[place];
    }
    shared.kept.spare[me] = fetch_end(launch, o.index);
    return shared.kept.spare[me];
  }

  // Whether tokens of an end say themselves, in their lines, that they are there.
  static KOLO_FN bool has_lines(const Connection& end) {
    return Protocol::HAS_LINES && !end.counted;
  }

  // Slots of the slices of a kept token that come before the one at hand: they are still there.
  KOLO_FN u32 ahead(Operand o, const LaneState& state) const {
    return o.keep ? state.slice * launch.slice_slots : 0;
  }

  KOLO_FN const Window& window(u32 lane) {
    u64 at = launch.windows + (u64)lane * sizeof(Window);
    if (image.fetched) {
      return *(const Window*)(image.fetched + at);
    }
    if (window_of != lane) {
      if (me < sizeof(Window) / 8) {
        ((u64*)&shared.window)[me] = image.get<u64>(at + 8 * me);
      }
      window_of = lane;
      dev::warp_sync();
    }
    return shared.window;
  }

  // Moves a lane on by one frame, if it can.
  KOLO_FN bool pass(u32 slot, bool many_lanes) {
    const LaneState& state = shared.lanes[slot];
    u32 number = dev::block() + slot * dev::blocks();
    LaneEntry lane = image.entry<LaneEntry>(header.lanes, number);
    At at = {number, window(number), {}, {}, {}, 0, 0};
    at.step = image.entry<Step>(header.steps, lane.first + state.step);
    at.srcs = image.entry<ListEntry>(header.lists, at.step.srcs);
    at.dsts = image.entry<ListEntry>(header.lists, at.step.dsts);
    bool packed = at.step.flags & PACKED;
    at.tokens = packed ? 1 : at.step.repeat;
    at.pieces = packed ? (u32)at.step.repeat * at.step.chunks : 1;
    if (!state.begun && !is_ready(at, state, many_lanes)) {
      return false;
    }
    if (!wait_for_room()) {
      return false;
    }
    Piece piece = next_piece(at, state, state.begun ? state.piece : 0);
    Piece following = next_piece(at, state, piece.index + 1);
    u64 offset = state.begun ? state.offset : 0;
    bool is_last = following.index >= at.pieces;
    fill(at, state, {piece, offset, is_last});
    announce();
    // All have read the state.
    dev::warp_sync();
    if (me == 0) {
      LaneState& lane_state = shared.lanes[slot];
      lane_state.begun = !is_last;
      lane_state.offset = offset + Protocol::piece_bytes(piece.count * ELEMENT_BYTES);
      lane_state.piece = following.index;
      if (is_last) {
        advance(at, lane_state, lane.count);
      }
    }
    dev::warp_sync();
    return true;
  }

  // A piece of a token: the elements of one chunk.
  struct Piece {
    u32 index, chunk;
    u64 count;
  };

  // The next piece that is not empty, from `index` on; a token that is empty has one frame.
  KOLO_FN Piece next_piece(const At& at, const LaneState& state, u32 index) const {
    bool is_empty = at.step.op == STEP_TOKEN || at.step.chunks == 0;
    for (; index < at.pieces && !is_empty; index++) {
      u32 number = chunk(at, state, index);
      Region part = slice_region(at.window, state.round, false, number, state.slice);
      if (part.count) {
        return {index, number, part.count};
      }
    }
    return {at.pieces, 0, 0};
  }

  // A piece in a frame.
  struct Part {
    Piece piece;
    u64 offset;    // bytes of the pieces before it in a slot
    bool is_last;  // of its token
  };

  KOLO_FN u32 chunk(const At& at, const LaneState& state, u32 piece) const {
    u32 number = at.step.flags & PACKED ? piece : state.repetition;
    return chunk_of(at.step, number, header.chunks);
  }

  // Whether all tokens and credits of a step are there.
  KOLO_FN bool is_ready(const At& at, const LaneState& state, bool many_lanes) const {
    bool ready = true;
    for (u32 i = me; i < operands(at); i += dev::WARP) {
      Operand o = operand(at, i);
      if (o.space != SPACE_CONNECTION) {
        continue;
      }
      KeptEnd& kept = end_of(o);
      bool is_src = i < at.srcs.count;
      u64 behind = is_src ? ahead(o, state) : 0;
      if (is_src && has_lines(kept.end)) {
        ready &= !many_lanes || has_begun(kept.end, behind);
      } else {
        ready &= is_counted(kept, is_src, behind);
      }
    }
    return dev::all_of_warp(ready);
  }

  // Whether a token that says itself that it is there has begun. The workers wait for its lines.
  // That they will come must be sure where a lane that waits holds up another.
  KOLO_FN bool has_begun(const Connection& end, u64 behind) const {
    if constexpr (Protocol::HAS_LINES) {
      u64 position = end.position + behind;
      return Protocol::is_begun(Protocol::place(end, position, 0), position);
    }
    return true;
  }

  // Whether the other side has filled a slice, or emptied the slots for one. What was seen once is
  // not looked at again. Both kinds of end look by the same instruction, so their waits overlap.
  KOLO_FN bool is_counted(KeptEnd& kept, bool is_src, u64 behind) const {
    u64 wanted = kept.end.position + behind + launch.slice_slots;
    u64 credit = is_src ? 0 : SLOTS;
    if (kept.seen + credit >= wanted) {
      return true;
    }
    u64 seen = dev::load_acquire((const u64*)(is_src ? kept.end.tail : kept.end.head));
    kept.seen = seen;
    return seen + credit >= wanted;
  }

  // Resolves a piece of a step into the next frame.
  KOLO_FN void fill(const At& at, const LaneState& state, const Part& part) {
    Frame& frame = shared.frames[issued & 1];
    u64 count = part.piece.count;
    u64 first = 0;
    bool alike = true;
    u64 scaled = 0;
    for (u32 i = me; i < operands(at); i += dev::WARP) {
      Operand o = operand(at, i);
      bool is_src = i < at.srcs.count;
      u64 place = 0;
      frame.raised[i] = 0;
      frame.in_lines[i] = false;
      if (o.space == SPACE_CONNECTION) {
        place = fill_end(frame, i, is_src, o, part, is_src ? ahead(o, state) : 0);
      } else if (count) {
        place = memory(at, state, o, part.piece.chunk);
      }
      frame.place[i] = place;
      first = i == 0 ? place : first;
      bool is_scaled = is_src && o.space == SPACE_INPUT && launch.pre_scaled &&
                       at.step.flags & PRE_SCALE;
      scaled |= is_scaled ? 1ull << i : 0;
    }
    first = dev::from_thread(first, 0);
    for (u32 i = me; i < operands(at); i += dev::WARP) {
      alike &= (frame.place[i] ^ first) % 16 == 0;
    }
    alike = dev::all_of_warp(alike);
    scaled = launch.pre_scaled ? united(scaled) : 0;
    if (me == 0) {
      u32 divisor = at.step.flags & POST_SCALE ? launch.divisor : 0;
      bool copies = is_copy(at.srcs.count, scaled, divisor);
      frame.kind = count == 0 ? FRAME_TOKEN : copies ? FRAME_COPY : FRAME_FOLD;
      frame.srcs = at.srcs.count;
      frame.dsts = at.dsts.count;
      frame.bytes = count * ELEMENT_BYTES;
      frame.scaled = scaled;
      frame.scalar = launch.scalar;
      frame.divisor = divisor;
      frame.shift = alike ? first % 16 : NO_SHIFT;
    }
  }

  // The masks of all threads of the warp.
  KOLO_FN u64 united(u64 mask) const {
    for (u32 distance = 1; distance < dev::WARP; distance *= 2) {
      mask |= dev::from_thread(mask, me ^ distance);
    }
    return mask;
  }

  // A connection as an operand, `behind` slots behind its position.
  KOLO_FN u64 fill_end(Frame& frame, u32 i, bool is_src, Operand o, const Part& part, u64 behind) {
    KeptEnd& kept = end_of(o);
    const Connection& end = kept.end;
    u64 position = end.position + behind;
    if constexpr (Protocol::HAS_LINES) {
      frame.in_lines[i] = has_lines(end);
      frame.flag[i] = Protocol::flag(position);
      frame.position[i] = position;
    }
    u64 place = has_lines(end) ? Protocol::place(end, position, part.offset)
                               : slot_place(end, position, part.offset);
    if (part.is_last && !(is_src && o.keep)) {
      u64 after = end.position + launch.slice_slots;
      frame.raised[i] = is_src ? end.head : has_lines(end) ? 0 : end.tail;
      frame.count[i] = after;
      if (!is_src && end.sizes) {
        u64 bytes = part.offset + part.piece.count * ELEMENT_BYTES;
        dev::store4((u32*)end.sizes + position % SLOTS, (u32)bytes);
      }
      dev::store8(&kept.there->position, after);
      kept.end.position = after;
    }
    return place;
  }

  // Where an operand of the call's own memory lies.
  KOLO_FN u64 memory(const At& at, const LaneState& state, Operand o, u32 number) const {
    if (o.space == SPACE_SCRATCH) {
      u32 place = modulo((i64)number + o.offset, header.scratch ? header.scratch : 1);
      Region part = scratch_region(at.window, state.round, state.scratch_stride, place, number,
                                   state.slice);
      return launch.scratch + at.lane * launch.scratch_bytes + part.offset * ELEMENT_BYTES;
    }
    bool is_input = o.space == SPACE_INPUT;
    u32 other = modulo((i64)number + o.offset, header.chunks ? header.chunks : 1);
    Region part = slice_region(at.window, state.round, is_input, other, state.slice);
    return (is_input ? launch.input : launch.output) + part.offset * ELEMENT_BYTES;
  }

  KOLO_FN void advance(const At& at, LaneState& state, u32 lane_steps) {
    state.begun = false;
    if (++state.slice < at.window.slices) {
      return;
    }
    state.slice = 0;
    steps++;
    if (++state.repetition < at.tokens) {
      return;
    }
    state.repetition = 0;
    if (++state.step < lane_steps) {
      return;
    }
    state.step = 0;
    state.ended = ++state.number == at.window.rounds;
    state.round = round_of(at.window, state.number);
  }

  // Hands the next frame over.
  KOLO_FN void announce() {
    dev::barrier_arrive(FRAME_BARRIER + (issued & 1), dev::threads());
    issued++;
  }

  // Waits until the frame that the next one replaces is done. False: the launch is aborted.
  KOLO_FN bool wait_for_room() {
    while (issued - settled == 2) {
      if (!settle() && is_aborted(1)) {
        return false;
      }
    }
    return true;
  }

  // Raises the counts of frames that are done. Whether there was one.
  KOLO_FN bool settle() {
    u32 done = 0;
    if (settled != issued) {
      done = me == 0 ? dev::shared_load_acquire(&shared.done) : 0;
      done = (u32)dev::from_thread(done, 0);
      // All threads know now what the first one has acquired.
      dev::warp_sync();
    }
    bool moved = false;
    while (settled != issued && (i32)(done - (settled + 1) * worker_warps) >= 0) {
      const Frame& frame = shared.frames[settled & 1];
      for (u32 i = me; i < frame.srcs + frame.dsts && !shared.abandoned; i += dev::WARP) {
        if (frame.raised[i]) {
          dev::store_release((u64*)frame.raised[i], frame.count[i]);
        }
      }
      dev::warp_sync();
      settled++;
      moved = true;
    }
    return moved;
  }

  // After so many looks in vain: whether the launch is aborted.
  KOLO_FN bool is_aborted(u32 looks) {
    dev::spin();
    idle += looks;
    bool asks = idle >= dev::ABORT_EVERY;
    idle = asks ? 0 : idle;
    if (asks && me == 0 && dev::load_relaxed4((const u32*)launch.abort)) {
      dev::shared_store_release(&shared.abandoned, 1);
    }
    bool aborted = dev::from_thread(shared.abandoned, 0) != 0;
    dev::warp_sync();
    return aborted;
  }
};
