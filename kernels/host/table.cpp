// The kernels by name, for the host.

#include "../plan.h"

#define KOLO_NAMED(protocol, type, op) kolo2_##protocol##_##type##_##op

#define KOLO_EACH(type, op)                                        \
  extern "C" void KOLO_NAMED(Simple, type, op)(const Launch&);     \
  extern "C" void KOLO_NAMED(Ll, type, op)(const Launch&);         \
  extern "C" void KOLO_NAMED(Ll128, type, op)(const Launch&);
#include "../kernels.def"
#undef KOLO_EACH

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
#include "../kernels.def"
};

}  // namespace

extern "C" {

u32 kolo_table_length() { return sizeof ENTRIES / sizeof *ENTRIES; }
const char* kolo_table_name(u32 index) { return ENTRIES[index].name; }
void (*kolo_table_kernel(u32 index))(const Launch&) { return ENTRIES[index].kernel; }

}  // extern "C"
