// Where threads meet: calls of a warp, and barriers of a block.
#include <cstdio>

#include "state.h"

namespace host {

namespace {

const char* name(Call call) {
  switch (call) {
    case Call::SYNC:
      return "warp_sync";
    case Call::ALL:
      return "all_of_warp";
    case Call::ANY:
      return "any_of_warp";
    case Call::LOAD_LINES:
      return "load_line128";
    case Call::STORE_LINES:
      return "store_line128";
    default:
      return "from_thread";
  }
}

}  // namespace

// ---- warps

Fiber& Machine::meet(Call call, u64 brought, u64 address, Vector data) {
  Fiber& fiber = *running;
  Warp& warp = *fiber.warp;
  if (warp.came == 0) {
    warp.call = call;
  } else if (warp.call != call) {
    char text[128];
    snprintf(text, sizeof text, "calls %s, but the threads of its warp that came before it %s",
             name(call), name(warp.call));
    fail_here(fiber, text);
  }
  fiber.brought = brought;
  fiber.address = address;
  fiber.data = data;
  warp.came |= 1u << fiber.lane();
  if (warp.came != EVERY_THREAD) {
    set_waiting(fiber, Stand::IN_WARP);
    leave();
    return fiber;
  }
  answer(warp);
  warp.came = 0;
  counts.meetings++;
  for (u32 t = 0; t < WARP_THREADS; t++) {
    if (t != fiber.lane()) {
      set_ready(warp.block->fibers[warp.index * WARP_THREADS + t]);
    }
  }
  perhaps_yield();
  return fiber;
}

void Machine::answer(Warp& warp) {
  Fiber* fibers = &warp.block->fibers[warp.index * WARP_THREADS];
  u64 answers[WARP_THREADS];
  u32 votes = 0;
  for (u32 t = 0; t < WARP_THREADS; t++) {
    votes += fibers[t].brought != 0;
    answers[t] = fibers[fibers[t].address % WARP_THREADS].brought;
  }
  Knower all = Knower::warp(warp.index);
  switch (warp.call) {
    case Call::SYNC:
      return warp.block->stores.tell(
          [&](const Pending& entry) {
            return !entry.knower.is_all() && entry.knower.in_warp() == warp.index;
          },
          all);
    case Call::LOAD_LINES:
      return load_lines(fibers);
    case Call::STORE_LINES:
      return store_lines(fibers);
    default:
      break;
  }
  for (u32 t = 0; t < WARP_THREADS; t++) {
    fibers[t].brought = warp.call == Call::ALL   ? votes == WARP_THREADS
                        : warp.call == Call::ANY ? votes > 0
                                                 : answers[t];
  }
}

// ---- barriers

void Machine::arrive(u32 id, u32 count, bool waits) {
  Fiber& fiber = *running;
  Block& block = *fiber.block;
  if (id >= BARRIERS || count == 0 || count % WARP_THREADS != 0 || count > block.fibers.size()) {
    fail_here(fiber, "comes to a barrier that cannot be: its id, or its count of threads");
  }
  Barrier& barrier = block.barriers[id];
  if (barrier.count == 0) {
    barrier.count = count;
  } else if (barrier.count != count) {
    fail_here(fiber, "comes to a barrier with another count than the threads before it");
  }
  if (barrier.since[fiber.index] != 0) {
    fail_here(fiber, "comes to a barrier twice before the others have come");
  }
  barrier.since[fiber.index] = block.stores.next_number();
  barrier.came++;
  if (barrier.came == count) {
    open(block, id);
    perhaps_yield();
  } else if (waits) {
    fiber.barrier = id;
    set_waiting(fiber, Stand::AT_BARRIER);
    leave();
  } else {
    perhaps_yield();
  }
}

// What those who came had stored before is known to the block.
void Machine::open(Block& block, u32 id) {
  Barrier& barrier = block.barriers[id];
  u64 eight[MOST_THREADS / 8] = {}, warp[MOST_THREADS / WARP_THREADS] = {};
  for (u32 t = 0; t < block.fibers.size(); t++) {
    u64 since = barrier.since[t];
    eight[t / 8] = since > eight[t / 8] ? since : eight[t / 8];
    warp[t / WARP_THREADS] = since > warp[t / WARP_THREADS] ? since : warp[t / WARP_THREADS];
  }
  block.stores.tell(
      [&](const Pending& entry) {
        Knower who = entry.knower;
        return !who.is_all() && entry.number < (who.is_fiber()   ? barrier.since[who.number()]
                                                : who.is_eight() ? eight[who.number()]
                                                                 : warp[who.number()]);
      },
      Knower::all());
  for (Fiber& fiber : block.fibers) {
    barrier.since[fiber.index] = 0;
    if (fiber.stand == Stand::AT_BARRIER && fiber.barrier == id) {
      set_ready(fiber);
    }
  }
  barrier.count = barrier.came = 0;
  counts.barriers++;
}

}  // namespace host
