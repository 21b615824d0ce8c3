// What a block does before its lanes begin, for the ends of connections that these lanes use.
#pragma once

#include "image.h"
#include "leader.h"
#include "window.h"

// The entry of a connection that a lane of this block uses.
KOLO_FN bool is_of_block(const ConnectionEntry& entry) {
  return entry.lane != NO_LANE && entry.lane % dev::blocks() == dev::block();
}

// Ends begin a slice where it fits the slots: a launch before may have had slices of another size.
// Both ends of a connection come to the same.
KOLO_FN void align_connections(const Launch& launch, const Image& image,
                               const ProgramHeader& header) {
  for (u32 c = dev::thread(); c < header.connections.count; c += dev::threads()) {
    ConnectionEntry entry = image.entry<ConnectionEntry>(header.connections, c);
    if (!is_of_block(entry)) {
      continue;
    }
    Connection* end = end_at(launch, c);
    u64 position = dev::load8(&end->position);
    u64 aligned = round_up(position, launch.slice_slots);
    if (aligned != position) {
      dev::store8(&end->position, aligned);
      // A writer that wipes its lines waits until all slots are emptied, those left out as well.
      if (entry.direction == DIRECTION_RECV) {
        dev::store_release((u64*)dev::load8(&end->head), aligned);
      }
    }
  }
}

// Waits, as one thread, until a reader has taken everything. False: the launch is aborted.
KOLO_FN bool await_reader(const Launch& launch, const Connection* end, u64 position) {
  const u64* head = (const u64*)dev::load8(&end->head);
  for (u32 looks = 1; dev::load_acquire(head) != position; looks++) {
    if (looks % ABORT_EVERY == 0 && dev::load_relaxed4((const u32*)launch.abort)) {
      return false;
    }
    dev::spin();
  }
  return true;
}

// Wipes the lines of connections that have passed a multiple of WIPE_EVERY slots, before any flag
// comes again. It is done between launches, because only there nobody waits for a token that must
// come before the reader is through. All threads of the block call it. False: the launch is
// aborted.
template <class Protocol>
KOLO_FN bool wipe_lines(const Launch& launch, const Image& image, const ProgramHeader& header,
                        Shared& shared) {
  if constexpr (Protocol::WIPE_EVERY != 0) {
    for (u32 c = 0; c < header.connections.count; c++) {
      ConnectionEntry entry = image.entry<ConnectionEntry>(header.connections, c);
      if (!is_of_block(entry) || entry.direction == DIRECTION_RECV) {
        continue;
      }
      Connection* end = end_at(launch, c);
      u64 position = dev::load8(&end->position);
      u64 stretch = position / Protocol::WIPE_EVERY;
      if (dev::load8(&end->wiped) == stretch || dev::load4(&end->counted)) {
        continue;
      }
      if (dev::thread() == 0) {
        shared.abandoned = !await_reader(launch, end, position);
      }
      dev::block_sync();
      if (shared.abandoned) {
        return false;
      }
      u64 area = dev::load8(&end->area);
      u64 bytes = (u64)SLOTS * dev::load4(&end->slot_bytes);
      for (u64 at = 16 * dev::thread(); at < bytes; at += 16 * dev::threads()) {
        dev::store16((void*)(area + at), {0, 0});
      }
      dev::block_sync();
      if (dev::thread() == 0) {
        dev::store8(&end->wiped, stretch);
      }
    }
    // Lanes move the positions that slower threads still look at.
    dev::block_sync();
  }
  return true;
}
