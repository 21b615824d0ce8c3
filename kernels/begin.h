// What a block does before its lanes begin, for the ends of connections that these lanes use.
#pragma once

#include "image.h"
#include "leader.h"
#include "window.h"

// The entry of a connection that a lane of this block uses.
KOLO_FN bool is_of_block(const ConnectionEntry& entry) {
  return entry.lane != NO_LANE && entry.lane % dev::blocks() == dev::block();
}

// Whether the lines of an end must be wiped before the launch: see `wipe_lines`.
template <class Protocol>
KOLO_FN bool must_wipe(const ConnectionEntry& entry, const Connection& end) {
  if constexpr (Protocol::WIPE_EVERY != 0) {
    return entry.direction != DIRECTION_RECV && !end.counted &&
           end.wiped != end.position / Protocol::WIPE_EVERY;
  }
  return false;
}

// Gives the places of shared memory to ends of this block. All threads of the block call it, and
// `keep_ends` behind the next barrier.
KOLO_FN void give_places(const Image& image, const ProgramHeader& header, Shared& shared) {
  for (u32 c = dev::thread(); c < header.connections.count; c += dev::threads()) {
    if (is_of_block(image.entry<ConnectionEntry>(header.connections, c))) {
      // One of those that want the same place gets it.
      dev::shared_store_release(&shared.kept.numbers[c % KEPT_ENDS], c);
    }
  }
}

// Fetches the ends of this block, and begins a slice where it fits the slots: a launch before may
// have had slices of another size. Both ends of a connection come to the same.
template <class Protocol>
KOLO_FN void keep_ends(const Launch& launch, const Image& image, const ProgramHeader& header,
                       Shared& shared) {
  for (u32 c = dev::thread(); c < header.connections.count; c += dev::threads()) {
    ConnectionEntry entry = image.entry<ConnectionEntry>(header.connections, c);
    if (!is_of_block(entry)) {
      continue;
    }
    KeptEnd kept = fetch_end(launch, c);
    u64 aligned = round_up(kept.end.position, launch.slice_slots);
    if (aligned != kept.end.position) {
      dev::store8(&kept.there->position, aligned);
      // A writer that wipes its lines waits until all slots are emptied, those left out as well.
      if (entry.direction == DIRECTION_RECV) {
        dev::store_release((u64*)kept.end.head, aligned);
      }
      kept.end.position = aligned;
    }
    if (must_wipe<Protocol>(entry, kept.end)) {
      dev::shared_store_release(&shared.must_wipe, 1);
    }
    if (shared.kept.numbers[c % KEPT_ENDS] == c) {
      shared.kept.ends[c % KEPT_ENDS] = kept;
    }
  }
}

// Waits, as one thread, until a reader has taken everything. False: the launch is aborted.
KOLO_FN bool await_reader(const Launch& launch, const Connection* end, u64 position) {
  const u64* head = (const u64*)dev::load8(&end->head);
  for (u32 looks = 1; dev::load_acquire(head) != position; looks++) {
    if (looks % dev::ABORT_EVERY == 0 && dev::load_relaxed4((const u32*)launch.abort)) {
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
    if (!shared.must_wipe) {
      return true;
    }
    for (u32 c = 0; c < header.connections.count; c++) {
      ConnectionEntry entry = image.entry<ConnectionEntry>(header.connections, c);
      if (!is_of_block(entry)) {
        continue;
      }
      Connection* end = end_at(launch, c);
      Connection now = fetch_end(launch, c).end;
      if (!must_wipe<Protocol>(entry, now)) {
        continue;
      }
      if (dev::thread() == 0) {
        shared.abandoned = !await_reader(launch, end, now.position);
      }
      dev::block_sync();
      if (shared.abandoned) {
        return false;
      }
      u64 bytes = (u64)SLOTS * now.slot_bytes;
      for (u64 at = 16 * dev::thread(); at < bytes; at += 16 * dev::threads()) {
        dev::store16((void*)(now.area + at), {0, 0});
      }
      dev::block_sync();
      if (dev::thread() == 0) {
        dev::store8(&end->wiped, now.position / Protocol::WIPE_EVERY);
      }
    }
    // Lanes move positions, and slower threads still look at those of later ends.
    dev::block_sync();
  }
  return true;
}
