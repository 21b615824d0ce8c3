// The addresses that kernels may use: where each range lies, which devices may load and store
// there.
#pragma once

#include <string>
#include <vector>

#include "types.h"

namespace host {

struct Range {
  // As kernels see it, and where the bytes are.
  u64 base;
  u64 bytes;
  u8* home;
  // Device d may do it where bit d is set.
  u32 loads;
  u32 stores;
  u32 id;
  // The number of the range's first word of 8 bytes: the same in every run, as addresses are not.
  u64 first_key;
  std::string name;
};

// A word of 8 bytes: where it is, and its number.
struct Word {
  u8* home;
  u64 key;

  Word next(u64 words) const { return {home + 8 * words, key + words}; }
};

struct Access {
  u64 at;
  u32 bytes;
  // What the address must be a multiple of.
  u32 alignment;
  u32 device;
  bool is_store;
};

class Ranges {
 public:
  // The id, from 1; 0 if another range lies there, or `home` does not fit the base.
  u32 add(Range range);
  // The range as it was; null if there is none.
  const Range* by_id(u32 id) const;
  void remove(u32 id);
  void allow(u32 id, u32 loads, u32 stores);

  // The range of an access, or null: then `why` says it.
  const Range* find(const Access& access) {
    if (hint < live.size() && is_good(live[hint], access)) {
      return &live[hint];
    }
    return search(access);
  }
  std::string why(const Access& access) const;

  static Word word(const Range& range, u64 at) {
    u8* home = range.home + (at - range.base);
    u64 low = reinterpret_cast<u64>(home) & 7;
    u64 words = ((at & ~7ull) - (range.base & ~7ull)) / 8;
    return {home - low, range.first_key + words};
  }

 private:
  static bool is_good(const Range& range, const Access& access) {
    u32 devices = access.is_store ? range.stores : range.loads;
    u64 offset = access.at - range.base;
    return offset < range.bytes && range.bytes - offset >= access.bytes &&
           access.at % access.alignment == 0 && (devices >> access.device & 1);
  }
  const Range* search(const Access& access);
  // The last range that begins at or below an address.
  size_t below(u64 at) const;

  // By base.
  std::vector<Range> live;
  // The last ones that were taken away, for what is said of a late access.
  std::vector<Range> gone;
  size_t hint = 0;
  u32 ids = 0;
  u64 keys = 0;
};

}  // namespace host
