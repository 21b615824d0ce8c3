/* From descriptors to views: types, shapes, gaps. */
#define _GNU_SOURCE
#include "kolo_fortran.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* The variable of module kolo that says "in place"; only its address matters. */
extern int32_t kolo_fortran_in_place;

#ifdef CFI_type_mask
/* gfortran: the low byte is the intrinsic type. */
static type_class class_of(CFI_type_t type, size_t bytes) {
    (void)bytes;
    if (type == CFI_type_struct) return CLASS_STRUCT;
    if (type == CFI_type_cptr || type == CFI_type_cfunptr) return CLASS_POINTER;
    if (type < 0) return CLASS_UNKNOWN;
    switch (type & CFI_type_mask) {
    case CFI_type_Integer: return CLASS_INTEGER;
    case CFI_type_Logical: return CLASS_LOGICAL;
    case CFI_type_Real: return CLASS_REAL;
    case CFI_type_Complex: return CLASS_COMPLEX;
    case CFI_type_Character: return CLASS_CHARACTER;
    default: return CLASS_UNKNOWN;
    }
}
#else
/* Others: the standard's codes, which may be synonyms, so no switch. flang codes the logical kinds
 * but the first as int_least, and a c_ptr as a structure. */
static type_class class_of(CFI_type_t type, size_t bytes) {
    (void)bytes;
    if (type == CFI_type_Bool) return CLASS_LOGICAL;
    if (type == CFI_type_int || type == CFI_type_long || type == CFI_type_long_long ||
        type == CFI_type_short || type == CFI_type_signed_char || type == CFI_type_int8_t ||
        type == CFI_type_int16_t || type == CFI_type_int32_t || type == CFI_type_int64_t ||
        type == CFI_type_size_t || type == CFI_type_intptr_t || type == CFI_type_ptrdiff_t ||
        type == CFI_type_intmax_t)
        return CLASS_INTEGER;
#ifdef CFI_type_half_float /* flang */
    if (type >= CFI_type_int_least8_t && type <= CFI_type_int_least64_t) return CLASS_LOGICAL;
    if (type == CFI_type_int128_t) return CLASS_INTEGER;
    if (type == CFI_type_bfloat) return CLASS_BFLOAT;
    if (type >= CFI_type_half_float && type <= CFI_type_float128) return CLASS_REAL;
    if (type >= CFI_type_half_float_Complex && type <= CFI_type_float128_Complex)
        return CLASS_COMPLEX;
    if (type == CFI_type_char16_t || type == CFI_type_char32_t) return CLASS_CHARACTER;
#endif
    if (type == CFI_type_float || type == CFI_type_double || type == CFI_type_long_double)
        return CLASS_REAL;
    if (type == CFI_type_float_Complex || type == CFI_type_double_Complex ||
        type == CFI_type_long_double_Complex)
        return CLASS_COMPLEX;
    if (type == CFI_type_char) return CLASS_CHARACTER;
    if (type == CFI_type_cptr) return CLASS_POINTER;
    if (type == CFI_type_struct) return CLASS_STRUCT;
    return CLASS_UNKNOWN;
}
#endif

/*
 * MPI_IN_PLACE of Fortran is a variable of 4 bytes, known by its address: of Open MPI in a common
 * block of its own, of MPICH the second word of one, and a variable of its own in mpi_f08.
 */
static const char *mpis_in_place[3];

static void find_mpis_in_place(void) {
    const char *block = dlsym(RTLD_DEFAULT, "mpipriv1_");
    mpis_in_place[0] = dlsym(RTLD_DEFAULT, "mpi_fortran_in_place_");
    mpis_in_place[1] = block ? block + 4 : NULL;
    mpis_in_place[2] = dlsym(RTLD_DEFAULT, "MPIR_F08_MPI_IN_PLACE");
}

/* Asked for single integers only. */
static bool is_mpis_in_place(const CFI_cdesc_t *d) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (d->rank != 0 || d->elem_len != 4 || !d->base_addr) return false;
    pthread_once(&once, find_mpis_in_place);
    for (int i = 0; i < 3; i++)
        if (d->base_addr == (const void *)mpis_in_place[i]) return true;
    return false;
}

bool kolo_fi_is_kolos(call *c, const view *v) {
    if (!v->of_mpi) return true;
    return kolo_fi_problem(c, koloInvalidArgument,
                           "write KOLO_IN_PLACE, or give the array alone, as in "
                           "kolo_allreduce(x, KOLO_SUM, comm)",
                           "the argument %s is MPI_IN_PLACE, which kolo does not know",
                           v->argument);
}

void kolo_fi_view(const CFI_cdesc_t *d, const char *argument, view *out) {
    CFI_index_t dense = (CFI_index_t)d->elem_len;
    out->argument = argument;
    out->base = d->base_addr;
    out->class = class_of(d->type, d->elem_len);
    out->element_bytes = d->elem_len;
    out->rank = d->rank;
    out->in_place = d->base_addr == (void *)&kolo_fortran_in_place;
    out->of_mpi = is_mpis_in_place(d);
    out->copy = d->attribute == KOLO_ATTRIBUTE_COPY;
    out->unclear = d->attribute == KOLO_ATTRIBUTE_UNCLEAR;
    out->contiguous = true;
    out->assumed_size = false;
    out->elements = 1;
    for (int i = 0; i < d->rank; i++) {
        CFI_index_t extent = d->dim[i].extent;
        out->dim[i] = d->dim[i];
        if (extent < 0) {
            out->assumed_size = true;
            extent = 0;
        }
        if (extent > 1 && d->dim[i].sm != dense) out->contiguous = false;
        dense *= extent;
        out->elements *= (size_t)extent;
    }
    if (out->assumed_size || out->elements <= 1) out->contiguous = true;
}

void kolo_fi_type_name(const view *v, char *text, size_t capacity) {
    static const char *const names[] = {"integer",   "real",           "bfloat real",
                                        "complex",   "logical",        "character",
                                        "derived type", "C pointer", "unknown type"};
    const size_t kind = v->class == CLASS_COMPLEX ? v->element_bytes / 2 : v->element_bytes;
    const char *form = v->class == CLASS_CHARACTER ? "%s(len=%zu)"
                       : v->class >= CLASS_STRUCT  ? "%s of %zu bytes"
                                                   : "%s(%zu)";
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(text, capacity, form, names[v->class], kind);
#pragma GCC diagnostic pop
}

/* Copies the first `bytes` bytes of the array in element order, to or from `packed`. */
static void walk(const view *v, char *packed, size_t bytes, bool out) {
    size_t run = v->element_bytes, done = 0;
    CFI_index_t index[CFI_MAX_RANK] = {0};
    int first = 0;
    char *at = v->base;
    while (first < v->rank && v->dim[first].sm == (CFI_index_t)run)
        run *= (size_t)v->dim[first++].extent;
    while (done < bytes) {
        const size_t now = run < bytes - done ? run : bytes - done;
        int i = first;
        if (out)
            memcpy(packed + done, at, now);
        else
            memcpy(at, packed + done, now);
        done += now;
        for (; i < v->rank; i++) {
            at += v->dim[i].sm;
            if (++index[i] < v->dim[i].extent) break;
            at -= v->dim[i].sm * v->dim[i].extent;
            index[i] = 0;
        }
        if (i == v->rank) return;
    }
}

void kolo_fi_pack(const view *v, char *packed, size_t bytes) { walk(v, packed, bytes, true); }

void kolo_fi_unpack(const view *v, const char *packed, size_t bytes) {
    walk(v, (char *)packed, bytes, false);
}

/* The C types of the elements that kolo knows, plus 1, by class and bytes; 0 for none. Each call
 * looks here, so it is no list to search. */
#define MOST_BYTES 16
static const unsigned char known_types[CLASS_CHARACTER][MOST_BYTES + 1] = {
    [CLASS_INTEGER] = {[1] = 1 + koloInt8, [4] = 1 + koloInt32, [8] = 1 + koloInt64},
    [CLASS_REAL] = {[2] = 1 + koloFloat16, [4] = 1 + koloFloat32, [8] = 1 + koloFloat64},
    [CLASS_BFLOAT] = {[2] = 1 + koloBfloat16},
    [CLASS_COMPLEX] = {[8] = 1 + koloComplex64, [16] = 1 + koloComplex128},
    [CLASS_LOGICAL] = {[1] = 1 + koloLogical8,
                       [2] = 1 + koloLogical16,
                       [4] = 1 + koloLogical32,
                       [8] = 1 + koloLogical64},
};

bool kolo_fi_is_in_place(const CFI_cdesc_t *d) {
    return d->base_addr == (const void *)&kolo_fortran_in_place;
}

/* False says nothing but that a view has to tell: what is wrong, or less usual. */
bool kolo_fi_simple(const CFI_cdesc_t *d, simple *out) {
    const type_class class = class_of(d->type, d->elem_len);
    const bool number = class == CLASS_INTEGER || class == CLASS_REAL;
    const int type = number && d->elem_len <= MOST_BYTES ? known_types[class][d->elem_len] : 0;
    CFI_index_t dense = (CFI_index_t)d->elem_len;
    if (!type || !d->base_addr || kolo_fi_is_in_place(d) || is_mpis_in_place(d) ||
        d->attribute == KOLO_ATTRIBUTE_COPY || d->attribute == KOLO_ATTRIBUTE_UNCLEAR)
        return false;
    out->base = d->base_addr;
    out->type = (koloDataType_t)(type - 1);
    out->elements = 1;
    for (int i = 0; i < d->rank; i++) {
        const CFI_index_t extent = d->dim[i].extent;
        if (extent < 1 || d->dim[i].sm != dense) return false;
        dense *= extent;
        out->elements *= (size_t)extent;
    }
    return true;
}

/* The C type of an element that kolo knows, or false. */
static bool arithmetic(type_class class, size_t bytes, unit *out) {
    const int type = class < CLASS_CHARACTER && bytes <= MOST_BYTES ? known_types[class][bytes] : 0;
    if (type) {
        *out = (unit){(koloDataType_t)(type - 1), 1, bytes, 1};
        return true;
    }
    if (class != CLASS_CHARACTER || bytes == 0) return false;
    *out = (unit){koloCharacter, bytes, 1, 1};
    return true;
}

/* The C type of a value and an index side by side in an array of this type, or false. */
static bool pair_of(type_class class, size_t bytes, unit *out) {
    if (class == CLASS_REAL && bytes == 4)
        *out = (unit){koloFloatFloat, 1, 8, 2};
    else if (class == CLASS_REAL && bytes == 8)
        *out = (unit){koloDoubleDouble, 1, 16, 2};
    else if (class == CLASS_INTEGER && bytes == 4)
        *out = (unit){koloIntInt, 1, 8, 2};
    else
        return false;
    return true;
}

static bool locates(int32_t op) { return op == koloMinloc || op == koloMaxloc; }

bool kolo_fi_move_unit(call *c, const view *v, unit *out) {
    if (v->class == CLASS_POINTER)
        return kolo_fi_problem(c, koloInvalidArgument,
                               "pass the array itself; c_f_pointer makes one of a C pointer",
                               "the argument %s is a C pointer", v->argument);
    if (!arithmetic(v->class, v->element_bytes, out))
        *out = (unit){koloUint8, v->element_bytes, 1, 1};
    return true;
}

/* Elements that kolo can move only. */
static bool no_reduction(call *c, type_class class, const char *name) {
    const bool number = class == CLASS_INTEGER || class == CLASS_REAL || class == CLASS_COMPLEX;
    /* -fdefault-real-8 makes double precision real(16). */
    if (class == CLASS_REAL && strstr(name, "16"))
        return kolo_fi_problem(c, koloInvalidArgument,
                               "where it is meant to be double precision, compile with "
                               "-fdefault-double-8 beside -fdefault-real-8; else convert it to "
                               "real(8) before the call",
                               "kolo has no reductions of %s", name);
    return kolo_fi_problem(c, koloInvalidArgument,
                           number ? "convert to integer(4), integer(8), real(4), real(8) or "
                                    "complex of these before the call"
                                  : "reduce arrays of numbers, logicals or characters",
                           "kolo has no reductions of %s", name);
}

/* What such elements have in the place of an operation that does not combine them, or NULL. The
 * core checks the same, without our names. */
static const char *instead_of(type_class class, int32_t op) {
    const bool order = op == koloMax || op == koloMin;
    const bool bits = op >= koloBand && op <= koloBxor, truth = op >= koloLand && op <= koloLxor;
    if (op > koloMaxloc || class == CLASS_INTEGER) return NULL;
    if ((class == CLASS_REAL || class == CLASS_BFLOAT) && (bits || truth))
        return "reals have KOLO_SUM, KOLO_PROD, KOLO_MAX, KOLO_MIN, KOLO_AVG and KOLO_EXACT_SUM";
    if (class == CLASS_COMPLEX && (order || bits || truth))
        return "complex numbers have KOLO_SUM, KOLO_PROD, KOLO_AVG and KOLO_EXACT_SUM";
    if (class == CLASS_LOGICAL && !truth)
        return "logicals have KOLO_LAND (all), KOLO_LOR (any) and KOLO_LXOR; to count, reduce "
               "merge(1, 0, mask) with KOLO_SUM";
    if (class == CLASS_CHARACTER && !order && !bits)
        return "characters have KOLO_MAX, KOLO_MIN, KOLO_BAND, KOLO_BOR and KOLO_BXOR";
    return NULL;
}

/* The name of an operation of kolo.h. */
static const char *operation(int32_t op) {
    switch (op) {
    case koloSum: return "KOLO_SUM";
    case koloProd: return "KOLO_PROD";
    case koloMax: return "KOLO_MAX";
    case koloMin: return "KOLO_MIN";
    case koloAvg: return "KOLO_AVG";
    case koloSumExact: return "KOLO_EXACT_SUM";
    case koloBand: return "KOLO_BAND";
    case koloBor: return "KOLO_BOR";
    case koloBxor: return "KOLO_BXOR";
    case koloLand: return "KOLO_LAND";
    case koloLor: return "KOLO_LOR";
    case koloLxor: return "KOLO_LXOR";
    case koloMinloc: return "KOLO_MINLOC";
    case koloMaxloc: return "KOLO_MAXLOC";
    default: return "given";
    }
}

static bool combines(call *c, type_class class, int32_t op, const char *name) {
    const char *possible = instead_of(class, op);
    if (!possible) return true;
    return kolo_fi_problem(c, koloInvalidArgument, possible,
                           "the operation %s does not combine elements of type %s",
                           operation(op), name);
}

bool kolo_fi_reduce_unit(call *c, const view *v, int32_t op, unit *out) {
    char name[64];
    /* To write a name takes longer than a call: only errors have one. */
    if (!locates(op) && arithmetic(v->class, v->element_bytes, out) && !instead_of(v->class, op))
        return true;
    if (locates(op) && pair_of(v->class, v->element_bytes, out) && v->rank > 0 &&
        v->dim[0].extent == 2)
        return true;
    kolo_fi_type_name(v, name, sizeof name);
    if (locates(op))
        return kolo_fi_problem(c, koloInvalidArgument,
                               "pass pairs (value, index) as real(4), real(8) or integer(4) "
                               "a(2, n), or name a type such as KOLO_DOUBLE_INT",
                               "KOLO_MINLOC and KOLO_MAXLOC need pairs, and the argument %s is "
                               "%s%s",
                               v->argument, name,
                               v->rank == 0 || v->dim[0].extent == 2
                                   ? ""
                                   : " whose first extent is not 2");
    if (arithmetic(v->class, v->element_bytes, out)) return combines(c, v->class, op, name);
    return no_reduction(c, v->class, name);
}

/* The constants of module kolo; below 100 they are those of kolo.h. */
static const struct {
    int32_t code;
    const char *name;
    type_class class;
    size_t bytes;
} named_types[] = {
    {koloInt8, "KOLO_INTEGER1", CLASS_INTEGER, 1},
    {koloInt32, "KOLO_INTEGER4", CLASS_INTEGER, 4},
    {koloInt64, "KOLO_INTEGER8", CLASS_INTEGER, 8},
    {koloFloat16, "KOLO_REAL2", CLASS_REAL, 2},
    {koloFloat32, "KOLO_REAL4", CLASS_REAL, 4},
    {koloFloat64, "KOLO_REAL8", CLASS_REAL, 8},
    {koloBfloat16, "KOLO_BFLOAT16", CLASS_BFLOAT, 2},
    {koloComplex64, "KOLO_COMPLEX8", CLASS_COMPLEX, 8},
    {koloComplex128, "KOLO_COMPLEX16", CLASS_COMPLEX, 16},
    {koloLogical8, "KOLO_LOGICAL1", CLASS_LOGICAL, 1},
    {koloLogical16, "KOLO_LOGICAL2", CLASS_LOGICAL, 2},
    {koloLogical32, "KOLO_LOGICAL4", CLASS_LOGICAL, 4},
    {koloLogical64, "KOLO_LOGICAL8", CLASS_LOGICAL, 8},
    {koloByte, "KOLO_BYTE", CLASS_UNKNOWN, 1},
    {koloCharacter, "KOLO_CHARACTER", CLASS_CHARACTER, 1},
    {koloFloatInt, "KOLO_FLOAT_INT", CLASS_UNKNOWN, 8},
    {koloDoubleInt, "KOLO_DOUBLE_INT", CLASS_UNKNOWN, 16},
    {koloIntInt, "KOLO_2INTEGER", CLASS_INTEGER, 4},
    {koloLongInt, "KOLO_LONG_INT", CLASS_UNKNOWN, 16},
    {koloFloatFloat, "KOLO_2REAL", CLASS_REAL, 4},
    {koloDoubleDouble, "KOLO_2DOUBLE_PRECISION", CLASS_REAL, 8},
    {100, "KOLO_INTEGER2", CLASS_INTEGER, 2},
    {101, "KOLO_REAL16", CLASS_REAL, 16},
    {104, "KOLO_COMPLEX32", CLASS_COMPLEX, 32},
};

static bool is_pair(int32_t code) { return code >= koloFloatInt && code <= koloDoubleDouble; }

const char *kolo_fi_named(int32_t code) {
    for (int i = 0; i < (int)(sizeof named_types / sizeof *named_types); i++)
        if (named_types[i].code == code) return named_types[i].name;
    return NULL;
}

static int find_named(call *c, fortran_type type) {
    for (int i = 0; i < (int)(sizeof named_types / sizeof *named_types); i++)
        if (named_types[i].code == type.code) return i;
    kolo_fi_problem(c, koloInvalidArgument, "give one of the KOLO_ types, such as KOLO_REAL8",
                    "the data type has the unknown number %d", (int)type.code);
    return -1;
}

bool kolo_fi_named_unit(call *c, fortran_type type, bool reduces, int32_t op, unit *out) {
    const int i = find_named(c, type);
    if (i < 0) return false;
    const type_class class = named_types[i].class;
    const size_t bytes = named_types[i].bytes;
    if (is_pair(type.code)) {
        const size_t parts = class == CLASS_UNKNOWN ? 1 : 2;
        *out = (unit){(koloDataType_t)type.code, 1, parts * bytes, 1};
        return true;
    }
    if (class == CLASS_UNKNOWN) {
        *out = (unit){(koloDataType_t)type.code, 1, bytes, 1};
        return true;
    }
    if (arithmetic(class, bytes, out))
        return !reduces || combines(c, class, op, named_types[i].name);
    if (!reduces) {
        *out = (unit){koloUint8, bytes, 1, 1};
        return true;
    }
    return no_reduction(c, class, named_types[i].name);
}

bool kolo_fi_named_fits(call *c, fortran_type type, const view *v) {
    const int i = find_named(c, type);
    char name[64];
    if (i < 0) return false;
    const type_class class = named_types[i].class;
    const size_t bytes = named_types[i].bytes;
    if (class == CLASS_UNKNOWN || v->class >= CLASS_STRUCT || v->in_place) return true;
    /* A string, or an integer(1) that starts a sequence: the caller says which. */
    if (v->unclear && class == CLASS_CHARACTER) return true;
    if (class == v->class && (bytes == v->element_bytes || class == CLASS_CHARACTER)) return true;
    /* The parts of complex numbers, and 16-bit floats in integers where the compiler lacks them. */
    if (class == CLASS_REAL && v->class == CLASS_COMPLEX && 2 * bytes == v->element_bytes)
        return true;
    if (v->class == CLASS_INTEGER && v->element_bytes == 2 && bytes == 2 &&
        (class == CLASS_REAL || class == CLASS_BFLOAT))
        return true;
    kolo_fi_type_name(v, name, sizeof name);
    return kolo_fi_problem(c, koloInvalidArgument,
                           "give the data type of the array (KOLO_BYTE fits every type)",
                           "the data type is %s, but the argument %s is %s", named_types[i].name,
                           v->argument, name);
}
