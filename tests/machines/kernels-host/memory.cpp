// Loads and stores of fibers: checked, then through the block's buffer of stores.
#include <cstdio>
#include <cstring>

#include "state.h"

namespace host {

namespace {

// After so many switches without a change, stores land faster, the late ones too.
constexpr u64 LATE_ENOUGH = 64;
constexpr u32 AT_ONCE = 8;
constexpr int GARBAGE = 0xa7;

u64 part(u64 word, u64 at, u32 bytes) {
  word >>= 8 * (at & 7);
  return bytes == 8 ? word : word & ((1ull << (8 * bytes)) - 1);
}

}  // namespace

Word Machine::check(const Fiber& fiber, u64 at, u32 bytes, bool is_store) {
  Access access = {at, bytes, bytes, fiber.block->grid->device, is_store};
  const Range* range = ranges.find(access);
  if (!range) {
    fail_access(fiber, access);
  }
  return Ranges::word(*range, at);
}

void Machine::fail_access(const Fiber& fiber, const Access& access) {
  {
    char text[64];
    snprintf(text, sizeof text, " %s %u bytes at 0x%llx, ", access.is_store ? "stores" : "loads",
             access.bytes, access.at);
    failure = place(fiber) + text + ranges.why(access);
    has_failed_access = true;
  }
  abandon();
}

// ---- loads

u64 Machine::load_here(const Fiber& fiber, Word at, bool is_weak) {
  Stores& stores = fiber.block->stores;
  u64 value = load_word(at.home);
  if (is_weak) {
    u64 view = stores.view(at), when = history.now();
    if (history.has_newer(at, view) && random.one_in(habits.looks_back)) {
      // Mostly as old as can be.
      u32 steps = random.one_in(4) ? random.below(3) : ~0u;
      if (history.before(at, view, steps, value, when)) {
        counts.old_loads++;
        when--;
      }
    }
    stores.has_seen(at, when);
  }
  return stores.seen(at, value, fiber.knower());
}

u64 Machine::load(const void* at, u32 bytes, bool is_weak) {
  counts.loads++;
  u64 address = reinterpret_cast<u64>(at);
  return part(load_here(*running, check(*running, address, bytes, false), is_weak), address, bytes);
}

u64 Machine::load_weak(const void* at, u32 bytes) {
  perhaps_yield();
  return load(at, bytes, true);
}

u64 Machine::load_strong(const void* at, u32 bytes) {
  yield();
  return load(at, bytes, false);
}

Vector Machine::load_halves(const void* at, bool is_weak) {
  u64 address = reinterpret_cast<u64>(at), halves[2];
  u32 first = random.below(2);
  counts.loads++;
  for (u32 i = 0; i < 2; i++) {
    perhaps_yield();
    Word word = check(*running, address, 16, false);
    u32 half = first ^ i;
    halves[half] = load_here(*running, word.next(half), is_weak);
  }
  return {halves[0], halves[1]};
}

// ---- stores

void Machine::store_here(Word at, u64 value, u8 mask, u64 after) {
  Stores& stores = running->block->stores;
  running->stand = Stand::READY;
  make_room(stores);
  stores.add(at, value, mask, running->knower(), after);
  if (!options.is_weak) {
    land(stores, stores.count() - 1);
  }
}

void Machine::store(void* at, u64 value, u32 bytes) {
  perhaps_yield();
  counts.stores++;
  u64 address = reinterpret_cast<u64>(at), shift = address & 7;
  Word word = check(*running, address, bytes, true);
  store_here(word, value << (8 * shift), static_cast<u8>(((1u << bytes) - 1) << shift),
             running->fence);
}

void Machine::store_halves(void* at, Vector value) {
  perhaps_yield();
  counts.stores++;
  Word word = check(*running, reinterpret_cast<u64>(at), 16, true);
  u64 halves[2] = {value.low, value.high};
  u32 first = random.below(2);
  store_here(word.next(first), halves[first], 0xff, running->fence);
  store_here(word.next(1 - first), halves[1 - first], 0xff, running->fence);
}

void Machine::host_store(const Range& range, u64 at, const u8* from, u64 bytes) {
  for (u64 i = 0; i < bytes;) {
    Word word = Ranges::word(range, at + i);
    u8* byte = range.home + (at + i - range.base);
    if (word.home == byte && bytes - i >= 8) {
      u64 old = load_word(byte), value;
      memcpy(&value, from + i, sizeof value);
      if (old != value) {
        history.add(word, old);
        __atomic_store_n(reinterpret_cast<u64*>(byte), value, __ATOMIC_RELEASE);
        quiet = 0;
      }
      i += 8;
      continue;
    }
    if (*byte != from[i]) {
      history.add(word, load_word(word.home));
      __atomic_store_n(byte, from[i], __ATOMIC_RELEASE);
      quiet = 0;
    }
    i++;
  }
}

bool Machine::is_written(const Range& range) const {
  for (const auto& block : resident) {
    for (size_t i = 0; i < block->stores.count(); i++) {
      const Pending& entry = block->stores.entry(i);
      if (entry.at.home < range.home + range.bytes &&
          range.home < entry.at.home + entry.bytes()) {
        return true;
      }
    }
  }
  return false;
}

// ---- orders

void Machine::acquire() { running->block->stores.acquire(history.now()); }

void Machine::store_release(void* at, u64 value) {
  yield();
  counts.stores++;
  Word word = check(*running, reinterpret_cast<u64>(at), 8, true);
  // Only this store waits for the older ones; later ones may still pass them.
  store_here(word, value, 0xff, running->block->stores.next_number());
}

void Machine::fence() {
  yield();
  running->fence = running->block->stores.next_number();
  acquire();
}

void Machine::release_shared(u32* at, u32 value) {
  // The whole block knows at once what only who acquires this word must know.
  Knower mine = running->knower();
  running->block->stores.tell([&](const Pending& entry) { return mine.knows(entry.knower); },
                              Knower::all());
  if (*at != value) {
    *at = value;
    quiet = 0;
  }
}

u32* Machine::shared_word(const u32* at) {
  yield();
  const Block& block = *running->block;
  u64 offset = reinterpret_cast<u64>(at) - reinterpret_cast<u64>(block.shared->bytes);
  if (offset % 4 != 0 || offset >= block.shared_bytes) {
    fail_here(*running, "uses a word that is not one of its shared memory");
  }
  return const_cast<u32*>(at);
}

void* Machine::shared_memory(u64 bytes) {
  Block& block = *running->block;
  if (block.shared_bytes == 0) {
    block.shared_bytes = bytes;
    memset(block.shared->bytes, GARBAGE, bytes);
  } else if (block.shared_bytes != bytes) {
    fail_here(*running, "uses shared memory of another size than the threads before it");
  }
  return block.shared->bytes;
}

// ---- landing

void Machine::land(Stores& stores, size_t i) {
  if (stores.land(i, history) > 0) {
    quiet = 0;
  }
  counts.landed++;
}

void Machine::make_room(Stores& stores) {
  while (stores.count() >= habits.pending) {
    land(stores, random.below(static_cast<u32>(stores.count())));
  }
}

bool Machine::is_late(const Block& block, size_t i) const {
  u64 who = block.stores.entry(i).number ^ block.number << 40;
  return habits.keeps_late != 0 && Random::mix(who) % habits.keeps_late == 0;
}

void Machine::land_some() {
  bool waits = quiet >= LATE_ENOUGH;
  for (u32 i = waits ? AT_ONCE : random.one_in(habits.lands); i > 0 && !resident.empty(); i--) {
    Block& block = *resident[random.below(static_cast<u32>(resident.size()))];
    u32 many = static_cast<u32>(block.stores.count());
    if (many > 0) {
      u32 at = random.below(many);
      if (waits || !is_late(block, at) || random.one_in(64)) {
        land(block.stores, at);
        end_block_if_over(block);
      }
    }
  }
}

// Whether there was anything to land.
bool Machine::land_all() {
  bool landed = false;
  for (size_t b = resident.size(); b-- > 0;) {
    Block& block = *resident[b];
    while (block.stores.count() > 0) {
      land(block.stores, random.below(static_cast<u32>(block.stores.count())));
      landed = true;
    }
    end_block_if_over(block);
  }
  return landed;
}

// ---- lines of 128 bytes, when the whole warp has come

void Machine::check_lines(const Fiber* fibers, bool is_store) {
  for (u32 t = 0; t < WARP_THREADS; t++) {
    check(fibers[t], fibers[t].address, 16, is_store);
    u64 line = fibers[t / 8 * 8].address;
    if (line % 128 != 0 || fibers[t].address != line + 16 * (t % 8)) {
      fail_here(fibers[t], "and its 7 neighbours have no line of 128 bytes together");
    }
  }
}

void Machine::load_lines(Fiber* fibers) {
  check_lines(fibers, false);
  u32 first = random.below(4);
  for (u32 i = 0; i < 4; i++) {
    // Between two lines, but never within one.
    land_some();
    for (u32 t = 0; t < 8; t++) {
      // The flag, in the last word, comes first: who shares the memory stores it last.
      Fiber& fiber = fibers[(first + i) % 4 * 8 + 7 - t];
      Word word = check(fiber, fiber.address, 16, false);
      fiber.data.high = load_here(fiber, word.next(1), false);
      fiber.data.low = load_here(fiber, word, false);
      counts.loads++;
    }
  }
}

void Machine::store_lines(Fiber* fibers) {
  check_lines(fibers, true);
  Stores& stores = fibers->block->stores;
  for (u32 first = 0; first < WARP_THREADS; first += 8) {
    u64 words[LINE_WORDS], after = 0;
    for (u32 t = 0; t < 8; t++) {
      Fiber& fiber = fibers[first + t];
      words[2 * t] = fiber.data.low;
      words[2 * t + 1] = fiber.data.high;
      after = fiber.fence > after ? fiber.fence : after;
    }
    make_room(stores);
    while (stores.free_lines() == 0) {
      land(stores, random.below(static_cast<u32>(stores.count())));
    }
    Word word = check(fibers[first], fibers[first].address, 16, true);
    stores.add_line(word, words, Knower::eight(fibers[first].index / 8), after);
    counts.stores++;
    if (!options.is_weak) {
      land(stores, stores.count() - 1);
    }
  }
}

}  // namespace host
