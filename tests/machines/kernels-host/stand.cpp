// What is said when a run fails: who, where, and where everybody stands.
#include "state.h"

namespace host {

namespace {

constexpr size_t MOST_BLOCKS = 24;

std::string name(const Grid& grid) {
  return "grid " + std::to_string(grid.id) + " (" + grid.name + ", device " +
         std::to_string(grid.device) + ")";
}

// Threads of a warp that stand alike: "threads 0 to 31", "thread 5".
std::string group(u32 first, u32 last) {
  return first == last ? "thread " + std::to_string(first)
                       : "threads " + std::to_string(first) + " to " + std::to_string(last);
}

std::string stand(const Fiber& fiber) {
  switch (fiber.stand) {
    case Stand::READY:
      return "ready";
    case Stand::SPINNING:
      return "spinning";
    case Stand::AT_BARRIER: {
      const Barrier& barrier = fiber.block->barriers[fiber.barrier];
      return "at barrier " + std::to_string(fiber.barrier) + ", where " +
             std::to_string(barrier.came) + " of " + std::to_string(barrier.count) + " have come";
    }
    case Stand::IN_WARP:
      return "in a call of the warp, where " +
             std::to_string(__builtin_popcount(fiber.warp->came)) + " of 32 have come";
    default:
      return "ended";
  }
}

std::string stands_in(const Block& block) {
  std::string text;
  const std::vector<Fiber>& fibers = block.fibers;
  for (u32 first = 0; first < fibers.size();) {
    u32 end = first + 1;
    while (end < fibers.size() && stand(fibers[end]) == stand(fibers[first])) {
      end++;
    }
    text += (first ? "; " : " ") + group(first, end - 1) + " " + stand(fibers[first]);
    first = end;
  }
  return text;
}

}  // namespace

std::string Machine::place(const Fiber& fiber) const {
  return "thread " + std::to_string(fiber.index) + " of block " +
         std::to_string(fiber.block->index) + " of " + name(*fiber.block->grid);
}

std::string Machine::stands() const {
  std::string text;
  for (size_t b = 0; b < resident.size() && b < MOST_BLOCKS; b++) {
    const Block& block = *resident[b];
    text += "\n  block " + std::to_string(block.index) + " of " + name(*block.grid) + ":" +
            stands_in(block);
  }
  if (resident.size() > MOST_BLOCKS) {
    text += "\n  and " + std::to_string(resident.size() - MOST_BLOCKS) + " more blocks";
  }
  for (const auto& grid : grids) {
    if (grid && grid->begun < grid->blocks) {
      text += "\n  " + name(*grid) + ": " + std::to_string(grid->blocks - grid->begun) +
              " blocks wait until others end (at most " + std::to_string(options.resident_blocks) +
              " are on a device)";
    }
  }
  return text;
}

void Machine::fail_stuck() {
  if (failure.empty()) {
    failure = "nothing goes on, and nothing that was stored has yet to land:" + stands();
  }
}

void Machine::fail_here(const Fiber& fiber, const char* what) {
  failure = place(fiber) + " " + what + stands();
  abandon();
}

}  // namespace host
