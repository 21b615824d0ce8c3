/* gfortran's own descriptors, made into those of C.
 *
 * Problem: gfortran 12 gives C the distance of two elements as (its stride) x (its span), and sets
 * the span of an allocatable array only where ALLOCATE makes it. One that was allocated by an
 * assignment of pack, reshape, cshift, matmul and others has whatever the memory held: the array
 * seems to have gaps, and nothing in the C descriptor tells this from a section that has some.
 *
 * Idea: to a procedure without bind(C) gfortran passes a descriptor of its own that it makes for
 * the call, with a span that is right. native.awk takes bind(C) from the interface and makes a
 * function for each procedure with arrays, which translates here.
 *
 * What these descriptors tell otherwise: lower bounds are 1; an array whose lower bounds are 0 is a
 * copy, which gfortran makes of expressions and of components, and frees after the call. A string
 * that is no array has the length of the variable it is a part of; its own length is passed behind
 * the arguments. A string that is an expression looks like an integer(1). */
#include "kolo_fortran.h"

#ifdef CFI_type_mask
#include "kolo_fortran_native.h"

enum { NATIVE_INTEGER = 1, NATIVE_LOGICAL, NATIVE_REAL, NATIVE_COMPLEX, NATIVE_DERIVED,
       NATIVE_CHARACTER, NATIVE_VOID = 10 };

/* A descriptor of gfortran since version 9. */
typedef struct {
    char *base;
    size_t offset;
    size_t element_bytes;
    int version;
    signed char rank, type;
    short attribute;
    ptrdiff_t span;
    struct {
        ptrdiff_t stride, lower, upper;
    } dim[CFI_MAX_RANK];
} native;

static CFI_type_t type_of(signed char type) {
    switch (type) {
    case NATIVE_INTEGER: return CFI_type_Integer;
    case NATIVE_LOGICAL: return CFI_type_Logical;
    case NATIVE_REAL: return CFI_type_Real;
    case NATIVE_COMPLEX: return CFI_type_Complex;
    case NATIVE_DERIVED: return CFI_type_struct;
    case NATIVE_CHARACTER: return CFI_type_Character;
    default: return CFI_type_other;
    }
}

static void dimensions(const native *n, ptrdiff_t span, CFI_cdesc_t *out) {
    for (int i = 0; i < out->rank; i++) {
        const ptrdiff_t extent = n->dim[i].upper - n->dim[i].lower + 1;
        out->dim[i].lower_bound = 0;
        out->dim[i].extent = extent < 0 ? 0 : extent;
        out->dim[i].sm = n->dim[i].stride * span;
    }
}

const CFI_cdesc_t *kolo_fi_native(const void *descriptor, const size_t **length, bool writes,
                                  CFI_cdesc_t *out) {
    const native *n = descriptor;
    const int last = n->rank - 1;
    out->base_addr = n->base;
    out->elem_len = n->element_bytes;
    out->version = CFI_VERSION;
    out->rank = (CFI_rank_t)n->rank;
    out->type = type_of(n->type);
    out->attribute = CFI_attribute_other;
    if (n->type == NATIVE_CHARACTER) {
        if (n->rank == 0) out->elem_len = **length;
        ++*length;
    }
    if (n->rank == 0 && !writes && n->type == NATIVE_INTEGER && n->element_bytes == 1)
        out->attribute = KOLO_ATTRIBUTE_UNCLEAR;
    if (n->rank > 0 && n->dim[0].lower == 0) out->attribute = KOLO_ATTRIBUTE_COPY;
    dimensions(n, n->span, out);
    if (last < 0) return out;
    if (out->attribute == KOLO_ATTRIBUTE_COPY) {
        /* An expression without elements has the bounds 0:-1, and so has an array a(0:*), which is
         * much rarer: what is only read is taken for the expression. */
        if (writes && n->dim[last].upper == -1) out->dim[last].extent = -1;
        return out;
    }
    /* Of what is not allocated, the bounds may be anything. */
    if (n->dim[last].upper == -1 || !n->base) out->dim[last].extent = -1;
    return out;
}

const CFI_cdesc_t *kolo_fi_native_shape(const void *descriptor, CFI_cdesc_t *out) {
    const native *n = descriptor;
    const size_t none = 0, *length = &none;
    if (!n) return NULL;
    kolo_fi_native(n, &length, true, out);
    out->attribute = CFI_attribute_other;
    /* Fortran itself goes by the size of elements here, and copies what has another span. */
    dimensions(n, (ptrdiff_t)n->element_bytes, out);
    return out;
}
#endif
