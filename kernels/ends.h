// Ends of connections, as a block keeps them in its shared memory: what a frame needs of an end is
// fetched from device memory once in a launch.
#pragma once

#include "device.h"
#include "plan.h"

// Places for ends in shared memory: end c has place c % KEPT_ENDS, unless another end has it.
constexpr u32 KEPT_ENDS = 64;
constexpr u32 NO_END = ~0u;

// An end as its leader sees it.
struct KeptEnd {
  Connection end;
  Connection* there;  // in device memory, where its position is written as well
  u64 seen;           // what the other side has counted at least
};

struct KeptEnds {
  KeptEnd ends[KEPT_ENDS];
  KeptEnd spare[dev::WARP];  // for an end without a place, one for each thread that looks at ends
  u32 numbers[KEPT_ENDS];    // which end a place keeps
};

// An end of a connection, by its number in the program.
KOLO_FN Connection* end_at(const Launch& launch, u32 index) {
  return (Connection*)dev::load8((const void*)(launch.connections + 8ull * index));
}

// An end as it lies in device memory. Counts begin at 0 and only grow.
KOLO_FN KeptEnd fetch_end(const Launch& launch, u32 index) {
  Connection* there = end_at(launch, index);
  Vector counts = dev::load16(&there->tail), places = dev::load16(&there->area);
  Vector state = dev::load16(&there->position);
  u64 sizes = dev::load8(&there->slot_bytes);
  KeptEnd kept = {{}, there, 0};
  kept.end.tail = counts.low;
  kept.end.head = counts.high;
  kept.end.area = places.low;
  kept.end.sizes = places.high;
  kept.end.position = state.low;
  kept.end.wiped = state.high;
  kept.end.slot_bytes = (u32)sizes;
  kept.end.counted = (u32)(sizes >> 32);
  return kept;
}
