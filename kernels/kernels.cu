// The kernels of one protocol, KOLO_PROTOCOL: one for each type and operation, named
// kolo_<protocol>_<type>_<operation>.

#include "interpret.h"

#define KOLO_NAMED(protocol, type, op) kolo_##protocol##_##type##_##op
#define KOLO_NAME(protocol, type, op) KOLO_NAMED(protocol, type, op)
#define KOLO_EACH(type, op)                                               \
  KOLO_KERNEL(KOLO_NAME(KOLO_PROTOCOL, type, op), Launch, launch) {       \
    KOLO_SHARED(Shared, shared);                                          \
    interpret<KOLO_PROTOCOL, type, op>(launch, shared);                   \
  }
#include "kernels.def"
