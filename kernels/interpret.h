// The interpreter: one block's way through a launch. The first warp leads (leader.h), the others
// work off its frames by a protocol (simple.h, ll.h, ll128.h).
#pragma once

#include "begin.h"
#include "leader.h"
#include "ll.h"
#include "ll128.h"
#include "simple.h"

// Frames, one after the other, until the last one. A worker goes on only when all have finished the
// frame before: a later step may read what an earlier one wrote.
template <class Protocol, class E, class Op>
KOLO_FN void work_off(Shared& shared) {
  Worker worker = {dev::thread() - dev::WARP, dev::threads() - dev::WARP, &shared.abandoned};
  for (u32 number = 0;; number++) {
    dev::barrier_wait(FRAME_BARRIER + (number & 1), dev::threads());
    const Frame& frame = shared.frames[number & 1];
    if (frame.kind == FRAME_STOP) {
      return;
    }
    Protocol::template work<E, Op>(frame, worker);
    dev::warp_sync();
    if (worker.index % dev::WARP == 0) {
      dev::shared_add_release(&shared.done, 1);
    }
  }
}

template <class Protocol, class E, class Op>
KOLO_FN void interpret(const Launch& launch, Shared& shared) {
  Image image = fetch_image(launch, shared.image);
  if (dev::thread() == 0) {
    shared.done = 0;
    shared.abandoned = 0;
    shared.must_wipe = 0;
  }
  for (u32 place = dev::thread(); place < KEPT_ENDS; place += dev::threads()) {
    shared.kept.numbers[place] = NO_END;
  }
  dev::block_sync();
  Leader<Protocol, E::BYTES> leader(launch, shared, image);
  u32 mine = leader.lanes_of_block();
  for (u32 slot = dev::thread(); slot < mine; slot += dev::threads()) {
    u32 lane = dev::block() + slot * dev::blocks();
    LaneState begin = {};
    begin.ended = image.entry<LaneEntry>(leader.header.lanes, lane).count == 0;
    Window window = image.get<Window>(launch.windows + (u64)lane * sizeof(Window));
    begin.round = round_of(window, 0);
    begin.scratch_stride = scratch_stride(window);
    shared.lanes[slot] = begin;
  }
  give_places(image, leader.header, shared);
  dev::block_sync();
  keep_ends<Protocol>(launch, image, leader.header, shared);
  dev::block_sync();
  if (!wipe_lines<Protocol>(launch, image, leader.header, shared)) {
    return;
  }
  if (dev::thread() < dev::WARP) {
    leader.run();
  } else {
    work_off<Protocol, E, Op>(shared);
  }
}
