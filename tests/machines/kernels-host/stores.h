// Weak memory: stores that have not landed yet, and what memory was before those that have.
//
// A store becomes an entry of its block's buffer. It lands (reaches memory, which is what every
// other block sees) at a moment that the schedule draws, words of 8 bytes by themselves and in any
// order, but for two rules: stores of one thread to one place stay in order, and what comes after a
// release waits for all that the releasing thread knew before it. What a thread knows: its own
// stores, those of its warp before a warp_sync, those of its block before a barrier. It sees these
// at once.
//
// A weak load may give what its place held at any time since the block last acquired something, but
// nothing older than what the block has stored or seen there. So both a late load and a first-level
// cache look (S. Owens, S. Sarkar, P. Sewell, "A Better x86 Memory Model: x86-TSO", TPHOLs 2009,
// has the buffer of stores; J. Kang et al., "A Promising Semantics for Relaxed-Memory Concurrency",
// POPL 2017, doi:10.1145/3009837.3009850, the views of a reader).
#pragma once

#include <vector>

#include "ranges.h"

namespace host {

// Who knows of a store: one thread, 8 neighbours that stored a line, a warp, or the whole block.
class Knower {
 public:
  static Knower fiber(u32 index) { return Knower(FIBER, index); }
  static Knower eight(u32 index) { return Knower(EIGHT, index); }
  static Knower warp(u32 index) { return Knower(WARP, index); }
  static Knower all() { return Knower(ALL, 0); }

  bool is_all() const { return kind == ALL; }
  bool is_fiber() const { return kind == FIBER; }
  bool is_eight() const { return kind == EIGHT; }
  u32 number() const { return index; }

  u32 in_warp() const { return kind == FIBER ? index / 32 : kind == EIGHT ? index / 4 : index; }
  // Whether what `other` knows is known here.
  bool knows(Knower other) const {
    switch (other.kind) {
      case ALL:
        return true;
      case WARP:
        return kind != ALL && in_warp() == other.index;
      case EIGHT:
        return kind == FIBER ? index / 8 == other.index : kind == EIGHT && index == other.index;
      default:
        return kind == FIBER ? index == other.index : kind == EIGHT && index == other.index / 8;
    }
  }

 private:
  enum Kind : u16 { FIBER, EIGHT, WARP, ALL };
  Knower(Kind kind, u32 index) : kind(kind), index(static_cast<u16>(index)) {}
  Kind kind;
  u16 index;
};

constexpr u32 LINE_WORDS = 16;

// A store that has not landed: bytes of a word, or a whole line of 128 bytes.
struct Pending {
  Word at;
  u64 value;
  // Stores of a block are counted; what is older than `after` and known must land before.
  u64 number;
  u64 after;
  Knower knower;
  u8 mask;
  // Of a line: where its words are, plus 1.
  u8 line;
  bool has_landed;

  u64 bytes() const { return line ? 8 * LINE_WORDS : 8; }
  bool meets(const Pending& other) const {
    return at.home < other.at.home + other.bytes() && other.at.home < at.home + bytes();
  }
};

// What words held before they changed.
class History {
 public:
  History() : changes(CHANGES), newest(BUCKETS, 0) {}

  u64 now() const { return time; }
  void add(Word at, u64 old) {
    time++;
    u64& head = newest[at.key % BUCKETS];
    changes[time % CHANGES] = {at.home, old, head};
    head = time;
  }
  // Whether a word may have changed since.
  bool has_newer(Word at, u64 since) const { return newest[at.key % BUCKETS] > since; }
  // What the word held before its change number `pick`, counted from the newest (from 0) or, where
  // there are not so many, before the oldest since then. False: it has not changed.
  bool before(Word at, u64 since, u32 pick, u64& value, u64& when) const {
    bool found = false;
    u64 oldest = time < CHANGES ? 0 : time - CHANGES;
    since = since < oldest ? oldest : since;
    for (u64 t = newest[at.key % BUCKETS]; t > since; t = changes[t % CHANGES].previous) {
      const Change& change = changes[t % CHANGES];
      if (change.home == at.home) {
        found = true;
        value = change.old;
        when = t;
        if (pick-- == 0) {
          break;
        }
      }
    }
    return found;
  }

 private:
  static constexpr u64 CHANGES = 2048, BUCKETS = 1024;
  struct Change {
    u8* home;
    u64 old;
    // The change before it of the same bucket.
    u64 previous;
  };
  std::vector<Change> changes;
  std::vector<u64> newest;
  u64 time = 0;
};

// Of one block.
class Stores {
 public:
  static constexpr u32 MOST = 128, MOST_LINES = 16;

  Stores() { pending.reserve(MOST + MOST_LINES); }
  void begin(u64 now);

  size_t count() const { return pending.size(); }
  const Pending& entry(size_t i) const { return pending[i]; }
  u64 next_number() const { return number; }
  u32 free_lines() const { return MOST_LINES - used_lines; }

  void add(Word at, u64 value, u8 mask, Knower knower, u64 after);
  void add_line(Word at, const u64 (&words)[LINE_WORDS], Knower knower, u64 after);
  // Lets an entry land, and before it what must come before it. How many words of memory changed.
  u32 land(size_t i, History& history);

  // What a thread sees at a place, given what memory (or an older view of it) holds.
  u64 seen(Word at, u64 value, Knower by) const {
    return near[at.key % NEAR] == 0 && used_lines == 0 ? value : laid_over(at, value, by);
  }
  // A weak load may look back to here.
  u64 view(Word at) const {
    u64 since = floor[at.key % FLOORS];
    return since > acquired ? since : acquired;
  }
  void has_seen(Word at, u64 when) {
    u64& since = floor[at.key % FLOORS];
    since = when > since ? when : since;
  }
  void acquire(u64 now) { acquired = now; }

  // Everything that `from` tells of is known to `to` from now on.
  template <class From>
  void tell(From from, Knower to) {
    for (Pending& entry : pending) {
      if (from(entry)) {
        entry.knower = to;
      }
    }
  }

 private:
  static constexpr u64 NEAR = 256, FLOORS = 256;

  u64 laid_over(Word at, u64 value, Knower by) const;
  void land_one(size_t i, History& history);
  void land_word(Word at, u64 value, u8 mask, History& history);

  // By number.
  std::vector<Pending> pending;
  u64 lines[MOST_LINES][LINE_WORDS];
  bool line_used[MOST_LINES];
  u32 used_lines;
  u64 number;
  u64 acquired;
  u64 floor[FLOORS];
  // How many entries there are of words whose key ends so.
  u16 near[NEAR];
  u32 changed;
};

u64 load_word(const u8* home);

}  // namespace host
