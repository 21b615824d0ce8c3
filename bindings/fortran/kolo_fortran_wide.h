/* Numbers of programs whose default integer has 8 bytes: wide.awk makes the functions for them. */
#ifndef KOLO_FORTRAN_WIDE_H
#define KOLO_FORTRAN_WIDE_H

#include <limits.h>
#include <stdint.h>

/* What does not fit becomes the nearest that does, which is no rank, root or color either. */
static inline int32_t kolo_fi_narrow(const void *number) {
    const int64_t wide = *(const int64_t *)number;
    return wide > INT32_MAX ? INT32_MAX : wide < INT32_MIN ? INT32_MIN : (int32_t)wide;
}

/* Handles of an MPI whose own integers have 4 bytes: it has written no more of the variable. */
static inline int32_t kolo_fi_low(const void *number) {
    return (int32_t) * (const uint32_t *)number;
}

#endif
