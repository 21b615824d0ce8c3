/* kolo_sum_exact: one function for each type, without and with a mask and ierror.
 *
 * Sections are summed where they lie, with their gaps: nothing is copied. */
#include "kolo_fortran.h"
#include <complex.h>
#include <math.h>
#include <string.h>

typedef const CFI_cdesc_t *array;

/* The mask must be logical, and a scalar or of the array's shape. */
static bool mask_fits(call *c, const view *v, const view *mask) {
    char name[64];
    if (mask->class != CLASS_LOGICAL) {
        kolo_fi_type_name(mask, name, sizeof name);
        return kolo_fi_problem(c, koloInvalidArgument, "pass a logical array of the same shape",
                               "the argument mask is %s", name);
    }
    if (mask->rank == 0) return true;
    if (mask->rank != v->rank)
        return kolo_fi_problem(c, koloInvalidArgument, "pass a mask of the array's shape",
                               "the mask has rank %d, the array rank %d", mask->rank, v->rank);
    for (int i = 0; i < v->rank; i++)
        if (mask->dim[i].extent != v->dim[i].extent)
            return kolo_fi_problem(c, koloInvalidArgument, "pass a mask of the array's shape",
                                   "dimension %d of the mask has %lld elements, that of the array "
                                   "%lld",
                                   i + 1, (long long)mask->dim[i].extent,
                                   (long long)v->dim[i].extent);
    return true;
}

static void sum_exact(call *c, array a, array mask, koloDataType_t type, size_t parts,
                      void *result) {
    view v, m;
    memset(&m, 0, sizeof m);
    if (kolo_fi_whole(c, a, "array", &v) &&
        (!mask || (kolo_fi_whole(c, mask, "mask", &m) && mask_fits(c, &v, &m)))) {
        size_t extents[CFI_MAX_RANK];
        ptrdiff_t strides[CFI_MAX_RANK], mask_strides[CFI_MAX_RANK];
        for (int i = 0; i < v.rank; i++) {
            extents[i] = (size_t)v.dim[i].extent;
            strides[i] = v.dim[i].sm;
            mask_strides[i] = m.rank ? m.dim[i].sm : 0;
        }
        kolo_fi_check(c, koloSumExactArray(v.base, type, parts, v.rank, extents, strides,
                                           mask ? m.base : NULL, m.element_bytes, mask_strides,
                                           result, c->comm));
    }
    kolo_fi_finish(c);
}

#define COMM const fortran_comm *comm

/* A function whose result after an error is NaN. */
#define FUNCTIONS(suffix, ctype, type, parts, nan)                                            \
    static ctype sum_##suffix(array a, array mask, COMM, int32_t *ierror) {              \
        call c;                                                                          \
        ctype result = nan;                                                              \
        kolo_fi_begin(&c, "kolo_sum_exact", comm, NULL, ierror);                         \
        sum_exact(&c, a, mask, type, parts, &result);                                    \
        return result;                                                                   \
    }                                                                                    \
    KOLO_ENTRY ctype kolo_f_sum_exact_##suffix(array a, COMM) {                          \
        return sum_##suffix(a, NULL, comm, NULL);                                        \
    }                                                                                    \
    KOLO_ENTRY ctype kolo_f_sum_exact_##suffix##_e(array a, COMM, int32_t *ierror) {     \
        return sum_##suffix(a, NULL, comm, ierror);                                      \
    }                                                                                    \
    KOLO_ENTRY ctype kolo_f_sum_exact_##suffix##_m(array a, array mask, COMM) {          \
        return sum_##suffix(a, mask, comm, NULL);                                        \
    }                                                                                    \
    KOLO_ENTRY ctype kolo_f_sum_exact_##suffix##_me(array a, array mask, COMM,           \
                                                    int32_t *ierror) {                   \
        return sum_##suffix(a, mask, comm, ierror);                                      \
    }

FUNCTIONS(r4, float, koloFloat32, 1, NAN)
FUNCTIONS(r8, double, koloFloat64, 1, NAN)
FUNCTIONS(c4, float _Complex, koloFloat32, 2, CMPLXF(NAN, NAN))
FUNCTIONS(c8, double _Complex, koloFloat64, 2, CMPLX(NAN, NAN))
