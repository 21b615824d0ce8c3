// The image of a program and its windows, as a block reads it: from shared memory if it fits there.
#pragma once

#include "device.h"
#include "plan.h"

// Images up to so many bytes are fetched once.
constexpr u32 IMAGE_BYTES = 16384;

struct Image {
  const u8* fetched;  // in shared memory; nullptr: too large
  u64 at;             // in device memory

  // The entry that begins `offset` bytes into the image.
  template <class T>
  KOLO_FN T get(u64 offset) const {
    static_assert(sizeof(T) % 8 == 0, "entries are whole words");
    T entry;
    u64* to = (u64*)&entry;
    const u64* from = (const u64*)(fetched + offset);
KOLO_UNROLL
    for (u32 k = 0; k < sizeof(T) / 8; k++) {
      to[k] = fetched ? from[k] : dev::load8((const void*)(at + offset + 8 * k));
    }
    return entry;
  }

  // Entry `index` of a part.
  template <class T>
  KOLO_FN T entry(Extent part, u32 index) const {
    return get<T>(part.at + (u64)index * sizeof(T));
  }
};

// All threads of the block fetch the image of a launch; of one that is too large, its header.
KOLO_FN Image fetch_image(const Launch& launch, u8* shared) {
  bool fits = launch.bytes <= IMAGE_BYTES;
  u64 words = fits ? (launch.bytes + 7) / 8 : sizeof(ProgramHeader) / 8;
  u64* to = (u64*)shared;
  for (u32 k = dev::thread(); k < words; k += dev::threads()) {
    to[k] = launch.image ? dev::load8((const void*)(launch.image + 8 * k))
                         : ((const u64*)launch.inlined)[k];
  }
  return {fits ? shared : nullptr, launch.image};
}
