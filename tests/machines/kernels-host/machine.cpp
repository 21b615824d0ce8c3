// The functions of machine.h, by the machine that runs this thread's fibers.
#include "machine.h"

#include "state.h"

using host::Call;
using host::current;

namespace dev {

namespace {

u64 number(const void* at) { return reinterpret_cast<u64>(at); }

}  // namespace

void* shared_memory(u64 bytes) { return current->shared_memory(bytes); }

// ---- who this thread is

u32 thread() { return current->running->index; }
u32 threads() { return current->running->block->grid->threads; }
u32 block() { return current->running->block->index; }
u32 blocks() { return current->running->block->grid->blocks; }

// ---- all threads of a warp

void warp_sync() { current->meet(Call::SYNC, 0, 0, {}); }
bool all_of_warp(bool here) { return current->meet(Call::ALL, here, 0, {}).brought != 0; }
bool any_of_warp(bool here) { return current->meet(Call::ANY, here, 0, {}).brought != 0; }
u64 from_thread(u64 value, u32 from) {
  return current->meet(Call::FROM, value, from, {}).brought;
}

// ---- all threads of a block

void block_sync() { current->arrive(0, threads(), true); }
void barrier_arrive(u32 id, u32 count) { current->arrive(id, count, false); }
void barrier_wait(u32 id, u32 count) { current->arrive(id, count, true); }

// ---- shared memory: each access happens at once, so only device memory needs care

void shared_add_release(u32* at, u32 value) {
  host::Machine& machine = *current;
  u32* word = machine.shared_word(at);
  machine.release_shared(word, *word + value);
}

u32 shared_load_acquire(const u32* at) {
  return *const_cast<const volatile u32*>(current->shared_word(at));
}

void shared_store_release(u32* at, u32 value) {
  host::Machine& machine = *current;
  machine.release_shared(machine.shared_word(at), value);
}

// ---- device memory, weak

Vector load16(const void* at) { return current->load_halves(at, true); }
u64 load8(const void* at) { return current->load_weak(at, 8); }
u32 load4(const void* at) { return static_cast<u32>(current->load_weak(at, 4)); }
u16 load2(const void* at) { return static_cast<u16>(current->load_weak(at, 2)); }
u8 load1(const void* at) { return static_cast<u8>(current->load_weak(at, 1)); }
void store16(void* at, Vector v) { current->store_halves(at, v); }
void store8(void* at, u64 v) { current->store(at, v, 8); }
void store4(void* at, u32 v) { current->store(at, v, 4); }
void store2(void* at, u16 v) { current->store(at, v, 2); }
void store1(void* at, u8 v) { current->store(at, v, 1); }

// ---- ordered for the whole system

u64 load_acquire(const u64* at) {
  host::Machine& machine = *current;
  u64 value = machine.load_strong(at, 8);
  machine.acquire();
  return value;
}
void store_release(u64* at, u64 v) { current->store_release(at, v); }
u32 load_relaxed4(const u32* at) { return static_cast<u32>(current->load_strong(at, 4)); }
void fence() { current->fence(); }

// ---- lines with flags of their own

Line load_line(const void* at) {
  Vector v = current->load_halves(at, false);
  return {static_cast<u32>(v.low), static_cast<u32>(v.low >> 32), static_cast<u32>(v.high),
          static_cast<u32>(v.high >> 32)};
}

void store_line(void* at, Line l) {
  u64 low = static_cast<u64>(l.flag_low) << 32 | l.data_low;
  u64 high = static_cast<u64>(l.flag_high) << 32 | l.data_high;
  current->store_halves(at, {low, high});
}

Vector load_line128(const void* mine) {
  return current->meet(Call::LOAD_LINES, 0, number(mine), {}).data;
}

void store_line128(void* mine, Vector v) {
  current->meet(Call::STORE_LINES, 0, number(mine), v);
}

// ---- waiting

void spin() { current->spin(); }

}  // namespace dev
