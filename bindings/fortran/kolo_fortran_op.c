/* Operations of the program: how they are made, and what is checked of them.
 *
 * Problem: Fortran's compilers do not look at the arguments of a procedure that is passed to
 * another one. A subroutine with arrays a(:) expects descriptors: it takes the elements that kolo
 * passes for those, and sums nothing, or crashes. One for real(8) runs over the end of arrays of
 * real(4).
 *
 * Idea: before its first call on a data type a subroutine is called twice with n = 0, and
 * descriptors of one element in the place of its arrays. One that changes this element expects
 * descriptors, and the call is refused; others do nothing for n = 0. Where the program has said for
 * which data type an operation is, calls on another one are refused. */
#include "kolo_fortran.h"
#include "kolo_fortran_wide.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* A Fortran subroutine (in, inout, n, datatype), as MPI's operations have it: the numbers have 4
 * bytes, or 8. */
typedef void narrow_function(const void *, void *, const int32_t *, const int32_t *);
typedef void wide_function(const void *, void *, const int64_t *, const int64_t *);
typedef void any_function(void);

static void call_narrow(const void *in, void *inout, size_t count, koloDataType_t datatype,
                        void *context) {
    const int32_t number = (int32_t)datatype;
    narrow_function *function;
    *(void **)&function = context;
    /* kolo hands over blocks of some kilobytes: the number fits. */
    const int32_t n = (int32_t)count;
    function(in, inout, &n, &number);
}

static void call_wide(const void *in, void *inout, size_t count, koloDataType_t datatype,
                      void *context) {
    const int64_t number = (int64_t)datatype, n = (int64_t)count;
    wide_function *function;
    *(void **)&function = context;
    function(in, inout, &n, &number);
}

/* ---- arrays of unknown shape ------------------------------------------------------------- */

/* Elements of any type fit. */
enum { PROBE_WORDS = 64 };
typedef uint32_t element[PROBE_WORDS];

/* Of each type another number, and none that traps: 3 and 5 as real(4). The maximum, the minimum,
 * and, or, sum and product of both are not both at once what stood there. */
static const uint32_t patterns[2] = {0x40400000, 0x40a00000};

static void describe(void *place, size_t bytes, element base) {
    memset(place, 0, bytes);
#ifdef CFI_type_mask
    /* gfortran's own: address, offset, size, version and rank, span, and for each dimension the
     * stride and both bounds. */
    intptr_t *words = place;
    words[0] = (intptr_t)base;
    words[1] = words[2] = words[4] = 8;
    ((signed char *)(words + 3))[4] = 1;
    ((signed char *)(words + 3))[5] = 3;
    for (int i = 0; i < CFI_MAX_RANK; i++)
        for (int j = 0; j < 3; j++) words[5 + 3 * i + j] = 1;
#else
    CFI_cdesc_t *d = place;
    d->base_addr = base;
    d->elem_len = 8;
    d->version = CFI_VERSION;
    d->rank = 1;
    d->type = CFI_type_double;
    for (int i = 0; i < CFI_MAX_RANK; i++) {
        d->dim[i].lower_bound = d->dim[i].extent = 1;
        d->dim[i].sm = 8;
    }
#endif
}

/* Whether the subroutine changes what descriptors describe, although it is to combine nothing. */
static bool expects_descriptors(koloUserFunction_t caller, void *function, int32_t datatype) {
    for (int turn = 0; turn < 2; turn++) {
        _Alignas(64) element elements[2], before[2];
        _Alignas(64) char places[2][1024];
        _Static_assert(sizeof(CFI_CDESC_T(CFI_MAX_RANK)) <= 1024 && 8 * (5 + 3 * 15) <= 1024, "");
        for (int i = 0; i < 2; i++) {
            for (int j = 0; j < PROBE_WORDS; j++) elements[i][j] = patterns[i ^ turn];
            describe(places[i], sizeof places[i], elements[i]);
        }
        memcpy(before, elements, sizeof before);
        caller(places[0], places[1], 0, (koloDataType_t)datatype, function);
        if (memcmp(before, elements, sizeof before) != 0) return true;
    }
    return false;
}

/* ---- what is known of an operation ------------------------------------------------------- */

enum { ANY_TYPE = -1 };

/* An operation made of a Fortran subroutine. */
typedef struct made {
    struct made *next;
    koloComm_t comm;
    int32_t code;
    int32_t datatype; /* that the program has named, or ANY_TYPE */
    int32_t tried;    /* the last one that it was tried with, or ANY_TYPE */
    bool refused;     /* for it expects descriptors */
    koloUserFunction_t caller;
    void *function;
} made;
static made *all_made;
static pthread_mutex_t made_lock = PTHREAD_MUTEX_INITIALIZER;

/* The place that points to it, or to NULL. The lock is held. */
static made **find_made(koloComm_t comm, int32_t code) {
    made **place = &all_made;
    while (*place && ((*place)->comm != comm || (*place)->code != code)) place = &(*place)->next;
    return place;
}

static void forget(koloComm_t comm, int32_t code) {
    pthread_mutex_lock(&made_lock);
    made **place = find_made(comm, code), *found = *place;
    if (found) *place = found->next;
    pthread_mutex_unlock(&made_lock);
    free(found);
}

/* What is known of an operation; false: it is no subroutine of Fortran. */
static bool known(koloComm_t comm, int32_t code, made *out) {
    pthread_mutex_lock(&made_lock);
    const made *found = *find_made(comm, code);
    if (found) *out = *found;
    pthread_mutex_unlock(&made_lock);
    return found != NULL;
}

static void note_trial(koloComm_t comm, int32_t code, int32_t type, bool refused) {
    pthread_mutex_lock(&made_lock);
    made *found = *find_made(comm, code);
    if (found) found->tried = type, found->refused = refused;
    pthread_mutex_unlock(&made_lock);
}

bool kolo_fi_op_takes(call *c, int32_t op, koloDataType_t type) {
    made m;
    if (!known(c->comm, op, &m)) return true;
    if (m.datatype != ANY_TYPE && m.datatype != (int32_t)type)
        return kolo_fi_problem(c, koloInvalidArgument,
                               "make an operation for each data type, by a subroutine whose "
                               "arrays have it",
                               "the operation was made for %s, and the arrays are %s",
                               kolo_fi_named(m.datatype), kolo_fi_named((int32_t)type));
    if (m.tried != (int32_t)type) {
        m.refused = expects_descriptors(m.caller, m.function, (int32_t)type);
        note_trial(c->comm, op, (int32_t)type, m.refused);
    }
    if (!m.refused) return true;
    return kolo_fi_problem(c, koloInvalidArgument,
                           "declare them with their size, such as a(n), or a(*)",
                           "the subroutine of the operation has arrays of assumed shape, such as "
                           "a(:), or changes its arrays where n is 0");
}

/* ---- entry points ------------------------------------------------------------------------ */

static void create(call *c, koloUserFunction_t caller, void *function, int32_t commute,
                   const fortran_type *datatype, fortran_op *op) {
    koloRedOp_t handle = koloMaxRedOp;
    made *new = malloc(sizeof *new);
    if (c->code == koloSuccess && !new)
        kolo_fi_problem(c, koloSystemError, "free memory", "no memory for an operation");
    if (c->code == koloSuccess && datatype && !kolo_fi_named(datatype->code))
        kolo_fi_problem(c, koloInvalidArgument, "name the type of the arrays, such as KOLO_REAL8",
                        "the data type has the value %d, which is none of kolo's", datatype->code);
    if (c->code == koloSuccess)
        kolo_fi_check(c, koloRedOpCreateUser(&handle, caller, function, commute, c->comm));
    op->code = (int32_t)handle;
    if (c->code == koloSuccess) {
        *new = (made){.comm = c->comm,
                      .code = op->code,
                      .datatype = datatype ? datatype->code : ANY_TYPE,
                      .tried = ANY_TYPE,
                      .caller = caller,
                      .function = function};
        pthread_mutex_lock(&made_lock);
        new->next = all_made;
        all_made = new;
        pthread_mutex_unlock(&made_lock);
    } else
        free(new);
    kolo_fi_finish(c);
}

/* A function of the program with a C interface. */
KOLO_ENTRY void kolo_f_op_create_c(koloUserFunction_t function, const int32_t *commute,
                                   const fortran_comm *comm, fortran_op *op,
                                   const fortran_type *datatype, int32_t *ierror) {
    call c;
    koloRedOp_t made = koloMaxRedOp;
    kolo_fi_begin(&c, "kolo_op_create", comm, NULL, ierror);
    kolo_fi_check(&c, datatype ? koloRedOpCreateUserFor(&made, function, NULL, *commute,
                                                        (koloDataType_t)datatype->code, c.comm)
                               : koloRedOpCreateUser(&made, function, NULL, *commute, c.comm));
    op->code = (int32_t)made;
    kolo_fi_finish(&c);
}

KOLO_ENTRY void kolo_f_op_create_plain(any_function *function, const int32_t *commute,
                                       const fortran_comm *comm, fortran_op *op,
                                       const fortran_type *datatype, int32_t *ierror) {
    call c;
    void *context;
    *(any_function **)&context = function;
    kolo_fi_begin(&c, "kolo_op_create", comm, NULL, ierror);
    create(&c, call_narrow, context, *commute, datatype, op);
}

KOLO_ENTRY void kolo_f_op_create_plain_w(any_function *function, const int64_t *commute,
                                         const fortran_comm *comm, fortran_op *op,
                                         const fortran_type *datatype, int64_t *ierror) {
    call c;
    void *context;
    int32_t code = 0;
    *(any_function **)&context = function;
    kolo_fi_begin(&c, "kolo_op_create", comm, NULL, ierror ? &code : NULL);
    create(&c, call_wide, context, kolo_fi_narrow(commute), datatype, op);
    if (ierror) *ierror = code;
}

KOLO_ENTRY void kolo_f_op_destroy(const fortran_op *op, const fortran_comm *comm,
                                  int32_t *ierror) {
    call c;
    kolo_fi_begin(&c, "kolo_op_destroy", comm, NULL, ierror);
    if (kolo_fi_check(&c, koloRedOpDestroy((koloRedOp_t)op->code, c.comm)))
        forget(c.comm, op->code);
    kolo_fi_finish(&c);
}
