/* Handles and constants of mpi.h that no binding generator can see, with what kolo calls them. */
#define _GNU_SOURCE
#include "../front/say.h"
#include <dlfcn.h>
#include <float.h>
#include <math.h>
#include <mpi.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

void *const kolo_pmpi_in_place = (void *)MPI_IN_PLACE;
const MPI_Op kolo_pmpi_op_null = MPI_OP_NULL;
const int kolo_pmpi_tag_ub_key = MPI_TAG_UB;
MPI_Comm_copy_attr_function *const kolo_pmpi_no_copy = MPI_COMM_NULL_COPY_FN;

void kolo_pmpi_say(const char *text)
{
    kolo_pmpi_write(text);
}

/*
 * How many processes a launcher says that it started together, at most: Open MPI's, one like
 * MPICH's, or Slurm. What that means is up to kolo.
 */
int kolo_pmpi_started(void)
{
    static const char *const counts[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                         "SLURM_STEP_NUM_TASKS"};
    int most = 0;
    for (int i = 0; i < 3; i++) {
        const char *text = getenv(counts[i]);
        const int count = text ? atoi(text) : 0;
        if (count > most) most = count;
    }
    return most;
}

/*
 * Whether the MPI takes buffers on GPUs: 0 where it says that it does not, and 1 where it says
 * nothing. MPICH and Open MPI have two names for the question.
 */
int kolo_pmpi_device_support(void)
{
    static const char *const old[] = {"MPIX_Query_cuda_support", "MPIX_Query_hip_support",
                                      "MPIX_Query_rocm_support", "MPIX_Query_ze_support"};
    int asked = 0;
    for (int i = 0; i < 4; i++) {
        int (*query)(void);
        *(void **)&query = dlsym(RTLD_DEFAULT, old[i]);
        if (!query) continue;
        if (query()) return 1;
        asked = 1;
    }
    return !asked;
}

/*
 * How types were made. MPI 4's functions know those that were made with counts of MPI_Count, at
 * which the older ones fail; they are looked up when this library is loaded, as the MPI may be
 * older or newer than the one whose header is read here.
 */
int PMPI_Type_get_envelope_c(MPI_Datatype, MPI_Count *, MPI_Count *, MPI_Count *, MPI_Count *,
                             int *);
int PMPI_Type_get_contents_c(MPI_Datatype, MPI_Count, MPI_Count, MPI_Count, MPI_Count, int *,
                             MPI_Aint *, MPI_Count *, MPI_Datatype *);
#pragma weak PMPI_Type_get_envelope_c
#pragma weak PMPI_Type_get_contents_c

/* The numbers of `Made` in kinds.rs. */
enum made { NAMED, DUPLICATE, CONTIGUOUS, OF_INTEGERS, OF_REALS, OF_COMPLEX, ELSE };

/* `of` is the type of which a duplicate or a contiguous type is made. The result is MPI's code. */
int kolo_pmpi_made(MPI_Datatype type, int *made, MPI_Datatype *of)
{
    int code, combiner, integers, addresses, types, number;
    MPI_Count large_integers, large_addresses, counts = 0, large_types, count;
    MPI_Aint no_address;
    const int has_large = PMPI_Type_get_envelope_c && PMPI_Type_get_contents_c;
    if (has_large)
        code = PMPI_Type_get_envelope_c(type, &large_integers, &large_addresses, &counts,
                                        &large_types, &combiner);
    else
        code = PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
    if (code) return code;
    switch (combiner) {
    case MPI_COMBINER_NAMED: *made = NAMED; return 0;
    case MPI_COMBINER_F90_INTEGER: *made = OF_INTEGERS; return 0;
    case MPI_COMBINER_F90_REAL: *made = OF_REALS; return 0;
    case MPI_COMBINER_F90_COMPLEX: *made = OF_COMPLEX; return 0;
    case MPI_COMBINER_DUP: *made = DUPLICATE; break;
    case MPI_COMBINER_CONTIGUOUS: *made = CONTIGUOUS; break;
    default: *made = ELSE; return 0;
    }
    /* Neither has an address, and the one has a single number. */
    if (has_large)
        return PMPI_Type_get_contents_c(type, large_integers, 0, counts, 1, &number, &no_address,
                                        &count, of);
    return PMPI_Type_get_contents(type, integers, 0, 1, &number, &no_address, of);
}

/* The numbers of `Class` in kinds.rs. */
enum class { INTEGER, UNSIGNED, FLOATING, COMPLEX, LOGICAL, BYTES, PAIR, OTHER };

/*
 * A named type. `kolo` is the type whose elements kolo folds just as MPI does; -1: there is none,
 * and MPI_Reduce_local folds. `bytes` are those of an element with its padding.
 */
struct named {
    MPI_Datatype type;
    int class, kolo;
    size_t bytes;
};

struct float_int { float value; int index; };
struct double_int { double value; int index; };
struct long_int { long value; int index; };
struct short_int { short value; int index; };
struct wide_int { long double value; int index; };

/* The number of kolo's type of so many bytes. */
#define BY_BYTES(bytes, one, four, eight) \
    ((bytes) == 1 ? one : (bytes) == 4 ? four : (bytes) == 8 ? eight : -1)
#define SIGNED_OF(c) INTEGER, BY_BYTES(sizeof(c), 0, 2, 4), sizeof(c)
#define UNSIGNED_OF(c) UNSIGNED, BY_BYTES(sizeof(c), 1, 3, 5), sizeof(c)
#define FORTRAN_INTEGER(bytes) INTEGER, BY_BYTES(bytes, 0, 2, 4), bytes

const struct named kolo_pmpi_named[] = {
    {MPI_CHAR, BYTES, -1, 1},
    {MPI_SIGNED_CHAR, SIGNED_OF(signed char)},
    {MPI_UNSIGNED_CHAR, UNSIGNED_OF(unsigned char)},
    {MPI_WCHAR, OTHER, -1, sizeof(int)},
    {MPI_SHORT, SIGNED_OF(short)},
    {MPI_UNSIGNED_SHORT, UNSIGNED_OF(unsigned short)},
    {MPI_INT, SIGNED_OF(int)},
    {MPI_UNSIGNED, UNSIGNED_OF(unsigned)},
    {MPI_LONG, SIGNED_OF(long)},
    {MPI_UNSIGNED_LONG, UNSIGNED_OF(unsigned long)},
    {MPI_LONG_LONG, SIGNED_OF(long long)},
    {MPI_UNSIGNED_LONG_LONG, UNSIGNED_OF(unsigned long long)},
    {MPI_INT8_T, SIGNED_OF(char)},
    {MPI_INT16_T, SIGNED_OF(short)},
    {MPI_INT32_T, SIGNED_OF(int)},
    {MPI_INT64_T, SIGNED_OF(long long)},
    {MPI_UINT8_T, UNSIGNED_OF(char)},
    {MPI_UINT16_T, UNSIGNED_OF(short)},
    {MPI_UINT32_T, UNSIGNED_OF(int)},
    {MPI_UINT64_T, UNSIGNED_OF(long long)},
    {MPI_AINT, SIGNED_OF(MPI_Aint)},
    {MPI_OFFSET, SIGNED_OF(MPI_Offset)},
    {MPI_COUNT, SIGNED_OF(MPI_Count)},
    {MPI_FLOAT, FLOATING, 7, 4},
    {MPI_DOUBLE, FLOATING, 8, 8},
    {MPI_LONG_DOUBLE, FLOATING, -1, sizeof(long double)},
    {MPI_C_BOOL, LOGICAL, -1, 1},
    {MPI_C_FLOAT_COMPLEX, COMPLEX, 16, 8},
    {MPI_C_DOUBLE_COMPLEX, COMPLEX, 17, 16},
    {MPI_C_LONG_DOUBLE_COMPLEX, COMPLEX, -1, 2 * sizeof(long double)},
    {MPI_BYTE, BYTES, -1, 1},
    {MPI_PACKED, OTHER, -1, 1},
    {MPI_FLOAT_INT, PAIR, 32, sizeof(struct float_int)},
    {MPI_DOUBLE_INT, PAIR, 33, sizeof(struct double_int)},
    {MPI_2INT, PAIR, 34, 2 * sizeof(int)},
    {MPI_LONG_INT, PAIR, sizeof(long) == 8 ? 35 : -1, sizeof(struct long_int)},
    {MPI_SHORT_INT, PAIR, -1, sizeof(struct short_int)},
    {MPI_LONG_DOUBLE_INT, PAIR, -1, sizeof(struct wide_int)},
#ifndef KOLO_PMPI_NO_CXX
    {MPI_CXX_BOOL, LOGICAL, -1, 1},
    {MPI_CXX_FLOAT_COMPLEX, COMPLEX, 16, 8},
    {MPI_CXX_DOUBLE_COMPLEX, COMPLEX, 17, 16},
#endif
    /* Fortran's. LOGICAL is MPI's own affair: how a compiler writes .true. is known to it. */
    {MPI_CHARACTER, BYTES, -1, 1},
    {MPI_LOGICAL, LOGICAL, -1, 4},
    {MPI_INTEGER, FORTRAN_INTEGER(4)},
    {MPI_REAL, FLOATING, 7, 4},
    {MPI_DOUBLE_PRECISION, FLOATING, 8, 8},
    {MPI_COMPLEX, COMPLEX, 16, 8},
    {MPI_DOUBLE_COMPLEX, COMPLEX, 17, 16},
    {MPI_2REAL, PAIR, 36, 8},
    {MPI_2DOUBLE_PRECISION, PAIR, 37, 16},
    {MPI_2INTEGER, PAIR, 34, 8},
    {MPI_INTEGER1, FORTRAN_INTEGER(1)},
    {MPI_INTEGER2, FORTRAN_INTEGER(2)},
    {MPI_INTEGER4, FORTRAN_INTEGER(4)},
    {MPI_INTEGER8, FORTRAN_INTEGER(8)},
    {MPI_REAL4, FLOATING, 7, 4},
    {MPI_REAL8, FLOATING, 8, 8},
    {MPI_COMPLEX8, COMPLEX, 16, 8},
    {MPI_COMPLEX16, COMPLEX, 17, 16},
};
const size_t kolo_pmpi_named_count = sizeof kolo_pmpi_named / sizeof *kolo_pmpi_named;

/* Kolo's numbers of operations. */
const struct {
    MPI_Op op;
    int kolo;
} kolo_pmpi_ops[] = {
    {MPI_SUM, 0}, {MPI_PROD, 1}, {MPI_MAX, 2}, {MPI_MIN, 3}, {MPI_BAND, 16}, {MPI_BOR, 17},
    {MPI_BXOR, 18}, {MPI_LAND, 20}, {MPI_LOR, 21}, {MPI_LXOR, 22}, {MPI_MINLOC, 24},
    {MPI_MAXLOC, 25},
};
const size_t kolo_pmpi_ops_count = sizeof kolo_pmpi_ops / sizeof *kolo_pmpi_ops;

/* A long double, or a complex number of two, where it may lie at any address. */
void kolo_pmpi_wide_magnitude(void *at, int complex)
{
    long double parts[2] = {0, 0};
    memcpy(parts, at, (complex ? 2 : 1) * sizeof *parts);
    parts[0] = complex ? hypotl(parts[0], parts[1]) : fabsl(parts[0]);
    parts[1] = 0;
    memcpy(at, parts, (complex ? 2 : 1) * sizeof *parts);
}

/* As `far` in apart.rs, for long doubles. */
int kolo_pmpi_wide_apart(const void *got, const void *wanted, const void *magnitude, int steps,
                         int nranks)
{
    long double g, w, m;
    memcpy(&g, got, sizeof g);
    memcpy(&w, wanted, sizeof w);
    memcpy(&m, magnitude, sizeof m);
    if (isnan(g) || isnan(w)) return isnan(g) != isnan(w) && isfinite(m);
    return g != w && fabsl(g - w) > m * (steps * LDBL_EPSILON) + nranks * LDBL_MIN;
}
