/* What the functions that native.awk makes use: kolo_fortran_native.c. */
#ifndef KOLO_FORTRAN_NATIVE_H
#define KOLO_FORTRAN_NATIVE_H

#include "kolo_fortran.h"

/* Of an array of any shape; `length` points to the lengths of the strings that were not taken. */
const CFI_cdesc_t *kolo_fi_native(const void *descriptor, const size_t **length, bool writes,
                                  CFI_cdesc_t *out);
/* Of a vector with the bounds of the caller, or of none. */
const CFI_cdesc_t *kolo_fi_native_shape(const void *descriptor, CFI_cdesc_t *out);

#define KOLO_PLACE(name) CFI_CDESC_T(CFI_MAX_RANK) c_##name
#define KOLO_PLACED(name) (CFI_cdesc_t *)&c_##name
/* An argument to read, one to write, and a vector of integers. */
#define KOLO_R(name)      \
    KOLO_PLACE(name);     \
    const CFI_cdesc_t *d_##name = kolo_fi_native(name, &length, false, KOLO_PLACED(name))
#define KOLO_W(name)      \
    KOLO_PLACE(name);     \
    const CFI_cdesc_t *d_##name = kolo_fi_native(name, &length, true, KOLO_PLACED(name))
#define KOLO_S(name)      \
    KOLO_PLACE(name);     \
    const CFI_cdesc_t *d_##name = kolo_fi_native_shape(name, KOLO_PLACED(name))

#endif
