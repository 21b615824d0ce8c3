// What lib.rs calls: the machine as C functions. No failure is more than a text.
#include "state.h"

using host::Machine;
using host::Range;

extern "C" {

Machine* kolo_host_new(const host::Options* options) { return new Machine(*options); }

void kolo_host_drop(Machine* machine) { delete machine; }

u32 kolo_host_add_range(Machine* machine, u64 base, u64 bytes, u8* home, u32 loads, u32 stores,
                        const char* name) {
  return machine->ranges.add({base, bytes, home, loads, stores, 0, 0, name});
}

// 0 while a store to it is under way.
i32 kolo_host_remove_range(Machine* machine, u32 id) {
  const Range* range = machine->ranges.by_id(id);
  if (range && machine->is_written(*range)) {
    return 0;
  }
  machine->ranges.remove(id);
  return 1;
}

void kolo_host_allow(Machine* machine, u32 id, u32 loads, u32 stores) {
  machine->ranges.allow(id, loads, stores);
}

// 0 if the range is not there, or is smaller.
i32 kolo_host_store(Machine* machine, u32 id, u64 offset, const u8* from, u64 bytes) {
  const Range* range = machine->ranges.by_id(id);
  if (!range || offset > range->bytes || range->bytes - offset < bytes) {
    return 0;
  }
  machine->host_store(*range, range->base + offset, from, bytes);
  return 1;
}

u32 kolo_host_launch(Machine* machine, u32 device, void (*kernel)(const void*), const char* name,
                     u32 blocks, u32 threads, const void* launch, u64 bytes) {
  return machine->launch(device, kernel, name, blocks, threads, launch, bytes);
}

i32 kolo_host_is_over(const Machine* machine, u32 grid) { return machine->is_over(grid); }

i32 kolo_host_run(Machine* machine, u64 switches, const host::Patience* patience) {
  return static_cast<i32>(machine->run(switches, *patience));
}

void kolo_host_fail_stuck(Machine* machine) { machine->fail_stuck(); }

// Until the next call; empty while nothing has failed.
const char* kolo_host_failure(const Machine* machine) { return machine->failure.c_str(); }

i32 kolo_host_failed_access(const Machine* machine) { return machine->has_failed_access; }

const host::Counts* kolo_host_counts(const Machine* machine) { return &machine->counts; }

}  // extern "C"
