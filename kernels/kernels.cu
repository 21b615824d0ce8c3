// The kernels of one protocol, KOLO_PROTOCOL: one for each type and operation, named
// kolo2_<protocol>_<type>_<operation>. The number is that of the layout (plan.h): it goes up when
// the layout changes, so that a library never launches kernels that read another one.

#include "interpret.h"

#define KOLO_NAMED(protocol, type, op) kolo2_##protocol##_##type##_##op
#define KOLO_NAME(protocol, type, op) KOLO_NAMED(protocol, type, op)
#define KOLO_EACH(type, op)                                               \
  KOLO_KERNEL(KOLO_NAME(KOLO_PROTOCOL, type, op), Launch, launch) {       \
    KOLO_SHARED(Shared, shared);                                          \
    interpret<KOLO_PROTOCOL, type, op>(launch, shared);                   \
  }
#include "kernels.def"
