// The kernels by name, for the host.

#include "plan.h"

#define KOLO_NAMED(protocol, type, op) kolo2_##protocol##_##type##_##op

#define KOLO_EACH(type, op)                                        \
  extern "C" void KOLO_NAMED(Simple, type, op)(const Launch&);     \
  extern "C" void KOLO_NAMED(Ll, type, op)(const Launch&);         \
  extern "C" void KOLO_NAMED(Ll128, type, op)(const Launch&);
#include "kernels.def"
#undef KOLO_EACH

#define KOLO_EACH_LITMUS(KOLO_ONE) \
  KOLO_ONE(kolo_litmus_lines) KOLO_ONE(kolo_litmus_answer) KOLO_ONE(kolo_litmus_meet)

#define KOLO_DECLARED(name)                  \
  extern "C" void name(const void* launch);  \
  extern "C" const u32 name##_launch_bytes;
KOLO_EACH_LITMUS(KOLO_DECLARED)

namespace {

struct Entry {
  const char* name;
  void (*kernel)(const Launch&);
};

#define KOLO_ENTRY(protocol, type, op) \
  {"kolo2_" #protocol "_" #type "_" #op, KOLO_NAMED(protocol, type, op)},
#define KOLO_EACH(type, op)     \
  KOLO_ENTRY(Simple, type, op)  \
  KOLO_ENTRY(Ll, type, op)      \
  KOLO_ENTRY(Ll128, type, op)
const Entry ENTRIES[] = {
#include "kernels.def"
};

// A litmus kernel, whose structure is its own.
struct Litmus {
  const char* name;
  void (*kernel)(const void*);
  const u32* launch_bytes;
};

#define KOLO_LITMUS(name) {#name, name, &name##_launch_bytes},
const Litmus LITMUS[] = {KOLO_EACH_LITMUS(KOLO_LITMUS)};

}  // namespace

extern "C" {

u32 kolo_litmus_length() { return sizeof LITMUS / sizeof *LITMUS; }
const char* kolo_litmus_name(u32 index) { return LITMUS[index].name; }
void (*kolo_litmus_kernel(u32 index))(const void*) { return LITMUS[index].kernel; }
u32 kolo_litmus_bytes(u32 index) { return *LITMUS[index].launch_bytes; }

u32 kolo_table_length() { return sizeof ENTRIES / sizeof *ENTRIES; }
const char* kolo_table_name(u32 index) { return ENTRIES[index].name; }
void (*kolo_table_kernel(u32 index))(const Launch&) { return ENTRIES[index].kernel; }

}  // extern "C"
