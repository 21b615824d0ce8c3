/* Entry points of the calls that move data.
 *
 * Short forms take type and size from the arrays and check that they fit together; explicit forms
 * (MPI's order of arguments) take them from count and data type, and check what the descriptor
 * tells. Suffixes of the entry points: _s with a stream, _4 and _8 explicit with a count of that
 * many bytes; _e, where two procedures exist because an optional ierror would be ambiguous. */
#include "kolo_fortran.h"
#include <stdlib.h>

static const char *const explicit_remedy =
    "pass a section with an upper bound, such as a(1:n), or use the form with count and data type";

/* Whether there is an array at all. The bounds of one that is not allocated may be anything; a
 * null base with no elements is an array of size zero to some compilers. */
static bool there(call *c, const view *v) {
    if (v->base || (v->elements == 0 && !v->assumed_size)) return true;
    return kolo_fi_problem(c, koloInvalidArgument,
                           "allocate it, or associate the pointer, before the call",
                           "the array of the argument %s is not allocated, or a pointer that is "
                           "not associated",
                           v->argument);
}

/* Whether the compiler has told enough of an argument. */
bool kolo_fi_plain(call *c, const view *v) {
    if (v->unclear)
        return kolo_fi_problem(c, koloInvalidArgument,
                               "pass a string as a variable, and an integer(1) as an array, such "
                               "as [x]",
                               "the argument %s is an integer(1), or a string that is an "
                               "expression: gfortran does not tell which",
                               v->argument);
    return true;
}

/* The view of an array whose size must be known. */
bool kolo_fi_whole(call *c, array descriptor, const char *argument, view *out) {
    if (c->code != koloSuccess) return false;
    kolo_fi_view(descriptor, argument, out);
    if (out->in_place)
        return kolo_fi_problem(c, koloInvalidArgument, "pass the array twice, or use the form with "
                               "count and data type",
                               "the argument %s is KOLO_IN_PLACE", argument);
    if (!kolo_fi_is_kolos(c, out) || !kolo_fi_plain(c, out) || !there(c, out)) return false;
    if (out->assumed_size && out->copy)
        return kolo_fi_problem(c, koloInvalidArgument,
                               "pass a variable instead of the expression, and of an array a(0:*) "
                               "a section with an upper bound, such as a(0:n)",
                               "the argument %s is an expression without elements or an array of "
                               "unknown length: gfortran does not tell which",
                               argument);
    if (out->assumed_size)
        return kolo_fi_problem(c, koloInvalidArgument, explicit_remedy,
                               "the array of the argument %s is assumed-size, or an empty section "
                               "like a(3:1): its length is not known",
                               argument);
    return true;
}

bool kolo_fi_same_type(call *c, const view *send, const view *recv) {
    char one[64], other[64];
    if (send->class == recv->class && send->element_bytes == recv->element_bytes) return true;
    kolo_fi_type_name(send, one, sizeof one);
    kolo_fi_type_name(recv, other, sizeof other);
    return kolo_fi_problem(c, koloInvalidArgument, "pass two arrays of the same type",
                           "the argument %s is %s, the argument %s is %s", send->argument, one,
                           recv->argument, other);
}

/* `large` must have `times` as many elements as `small`. */
bool kolo_fi_sized(call *c, const view *small, int times, const view *large) {
    if (large->elements / (size_t)times == small->elements &&
        large->elements % (size_t)times == 0)
        return true;
    if (times == 1)
        return kolo_fi_problem(c, koloInvalidArgument, "pass two arrays of the same size",
                               "the argument %s has %zu elements, the argument %s has %zu",
                               small->argument, small->elements, large->argument, large->elements);
    return kolo_fi_problem(c, koloInvalidArgument,
                           "give the larger array (number of ranks) x (elements of the smaller)",
                           "the argument %s has %zu elements and the argument %s has %zu, which is "
                           "not %d ranks x %zu",
                           small->argument, small->elements, large->argument, large->elements,
                           times, small->elements);
}

bool kolo_fi_ranks(call *c, int *nranks) {
    return kolo_fi_check(c, koloCommCount(c->comm, nranks));
}

bool kolo_fi_is_root(call *c, int32_t root, bool *answer) {
    int rank = 0;
    if (!kolo_fi_check(c, koloCommUserRank(c->comm, &rank))) return false;
    *answer = rank == root;
    return true;
}

static void move_data(call *c, action what, const view *send, size_t send_bytes, const view *recv,
                      size_t recv_bytes, koloDataType_t type, size_t count, int32_t op,
                      int32_t peer) {
    const exchange e = {.what = what,
                        .send = send,
                        .recv = recv,
                        .send_bytes = send_bytes,
                        .recv_bytes = recv_bytes,
                        .type = type,
                        .count = count,
                        .op = op,
                        .peer = peer};
    kolo_fi_exchange(c, &e);
}

/* C elements of an array. */
static size_t elements_of(const view *v, const unit *u) {
    return v->elements * u->per_element / u->group;
}

/* ---- short forms ------------------------------------------------------------------------- */

static void short_allreduce(call *c, array send, array recv, const fortran_op *op) {
    const bool one = send == recv;
    view s, r;
    unit u;
    if (!kolo_fi_quick_allreduce(c, send, recv, op->code) &&
        kolo_fi_whole(c, send, one ? "buf" : "send", &s) &&
        (one || (kolo_fi_whole(c, recv, "recv", &r) && kolo_fi_same_type(c, &s, &r) &&
                 kolo_fi_sized(c, &s, 1, &r))) &&
        kolo_fi_reduce_unit(c, &s, op->code, &u)) {
        const size_t bytes = s.elements * s.element_bytes;
        /* One array with gaps gets one temporary. */
        if (one) r = s, s.in_place = true;
        move_data(c, DO_ALLREDUCE, &s, bytes, &r, bytes, u.type, elements_of(&s, &u), op->code, 0);
    }
    kolo_fi_finish(c);
}

/* Scans; the receive buffer of an exclusive one is not used on rank 0. */
static void short_scan(call *c, action what, array send, array recv, const fortran_op *op) {
    view s, r;
    unit u;
    bool first = false;
    if (kolo_fi_whole(c, send, "send", &s) && kolo_fi_reduce_unit(c, &s, op->code, &u) &&
        (what == DO_SCAN || kolo_fi_is_root(c, 0, &first)) &&
        (first || (kolo_fi_whole(c, recv, "recv", &r) && kolo_fi_same_type(c, &s, &r) &&
                   kolo_fi_sized(c, &s, 1, &r)))) {
        const size_t bytes = s.elements * s.element_bytes;
        move_data(c, what, &s, bytes, first ? NULL : &r, bytes, u.type, elements_of(&s, &u),
                  op->code, 0);
    }
    kolo_fi_finish(c);
}

static void short_bcast(call *c, array buf, const int32_t *root) {
    view v;
    unit u;
    if (!kolo_fi_quick_bcast(c, buf, *root) && kolo_fi_whole(c, buf, "buf", &v) &&
        kolo_fi_move_unit(c, &v, &u))
        move_data(c, DO_BCAST, NULL, 0, &v, v.elements * v.element_bytes, u.type,
                         elements_of(&v, &u), 0, *root);
    kolo_fi_finish(c);
}

static void short_reduce(call *c, array send, array recv, const fortran_op *op,
                         const int32_t *root) {
    view s, r;
    unit u;
    bool here;
    if (kolo_fi_whole(c, send, "send", &s) && kolo_fi_reduce_unit(c, &s, op->code, &u) &&
        kolo_fi_is_root(c, *root, &here) &&
        (!here || (kolo_fi_whole(c, recv, "recv", &r) && kolo_fi_same_type(c, &s, &r) &&
                   kolo_fi_sized(c, &s, 1, &r)))) {
        const size_t bytes = s.elements * s.element_bytes;
        move_data(c, DO_REDUCE, &s, bytes, here ? &r : NULL, bytes, u.type,
                         elements_of(&s, &u), op->code, *root);
    }
    kolo_fi_finish(c);
}

/* All-gather, gather, scatter and reduce-scatter: one side has a block, the other one for each
 * rank. `root` is NULL where there is none. */
static void short_blocks(call *c, action what, array send, array recv, int32_t op,
                         const int32_t *root) {
    const bool gathers = what == DO_ALLGATHER || what == DO_GATHER;
    const char *block_name = gathers ? "send" : "recv", *all_name = gathers ? "recv" : "send";
    view block, all;
    unit u;
    int nranks = 1;
    bool here = true;
    if (kolo_fi_whole(c, gathers ? send : recv, block_name, &block) &&
        (what == DO_REDUCE_SCATTER ? kolo_fi_reduce_unit(c, &block, op, &u)
                                   : kolo_fi_move_unit(c, &block, &u)) &&
        kolo_fi_ranks(c, &nranks) && (!root || kolo_fi_is_root(c, *root, &here)) &&
        (!here || (kolo_fi_whole(c, gathers ? recv : send, all_name, &all) &&
                   kolo_fi_same_type(c, &block, &all) && kolo_fi_sized(c, &block, nranks, &all)))) {
        const size_t block_bytes = block.elements * block.element_bytes;
        const size_t all_bytes = block_bytes * (size_t)nranks;
        const size_t count = elements_of(&block, &u);
        view *other = here ? &all : NULL;
        if (gathers)
            move_data(c, what, &block, block_bytes, other, all_bytes, u.type, count, op,
                             root ? *root : 0);
        else
            move_data(c, what, other, all_bytes, &block, block_bytes, u.type, count, op,
                             root ? *root : 0);
    }
    kolo_fi_finish(c);
}

static void short_alltoall(call *c, array send, array recv) {
    view s, r;
    unit u;
    int nranks = 1;
    if (kolo_fi_whole(c, send, "send", &s) && kolo_fi_whole(c, recv, "recv", &r) &&
        kolo_fi_same_type(c, &s, &r) &&
        kolo_fi_sized(c, &s, 1, &r) && kolo_fi_move_unit(c, &s, &u) && kolo_fi_ranks(c, &nranks)) {
        const size_t bytes = s.elements * s.element_bytes;
        if (s.elements % (size_t)nranks != 0)
            kolo_fi_problem(c, koloInvalidArgument, "give the same number of elements to each rank",
                            "the argument send has %zu elements, which %d ranks cannot share",
                            s.elements, nranks);
        else
            move_data(c, DO_ALLTOALL, &s, bytes, &r, bytes, u.type,
                             elements_of(&s, &u) / (size_t)nranks, 0, 0);
    }
    kolo_fi_finish(c);
}

static void short_pair(call *c, action what, array buf, const int32_t *peer) {
    view v;
    unit u;
    if (kolo_fi_whole(c, buf, "buf", &v) && kolo_fi_move_unit(c, &v, &u)) {
        const size_t bytes = v.elements * v.element_bytes, count = elements_of(&v, &u);
        if (what == DO_SEND)
            move_data(c, what, &v, bytes, NULL, 0, u.type, count, 0, *peer);
        else
            move_data(c, what, NULL, 0, &v, bytes, u.type, count, 0, *peer);
    }
    kolo_fi_finish(c);
}

#define BEGIN(name, stream) \
    call c;                 \
    kolo_fi_begin(&c, name, comm, stream, ierror)
#define BEGIN_REQUEST(name) \
    call c;                 \
    kolo_fi_begin_request(&c, name, comm, request, ierror)

/* The four procedures of the short all-reduce: buf or (send, recv), without and with ierror. */
#define COMM const fortran_comm *comm
#define STREAM const fortran_stream *stream
#define REQUEST fortran_request *request
#define IERROR int32_t *ierror
#define OP const fortran_op *op
#define ROOT const int32_t *root
#define PEER const int32_t *peer

KOLO_ENTRY void kolo_f_allreduce_buf_e(array buf, OP, COMM, IERROR) {
    BEGIN("kolo_allreduce", NULL);
    short_allreduce(&c, buf, buf, op);
}
KOLO_ENTRY void kolo_f_allreduce_buf(array buf, OP, COMM) {
    kolo_f_allreduce_buf_e(buf, op, comm, NULL);
}
KOLO_ENTRY void kolo_f_allreduce_e(array send, array recv, OP, COMM, IERROR) {
    BEGIN("kolo_allreduce", NULL);
    short_allreduce(&c, send, recv, op);
}
KOLO_ENTRY void kolo_f_allreduce(array send, array recv, OP, COMM) {
    kolo_f_allreduce_e(send, recv, op, comm, NULL);
}
KOLO_ENTRY void kolo_f_allreduce_buf_se(array buf, OP, COMM, STREAM, IERROR) {
    BEGIN("kolo_allreduce", stream);
    short_allreduce(&c, buf, buf, op);
}
KOLO_ENTRY void kolo_f_allreduce_buf_s(array buf, OP, COMM, STREAM) {
    kolo_f_allreduce_buf_se(buf, op, comm, stream, NULL);
}
KOLO_ENTRY void kolo_f_allreduce_se(array send, array recv, OP, COMM, STREAM, IERROR) {
    BEGIN("kolo_allreduce", stream);
    short_allreduce(&c, send, recv, op);
}
KOLO_ENTRY void kolo_f_allreduce_s(array send, array recv, OP, COMM, STREAM) {
    kolo_f_allreduce_se(send, recv, op, comm, stream, NULL);
}

KOLO_ENTRY void kolo_f_iallreduce_buf_e(array buf, OP, COMM, REQUEST, IERROR) {
    BEGIN_REQUEST("kolo_iallreduce");
    short_allreduce(&c, buf, buf, op);
}
KOLO_ENTRY void kolo_f_iallreduce_buf(array buf, OP, COMM, REQUEST) {
    kolo_f_iallreduce_buf_e(buf, op, comm, request, NULL);
}
KOLO_ENTRY void kolo_f_iallreduce_e(array send, array recv, OP, COMM, REQUEST, IERROR) {
    BEGIN_REQUEST("kolo_iallreduce");
    short_allreduce(&c, send, recv, op);
}
KOLO_ENTRY void kolo_f_iallreduce(array send, array recv, OP, COMM, REQUEST) {
    kolo_f_iallreduce_e(send, recv, op, comm, request, NULL);
}

/* One procedure that blocks, one with a stream, one with a request. NAME(arguments) { body } */
#define SHORT(name, arguments, body)                                                 \
    KOLO_ENTRY void kolo_f_##name(arguments, COMM, IERROR) {                         \
        BEGIN("kolo_" #name, NULL);                                                  \
        body;                                                                        \
    }                                                                                \
    KOLO_ENTRY void kolo_f_##name##_s(arguments, COMM, STREAM, IERROR) {             \
        BEGIN("kolo_" #name, stream);                                                \
        body;                                                                        \
    }                                                                                \
    KOLO_ENTRY void kolo_f_i##name(arguments, COMM, REQUEST, IERROR) {               \
        BEGIN_REQUEST("kolo_i" #name);                                               \
        body;                                                                        \
    }
#define LIST(...) __VA_ARGS__

SHORT(bcast, LIST(array buf, ROOT), short_bcast(&c, buf, root))
SHORT(reduce, LIST(array send, array recv, OP, ROOT), short_reduce(&c, send, recv, op, root))
SHORT(allgather, LIST(array send, array recv), short_blocks(&c, DO_ALLGATHER, send, recv, 0, NULL))
SHORT(gather, LIST(array send, array recv, ROOT), short_blocks(&c, DO_GATHER, send, recv, 0, root))
SHORT(scatter, LIST(array send, array recv, ROOT),
      short_blocks(&c, DO_SCATTER, send, recv, 0, root))
SHORT(reduce_scatter, LIST(array send, array recv, OP),
      short_blocks(&c, DO_REDUCE_SCATTER, send, recv, op->code, NULL))
SHORT(alltoall, LIST(array send, array recv), short_alltoall(&c, send, recv))
SHORT(scan, LIST(array send, array recv, OP), short_scan(&c, DO_SCAN, send, recv, op))
SHORT(exscan, LIST(array send, array recv, OP), short_scan(&c, DO_EXSCAN, send, recv, op))
SHORT(send, LIST(array buf, PEER), short_pair(&c, DO_SEND, buf, peer))
SHORT(recv, LIST(array buf, PEER), short_pair(&c, DO_RECV, buf, peer))

KOLO_ENTRY void kolo_f_barrier(COMM, IERROR) {
    BEGIN("kolo_barrier", NULL);
    kolo_fi_check(&c, koloBarrier(c.comm, NULL));
    kolo_fi_finish(&c);
}
KOLO_ENTRY void kolo_f_barrier_s(COMM, STREAM, IERROR) {
    BEGIN("kolo_barrier", stream);
    if (c.code == koloSuccess) kolo_fi_check(&c, koloBarrier(c.comm, c.stream));
    kolo_fi_finish(&c);
}

KOLO_ENTRY void kolo_f_ibarrier(COMM, REQUEST, IERROR) {
    BEGIN_REQUEST("kolo_ibarrier");
    kolo_fi_check(&c, koloIBarrier(c.comm, c.request));
    kolo_fi_finish(&c);
}

/* ---- explicit forms ---------------------------------------------------------------------- */

/* Checks that `bytes` bytes of type `type` fit into an argument, as far as its descriptor tells: an
 * element that starts a sequence, a(1), and an assumed-size array have no end. */
bool kolo_fi_fits(call *c, array descriptor, const char *argument, fortran_type type, size_t bytes,
                 bool may_be_in_place, view *out) {
    size_t has;
    kolo_fi_view(descriptor, argument, out);
    if (out->in_place) {
        if (may_be_in_place) return true;
        return kolo_fi_problem(c, koloInvalidArgument, "pass an array",
                               "the argument %s cannot be KOLO_IN_PLACE", argument);
    }
    if (!kolo_fi_is_kolos(c, out) || !kolo_fi_named_fits(c, type, out)) return false;
    has = out->elements * out->element_bytes;
    if (bytes > 0 && !there(c, out)) return false;
    if (out->rank > 0 && !out->assumed_size && has < bytes)
        return kolo_fi_problem(c, koloInvalidArgument, "correct the count or pass a larger array",
                               "the call needs %zu bytes of the argument %s, which has %zu", bytes,
                               argument, has);
    return true;
}

bool kolo_fi_measure(call *c, int64_t count, fortran_type type, bool reduces, int32_t op,
                    const int32_t *root, bool of_all, amount *out) {
    if (c->code != koloSuccess) return false;
    out->here = true;
    out->nranks = 1;
    if (count < 0)
        return kolo_fi_problem(c, koloInvalidArgument, "give a count of at least 0",
                               "the count is %lld", (long long)count);
    if (!kolo_fi_named_unit(c, type, reduces, op, &out->u) ||
        (of_all && !kolo_fi_ranks(c, &out->nranks)) ||
        (root && !kolo_fi_is_root(c, *root, &out->here)))
        return false;
    if (__builtin_mul_overflow((size_t)count, out->u.per_element, &out->count) ||
        __builtin_mul_overflow(out->count, out->u.bytes * (size_t)out->nranks, &out->bytes))
        return kolo_fi_problem(c, koloInvalidArgument,
                               "is the count an integer(8), and was it set?",
                               "%lld elements do not fit into the address space", (long long)count);
    out->bytes = out->count * out->u.bytes;
    return true;
}

static void explicit_reduction(call *c, action what, array send, array recv, int64_t count,
                               fortran_type type, int32_t op, const int32_t *root) {
    amount a;
    view s, r;
    const bool in_place = what != DO_REDUCE_SCATTER;
    if (!(what == DO_ALLREDUCE && kolo_fi_quick_allreduce_of(c, send, recv, count, type, op)) &&
        kolo_fi_measure(c, count, type, true, op, root, what == DO_REDUCE_SCATTER, &a)) {
        const size_t in = a.bytes * (size_t)a.nranks;
        if (kolo_fi_fits(c, send, "send", type, in, in_place && a.here, &s) &&
            (!a.here || kolo_fi_fits(c, recv, "recv", type, a.bytes, false, &r)))
            move_data(c, what, &s, in, a.here ? &r : NULL, a.bytes, a.u.type, a.count, op,
                             root ? *root : 0);
    }
    kolo_fi_finish(c);
}

static void explicit_single(call *c, action what, array buf, int64_t count, fortran_type type,
                            const int32_t *peer) {
    amount a;
    view v;
    if (!(what == DO_BCAST && kolo_fi_quick_bcast_of(c, buf, count, type, *peer)) &&
        kolo_fi_measure(c, count, type, false, 0, NULL, false, &a) &&
        kolo_fi_fits(c, buf, "buf", type, a.bytes, false, &v)) {
        const bool sends = what == DO_SEND;
        move_data(c, what, sends ? &v : NULL, a.bytes, sends ? NULL : &v, a.bytes, a.u.type,
                         a.count, 0, *peer);
    }
    kolo_fi_finish(c);
}

/* All-gather, gather, scatter and all-to-all in MPI's order: both sides have count and type, and
 * kolo wants them equal. */
static void explicit_blocks(call *c, action what, array send, int64_t send_count,
                            fortran_type send_type, array recv, int64_t recv_count,
                            fortran_type recv_type, const int32_t *root) {
    const bool scatters = what == DO_SCATTER;
    const fortran_type type = scatters ? recv_type : send_type;
    amount a;
    view s, r;
    if (kolo_fi_measure(c, scatters ? recv_count : send_count, type, false, 0, root, true, &a) &&
        a.here &&
        (send_count != recv_count || send_type.code != recv_type.code))
        kolo_fi_problem(c, koloInvalidArgument,
                        "give the same count and data type for both sides (elements for one rank)",
                        "the sides differ: %lld elements are sent and %lld received, or their "
                        "data types differ",
                        (long long)send_count, (long long)recv_count);
    if (c->code == koloSuccess) {
        const size_t all = a.bytes * (size_t)a.nranks;
        const size_t out = what == DO_ALLTOALL || scatters ? all : a.bytes;
        const size_t in = scatters ? a.bytes : all;
        const bool sends = !scatters || a.here, receives = what != DO_GATHER || a.here;
        if ((!sends || kolo_fi_fits(c, send, "send", type, out,
                            a.here && (what == DO_GATHER || what == DO_ALLGATHER), &s)) &&
            (!receives || kolo_fi_fits(c, recv, "recv", type, in, a.here && scatters, &r)))
            move_data(c, what, sends ? &s : NULL, out, receives ? &r : NULL, in, a.u.type,
                             a.count, 0, root ? *root : 0);
    }
    kolo_fi_finish(c);
}

/* One procedure for each kind of count. */
#define TYPE const fortran_type *type
#define BOTH(name, arguments4, arguments8, body)                   \
    KOLO_ENTRY void kolo_f_##name##_4(arguments4, COMM, IERROR) {  \
        BEGIN("kolo_" #name, NULL);                                \
        body;                                                      \
    }                                                              \
    KOLO_ENTRY void kolo_f_##name##_8(arguments8, COMM, IERROR) {  \
        BEGIN("kolo_" #name, NULL);                                \
        body;                                                      \
    }                                                              \
    KOLO_ENTRY void kolo_f_i##name##_4(arguments4, COMM, REQUEST, IERROR) { \
        BEGIN_REQUEST("kolo_i" #name);                             \
        body;                                                      \
    }                                                              \
    KOLO_ENTRY void kolo_f_i##name##_8(arguments8, COMM, REQUEST, IERROR) { \
        BEGIN_REQUEST("kolo_i" #name);                             \
        body;                                                      \
    }
#define REDUCTION(name, what, rest, root)                                                     \
    BOTH(name, LIST(array send, array recv, const int32_t *count, TYPE, OP rest),             \
         LIST(array send, array recv, const int64_t *count, TYPE, OP rest),                   \
         explicit_reduction(&c, what, send, recv, *count, *type, op->code, root))
#define SINGLE(name, what)                                                                    \
    BOTH(name, LIST(array buf, const int32_t *count, TYPE, PEER),                             \
         LIST(array buf, const int64_t *count, TYPE, PEER),                                   \
         explicit_single(&c, what, buf, *count, *type, peer))
#define SIDE(kind, side) array side, const kind *side##_count, const fortran_type *side##_type
#define BLOCKS(name, what, rest, root)                                                        \
    BOTH(name, LIST(SIDE(int32_t, send), SIDE(int32_t, recv) rest),                           \
         LIST(SIDE(int64_t, send), SIDE(int64_t, recv) rest),                                 \
         explicit_blocks(&c, what, send, *send_count, *send_type, recv, *recv_count,          \
                         *recv_type, root))
#define NOTHING
#define AND_ROOT , ROOT

REDUCTION(allreduce, DO_ALLREDUCE, NOTHING, NULL)
REDUCTION(reduce, DO_REDUCE, AND_ROOT, root)
REDUCTION(reduce_scatter, DO_REDUCE_SCATTER, NOTHING, NULL)
REDUCTION(scan, DO_SCAN, NOTHING, NULL)
REDUCTION(exscan, DO_EXSCAN, NOTHING, NULL)
SINGLE(bcast, DO_BCAST)
SINGLE(send, DO_SEND)
SINGLE(recv, DO_RECV)
BLOCKS(allgather, DO_ALLGATHER, NOTHING, NULL)
BLOCKS(alltoall, DO_ALLTOALL, NOTHING, NULL)
BLOCKS(gather, DO_GATHER, AND_ROOT, root)
BLOCKS(scatter, DO_SCATTER, AND_ROOT, root)
