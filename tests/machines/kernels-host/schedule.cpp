// Who runs next, and the lives of blocks and fibers.
//
// Orders that starve somebody for long, or keep to ranks that rarely change, find mistakes that
// evenly drawn ones do not: S. Burckhardt et al., "A Randomized Scheduler with Probabilistic
// Guarantees of Finding Bugs", ASPLOS 2010, doi:10.1145/1736020.1736040.
#include <algorithm>
#include <cstring>

#include "state.h"

namespace host {

thread_local Machine* current = nullptr;

namespace {

u32 nth_bit(u32 bits, u32 n) {
  while (n-- > 0) {
    bits &= bits - 1;
  }
  return static_cast<u32>(__builtin_ctz(bits));
}

}  // namespace

Habits::Habits(Random& random) {
  order = static_cast<Order>(random.below(4));
  within = static_cast<Within>(random.below(3));
  yields = random.one_of({4, 16, 64, 512});
  lands = random.one_of({1, 4, 32, 256});
  keeps_late = random.one_of({0, 2, 8});
  looks_back = random.one_of({0, 1, 2, 8});
  pending = random.one_of({16, 48, Stores::MOST});
}

Machine::Machine(const Options& options)
    : options(options),
      random(Random::mix(options.seed)),
      habits(random),
      residents(options.devices, 0),
      queues(options.devices) {
  if (!options.is_weak) {
    habits.looks_back = 0;
  }
}

Machine::~Machine() {
  for (auto* blocks : {&resident, &spare}) {
    for (auto& block : *blocks) {
      for (Fiber& fiber : block->fibers) {
        give_stack(fiber.stack);
      }
    }
  }
}

u32 Machine::launch(u32 device, void (*kernel)(const void*), const char* name, u32 blocks,
                    u32 threads, const void* launch, u64 bytes) {
  bool fits = device < options.devices && blocks > 0 && threads > 0 && threads <= MOST_THREADS &&
              threads % WARP_THREADS == 0 && bytes <= 4096;
  if (!fits) {
    failure = "a grid of " + std::to_string(blocks) + " blocks of " + std::to_string(threads) +
              " threads cannot be launched on device " + std::to_string(device);
    return 0;
  }
  auto grid = std::make_unique<Grid>();
  grid->id = static_cast<u32>(grids.size() + 1);
  grid->device = device;
  grid->kernel = kernel;
  grid->name = name;
  grid->launch = std::make_unique<Vector[]>(bytes / sizeof(Vector) + 1);
  memcpy(grid->launch.get(), launch, bytes);
  grid->blocks = blocks;
  grid->threads = threads;
  grid->begun = grid->ended = 0;
  queues[device].push_back(grid.get());
  may_begin = true;
  grids.push_back(std::move(grid));
  return static_cast<u32>(grids.size());
}

bool Machine::is_over(u32 id) const {
  return id > 0 && id <= grids.size() && !grids[id - 1];
}

// ---- blocks and fibers

void Machine::begin_blocks() {
  may_begin = false;
  for (u32 device = 0; device < options.devices; device++) {
    std::vector<Grid*>& queue = queues[device];
    while (!queue.empty() && residents[device] < options.resident_blocks) {
      Grid& grid = *queue[0];
      begin_block(grid);
      if (grid.begun == grid.blocks) {
        queue.erase(queue.begin());
      }
    }
  }
}

void Machine::begin_block(Grid& grid) {
  if (spare.empty()) {
    spare.push_back(std::make_unique<Block>());
    spare.back()->shared = std::make_unique<Shared>();
  }
  resident.push_back(std::move(spare.back()));
  spare.pop_back();
  Block& block = *resident.back();
  residents[grid.device]++;
  counts.blocks++;
  quiet = 0;
  block.grid = &grid;
  block.index = grid.begun++;
  block.number = numbers++;
  block.ended = 0;
  block.shared_bytes = 0;
  block.stores.begin(history.now());
  for (Barrier& barrier : block.barriers) {
    barrier.count = barrier.came = 0;
    barrier.since.assign(grid.threads, 0);
  }
  size_t had = block.fibers.size();
  for (size_t i = grid.threads; i < had; i++) {
    give_stack(block.fibers[i].stack);
  }
  block.fibers.resize(grid.threads);
  for (size_t i = had; i < block.fibers.size(); i++) {
    block.fibers[i].stack = take_stack();
  }
  block.warps.resize(grid.threads / WARP_THREADS);
  for (u32 w = 0; w < block.warps.size(); w++) {
    i64 rank = static_cast<i64>(random.next() >> 16);
    block.warps[w] = {&block, w, numbers++, 0, 0, Call::SYNC, rank, 0};
  }
  for (u32 t = 0; t < grid.threads; t++) {
    Fiber& fiber = block.fibers[t];
    fiber.block = &block;
    fiber.warp = &block.warps[t / WARP_THREADS];
    fiber.index = t;
    fiber.fence = 0;
    prepare(fiber.context, fiber.stack, entry);
    set_ready(fiber);
  }
}

void Machine::entry() {
  Machine& machine = *current;
  Grid& grid = *machine.running->block->grid;
  grid.kernel(grid.launch.get());
  machine.end_fiber();
}

void Machine::end_fiber() {
  Fiber& fiber = *running;
  quiet = 0;
  fiber.block->ended++;
  set_waiting(fiber, Stand::ENDED);
  abandon();
}

// A block is over when all its threads have ended and all its stores have landed.
bool Machine::end_block_if_over(Block& block) {
  if (block.ended < block.fibers.size() || block.stores.count() > 0) {
    return false;
  }
  Grid& grid = *block.grid;
  residents[grid.device]--;
  grid.ended++;
  if (grid.ended == grid.blocks) {
    // A machine may run for long: what is over is forgotten.
    grids[grid.id - 1].reset();
  }
  may_begin = true;
  quiet = 0;
  auto is_it = [&](const std::unique_ptr<Block>& other) { return other.get() == &block; };
  auto at = std::find_if(resident.begin(), resident.end(), is_it);
  spare.push_back(std::move(*at));
  resident.erase(at);
  return true;
}

u32 Machine::live_threads() const {
  u32 threads = 0;
  for (const auto& block : resident) {
    threads += static_cast<u32>(block->fibers.size()) - block->ended;
  }
  return threads;
}

u32 Machine::ready_threads() const {
  u32 threads = 0;
  for (const Warp* warp : active) {
    threads += static_cast<u32>(__builtin_popcount(warp->ready));
  }
  return threads;
}

// ---- who is ready

void Machine::set_ready(Fiber& fiber) {
  Warp& warp = *fiber.warp;
  fiber.stand = Stand::READY;
  if (warp.ready == 0) {
    warp.place = active.size();
    active.push_back(&warp);
  }
  warp.ready |= 1u << fiber.lane();
}

void Machine::set_waiting(Fiber& fiber, Stand stand) {
  Warp& warp = *fiber.warp;
  fiber.stand = stand;
  warp.ready &= ~(1u << fiber.lane());
  if (warp.ready == 0) {
    active.back()->place = warp.place;
    active[warp.place] = active.back();
    active.pop_back();
  }
}

// From a fiber to the scheduler.
void Machine::leave() { switch_over(running->context, scheduler); }

// For the last time: at its end, or after a failure.
void Machine::abandon() {
  leave();
  __builtin_unreachable();
}

void Machine::yield() { leave(); }

// Who spins counts as spinning until it stores something, or has waited in another way.
void Machine::spin() {
  running->stand = Stand::SPINNING;
  running->warp->rank = --lowest_rank;
  yield();
}

// ---- the choice

Warp& Machine::pick() {
  if (until_change-- == 0) {
    change_places();
  }
  u32 many = static_cast<u32>(active.size());
  switch (habits.order) {
    case Habits::IN_TURN:
      turn = turn + 1 < many ? turn + 1 : 0;
      return *active[turn];
    case Habits::STARVING:
      for (u32 tries = 0; tries < 6; tries++) {
        Warp& warp = *active[random.below(many)];
        if (!is_starved(warp)) {
          return warp;
        }
      }
      return *active[random.below(many)];
    case Habits::BY_RANK:
      return pick_by_rank();
    default:
      return *active[random.below(many)];
  }
}

Warp& Machine::pick_by_rank() {
  auto is_lower = [](const Warp* a, const Warp* b) { return a->rank < b->rank; };
  return **std::max_element(active.begin(), active.end(), is_lower);
}

// Half of the warps, or all warps of half of the blocks.
bool Machine::is_starved(const Warp& warp) const {
  u64 who = salt & 1 ? warp.number : warp.block->number;
  return Random::mix(salt ^ who) & 1;
}

void Machine::change_places() {
  salt = random.next();
  until_change = 1 + random.below(random.one_in(4) ? 20000 : 1000);
  if (habits.order == Habits::BY_RANK) {
    pick_by_rank().rank = --lowest_rank;
  }
}

u32 Machine::pick_in(const Warp& warp) {
  u32 ready = warp.ready;
  if (habits.within != Habits::EVENLY && !random.one_in(8)) {
    return static_cast<u32>(habits.within == Habits::LOWEST ? __builtin_ctz(ready)
                                                            : 31 - __builtin_clz(ready));
  }
  return nth_bit(ready, random.below(static_cast<u32>(__builtin_popcount(ready))));
}

// ---- the loop

// Whether nothing has changed for longer than the patience.
bool Machine::is_quiet(Patience patience) const {
  if (quiet < patience.base || (patience.each && quiet < patience.each * live_threads())) {
    return false;
  }
  // Who is ready is counted now and then: it takes longer than a switch.
  return !patience.ready || (quiet % 64 == 0 && quiet >= patience.ready * ready_threads());
}

Outcome Machine::run(u64 switches, Patience patience) {
  Machine* before = current;
  current = this;
  Outcome outcome = Outcome::GOES_ON;
  for (u64 i = 0; i < switches && failure.empty(); i++) {
    if (may_begin) {
      begin_blocks();
    }
    if (resident.empty()) {
      outcome = Outcome::OVER;
      break;
    }
    if (active.empty()) {
      // Whoever waits at a barrier or in a warp waits for a thread, not for memory.
      if (!land_all()) {
        fail_stuck();
      }
      continue;
    }
    if (is_quiet(patience) && !land_all()) {
      outcome = Outcome::WAITS;
      // Whoever calls again may have changed something.
      quiet = 0;
      break;
    }
    land_some();
    Warp& warp = pick();
    running = &warp.block->fibers[warp.index * WARP_THREADS + pick_in(warp)];
    quiet++;
    counts.switches++;
    switch_over(scheduler, running->context);
    if (running->stand == Stand::ENDED) {
      end_block_if_over(*running->block);
    }
    if (counts.switches >= options.most_switches && failure.empty()) {
      failure = "the run did not end within " + std::to_string(counts.switches) + " switches" +
                stands();
    }
  }
  running = nullptr;
  current = before;
  return failure.empty() ? outcome : Outcome::FAILED;
}

}  // namespace host
