// Finding the range of an address, and saying what is wrong with an access.
#include "ranges.h"

#include <algorithm>
#include <cstdio>

namespace host {

namespace {

constexpr size_t MOST_GONE = 64;
constexpr size_t NONE = static_cast<size_t>(-1);

std::string quoted(const Range& range) {
  char text[160];
  snprintf(text, sizeof text, "`%.80s` (0x%llx, %llu bytes)", range.name.c_str(), range.base,
           range.bytes);
  return text;
}

std::string counted(u64 bytes, const char* what) {
  return std::to_string(bytes) + (bytes == 1 ? " byte " : " bytes ") + what;
}

}  // namespace

u32 Ranges::add(Range range) {
  u64 end = range.base + range.bytes;
  bool is_empty = range.bytes == 0 || end < range.base;
  if (is_empty || (range.base - reinterpret_cast<u64>(range.home)) % 16 != 0) {
    return 0;
  }
  size_t before = below(range.base);
  bool meets_before =
      before != NONE && range.base - live[before].base < live[before].bytes;
  size_t next = before == NONE ? 0 : before + 1;
  if (meets_before || (next < live.size() && live[next].base < end)) {
    return 0;
  }
  range.id = ++ids;
  range.first_key = keys;
  keys += range.bytes / 8 + 2;
  u32 id = range.id;
  live.insert(live.begin() + static_cast<std::ptrdiff_t>(next), std::move(range));
  return id;
}

const Range* Ranges::by_id(u32 id) const {
  for (const Range& range : live) {
    if (range.id == id) {
      return &range;
    }
  }
  return nullptr;
}

void Ranges::remove(u32 id) {
  for (size_t i = 0; i < live.size(); i++) {
    if (live[i].id == id) {
      if (gone.size() == MOST_GONE) {
        gone.erase(gone.begin());
      }
      gone.push_back(live[i]);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(i));
      return;
    }
  }
}

void Ranges::allow(u32 id, u32 loads, u32 stores) {
  for (Range& range : live) {
    if (range.id == id) {
      range.loads = loads;
      range.stores = stores;
    }
  }
}

size_t Ranges::below(u64 at) const {
  auto after = std::upper_bound(live.begin(), live.end(), at,
                                [](u64 at, const Range& range) { return at < range.base; });
  return after == live.begin() ? NONE : static_cast<size_t>(after - live.begin()) - 1;
}

const Range* Ranges::search(const Access& access) {
  size_t at = below(access.at);
  if (at == NONE || !is_good(live[at], access)) {
    return nullptr;
  }
  hint = at;
  return &live[at];
}

std::string Ranges::why(const Access& access) const {
  size_t at = below(access.at);
  const Range* lower = at == NONE ? nullptr : &live[at];
  if (lower && access.at - lower->base < lower->bytes) {
    u64 offset = access.at - lower->base;
    std::string place = "at offset " + std::to_string(offset) + " of " + quoted(*lower);
    if (access.at % access.alignment != 0) {
      return place + ", which is not at a multiple of " + std::to_string(access.alignment);
    }
    if (lower->bytes - offset < access.bytes) {
      return place + ", which ends within";
    }
    return place + ", where device " + std::to_string(access.device) + " may not do it";
  }
  for (size_t i = gone.size(); i-- > 0;) {
    u64 offset = access.at - gone[i].base;
    if (offset < gone[i].bytes) {
      return "at offset " + std::to_string(offset) + " of " + quoted(gone[i]) + ", which was freed";
    }
  }
  const Range* upper = at == NONE ? (live.empty() ? nullptr : &live[0])
                       : at + 1 < live.size() ? &live[at + 1]
                                              : nullptr;
  u64 past = lower ? access.at - lower->base - lower->bytes : ~0ull;
  if (upper && upper->base - access.at < past) {
    return counted(upper->base - access.at, "before ") + quoted(*upper);
  }
  return lower ? counted(past, "past the end of ") + quoted(*lower) : "where no memory is";
}

}  // namespace host
