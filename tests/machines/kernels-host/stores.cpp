// How stores land, and what a thread sees of those that have not.
#include "stores.h"

#include <algorithm>
#include <cstring>

namespace host {

namespace {

// Bytes of a word by a mask of 8 bits.
u64 spread(u8 mask) {
  u64 bits = 0;
  for (u32 i = 0; i < 8; i++) {
    bits |= mask >> i & 1 ? 0xffull << (8 * i) : 0;
  }
  return bits;
}

u64 merged(u64 under, u64 over, u8 mask) {
  if (mask == 0xff) {
    return over;
  }
  u64 bits = spread(mask);
  return (under & ~bits) | (over & bits);
}

// Another process may look at the same memory, so nothing is written twice or in parts.
void write(u8* home, u64 value, u8 mask) {
  u32 first = static_cast<u32>(__builtin_ctz(mask));
  u8* at = home + first;
  value >>= 8 * first;
  switch (__builtin_popcount(mask)) {
    case 8:
      return __atomic_store_n(reinterpret_cast<u64*>(at), value, __ATOMIC_RELEASE);
    case 4:
      return __atomic_store_n(reinterpret_cast<u32*>(at), static_cast<u32>(value),
                              __ATOMIC_RELEASE);
    case 2:
      return __atomic_store_n(reinterpret_cast<u16*>(at), static_cast<u16>(value),
                              __ATOMIC_RELEASE);
    default:
      return __atomic_store_n(at, static_cast<u8>(value), __ATOMIC_RELEASE);
  }
}

}  // namespace

// The word may begin before a range or end after it, but never leaves its page.
u64 load_word(const u8* home) {
  return __atomic_load_n(reinterpret_cast<const u64*>(home), __ATOMIC_ACQUIRE);
}

void Stores::begin(u64 now) {
  pending.clear();
  std::fill(std::begin(line_used), std::end(line_used), false);
  used_lines = 0;
  number = 1;
  acquired = now;
  std::fill(std::begin(floor), std::end(floor), 0);
  std::fill(std::begin(near), std::end(near), 0);
}

void Stores::add(Word at, u64 value, u8 mask, Knower knower, u64 after) {
  pending.push_back({at, value, number++, after, knower, mask, 0, false});
  near[at.key % NEAR]++;
}

void Stores::add_line(Word at, const u64 (&words)[LINE_WORDS], Knower knower, u64 after) {
  u8 slot = 0;
  while (line_used[slot]) {
    slot++;
  }
  line_used[slot] = true;
  used_lines++;
  memcpy(lines[slot], words, sizeof words);
  pending.push_back({at, 0, number++, after, knower, 0xff, static_cast<u8>(slot + 1), false});
}

u32 Stores::land(size_t i, History& history) {
  changed = 0;
  bool is_alone = pending[i].after <= pending[0].number && !pending[i].line &&
                  used_lines == 0 && near[pending[i].at.key % NEAR] == 1;
  if (is_alone) {
    land_word(pending[i].at, pending[i].value, pending[i].mask, history);
    pending.erase(pending.begin() + static_cast<std::ptrdiff_t>(i));
  } else {
    land_one(i, history);
    auto landed = [](const Pending& entry) { return entry.has_landed; };
    pending.erase(std::remove_if(pending.begin(), pending.end(), landed), pending.end());
  }
  return changed;
}

void Stores::land_one(size_t i, History& history) {
  Pending& entry = pending[i];
  for (size_t j = 0; j < i; j++) {
    const Pending& older = pending[j];
    bool comes_before = older.number < entry.after || older.meets(entry);
    if (!older.has_landed && comes_before && entry.knower.knows(older.knower)) {
      land_one(j, history);
    }
  }
  entry.has_landed = true;
  if (entry.line == 0) {
    return land_word(entry.at, entry.value, entry.mask, history);
  }
  u64 slot = entry.line - 1u;
  for (u64 w = 0; w < LINE_WORDS; w++) {
    Word at = entry.at.next(w);
    // Counted down again at once.
    near[at.key % NEAR]++;
    land_word(at, lines[slot][w], 0xff, history);
  }
  line_used[slot] = false;
  used_lines--;
}

void Stores::land_word(Word at, u64 value, u8 mask, History& history) {
  near[at.key % NEAR]--;
  u64 old = load_word(at.home);
  if (merged(old, value, mask) != old) {
    history.add(at, old);
    changed++;
  }
  // The block never sees again what it has stored over.
  has_seen(at, history.now());
  write(at.home, value, mask);
}

u64 Stores::laid_over(Word at, u64 value, Knower by) const {
  for (const Pending& entry : pending) {
    u64 offset = static_cast<u64>(at.home - entry.at.home);
    if (offset < entry.bytes() && by.knows(entry.knower)) {
      value = entry.line ? lines[entry.line - 1][offset / 8]
                         : merged(value, entry.value, entry.mask);
    }
  }
  return value;
}

}  // namespace host
