/* Entry points of the calls whose blocks have sizes of their own, and of those along graphs.
 *
 * Sizes and places come as integer arrays of either kind, as descriptors: how many there are is
 * checked. They count elements of the array in the short forms and of the data type in the explicit
 * ones (pairs, where an operation locates). */
#include "kolo_fortran.h"
#include <stdlib.h>

/* A number of an integer array of either kind. */
static int64_t number_at(array list, int index) {
    const char *at = (const char *)list->base_addr + index * list->dim[0].sm;
    return list->elem_len == 4 ? *(const int32_t *)at : *(const int64_t *)at;
}

static bool read_numbers(call *c, array list, const char *name, int number, size_t scale,
                         size_t *out) {
    if (list->dim[0].extent >= 0 && list->dim[0].extent < number)
        return kolo_fi_problem(c, koloInvalidArgument, "give one for each rank (each neighbour)",
                               "the argument %s has %lld elements for %d blocks", name,
                               (long long)list->dim[0].extent, number);
    for (int i = 0; i < number; i++) {
        const int64_t value = number_at(list, i);
        if (value < 0 || __builtin_mul_overflow((size_t)value, scale, &out[i]))
            return kolo_fi_problem(c, koloInvalidArgument,
                                   "check how counts and displacements are computed",
                                   "element %d of the argument %s is negative or too large (%lld)",
                                   i + 1, name, (long long)value);
    }
    return true;
}

/* Reads sizes and places; `displs` may be NULL. To be freed. */
static bool read_blocks(call *c, array counts, const char *counts_name, array displs,
                        const char *displs_name, int number, const unit *u, blocks *out) {
    *out = (blocks){calloc(2 * (size_t)number + 1, sizeof(size_t)), NULL, number, 0};
    if (!out->counts)
        return kolo_fi_problem(c, koloSystemError, "use fewer ranks", "no memory for %d blocks",
                               number);
    if (!read_numbers(c, counts, counts_name, number, u->per_element, out->counts)) return false;
    if (displs) {
        out->displs = out->counts + number;
        if (!read_numbers(c, displs, displs_name, number, u->per_element, out->displs))
            return false;
    }
    for (int i = 0; i < number; i++) {
        const size_t start = displs ? out->displs[i] : out->extent;
        size_t end;
        if (out->counts[i] == 0) continue;
        if (__builtin_add_overflow(start, out->counts[i], &end) || end > SIZE_MAX / u->bytes)
            return kolo_fi_problem(c, koloInvalidArgument,
                                   "check how counts and displacements are computed",
                                   "block %d does not fit into the address space", i + 1);
        if (end > out->extent) out->extent = end;
    }
    return true;
}

/* The array of the short form holds its blocks. */
static bool holds(call *c, const view *v, const unit *u, const blocks *b) {
    const size_t has = v->elements * u->per_element / u->group;
    if (b->extent <= has) return true;
    return kolo_fi_problem(c, koloInvalidArgument, "pass a larger array, or correct the counts",
                           "the argument %s has %zu elements, its blocks end at %zu", v->argument,
                           has / u->per_element, b->extent / u->per_element);
}

/* Blocks that come in and go out: ranks, or neighbours. */
static bool degrees(call *c, int *in, int *out) {
    if (c->graph) return kolo_fi_check(c, koloGraphDegrees(c->graph, in, out));
    if (!kolo_fi_ranks(c, in)) return false;
    *out = *in;
    return true;
}

static size_t c_elements(const view *v, const unit *u) {
    return v->elements * u->per_element / u->group;
}

/* One block against many: all-gather, gather, scatter and reduce-scatter, short. */
static void short_one(call *c, action what, array one, array many, array counts, array displs,
                      int32_t op, const int32_t *root) {
    const bool scatters = what == DO_SCATTERV || what == DO_REDUCE_SCATTERV;
    const char *one_name = scatters ? "recv" : "send", *many_name = scatters ? "send" : "recv";
    const char *counts_name = what == DO_SCATTERV ? "sendcounts" : "recvcounts";
    view block, all;
    unit u;
    blocks b = {0};
    int in = 0, out = 0;
    bool here = true;
    if (kolo_fi_whole(c, one, one_name, &block) &&
        (what == DO_REDUCE_SCATTERV ? kolo_fi_reduce_unit(c, &block, op, &u)
                                    : kolo_fi_move_unit(c, &block, &u)) &&
        (!root || kolo_fi_is_root(c, *root, &here)) && degrees(c, &in, &out) &&
        (!here || (kolo_fi_whole(c, many, many_name, &all) &&
                   kolo_fi_same_type(c, &block, &all) &&
                   read_blocks(c, counts, counts_name, displs, "displs", in, &u, &b) &&
                   holds(c, &all, &u, &b)))) {
        const size_t block_bytes = block.elements * block.element_bytes;
        const size_t all_bytes = here ? all.elements * all.element_bytes : 0;
        const exchange e = {.what = what,
                            .send = scatters ? (here ? &all : NULL) : &block,
                            .recv = scatters ? &block : (here ? &all : NULL),
                            .send_bytes = scatters ? all_bytes : block_bytes,
                            .recv_bytes = scatters ? block_bytes : all_bytes,
                            .type = u.type,
                            .count = c_elements(&block, &u),
                            .out = &b,
                            .in = &b,
                            .op = op,
                            .peer = root ? *root : 0};
        int rank = 0;
        if (what == DO_REDUCE_SCATTERV && kolo_fi_check(c, koloCommUserRank(c->comm, &rank)) &&
            b.counts[rank] != e.count)
            kolo_fi_problem(c, koloInvalidArgument, "make recv as large as the own block",
                            "the argument recv has %zu elements, but recvcounts of this rank is "
                            "%zu",
                            e.count, b.counts[rank]);
        else if (c->code == koloSuccess)
            kolo_fi_exchange(c, &e);
    }
    free(b.counts);
    kolo_fi_finish(c);
}

/* Many blocks against many, short. */
static void short_many(call *c, action what, array send, array send_counts, array send_displs,
                       array recv, array recv_counts, array recv_displs) {
    view s, r;
    unit u;
    blocks out_blocks = {0}, in_blocks = {0};
    int in = 0, out = 0;
    if (kolo_fi_whole(c, send, "send", &s) && kolo_fi_whole(c, recv, "recv", &r) &&
        kolo_fi_same_type(c, &s, &r) && kolo_fi_move_unit(c, &s, &u) && degrees(c, &in, &out) &&
        read_blocks(c, send_counts, "sendcounts", send_displs, "sdispls", out, &u, &out_blocks) &&
        read_blocks(c, recv_counts, "recvcounts", recv_displs, "rdispls", in, &u, &in_blocks) &&
        holds(c, &s, &u, &out_blocks) && holds(c, &r, &u, &in_blocks)) {
        const exchange e = {.what = what,
                            .send = &s,
                            .recv = &r,
                            .send_bytes = s.elements * s.element_bytes,
                            .recv_bytes = r.elements * r.element_bytes,
                            .type = u.type,
                            .out = &out_blocks,
                            .in = &in_blocks};
        kolo_fi_exchange(c, &e);
    }
    free(out_blocks.counts);
    free(in_blocks.counts);
    kolo_fi_finish(c);
}

/* Equal blocks along a graph, short: the sizes follow from the arrays. */
static void short_equal(call *c, action what, array send, array recv) {
    view s, r;
    unit u;
    int in = 0, out = 0;
    if (kolo_fi_whole(c, send, "send", &s) && kolo_fi_whole(c, recv, "recv", &r) &&
        kolo_fi_same_type(c, &s, &r) && kolo_fi_move_unit(c, &s, &u) && degrees(c, &in, &out)) {
        const int sends = what == DO_NEIGHBOR_ALLGATHER ? 1 : out;
        const size_t block = sends ? s.elements / (size_t)sends
                                   : (in ? r.elements / (size_t)in : 0);
        const exchange e = {.what = what,
                            .send = &s,
                            .recv = &r,
                            .send_bytes = s.elements * s.element_bytes,
                            .recv_bytes = r.elements * r.element_bytes,
                            .type = u.type,
                            .count = block * u.per_element};
        if (block * (size_t)sends != s.elements || block * (size_t)in != r.elements)
            kolo_fi_problem(c, koloInvalidArgument,
                            "give both arrays blocks of one size, one for each neighbour",
                            "the argument send has %zu elements for %d blocks, the argument recv "
                            "has %zu for %d",
                            s.elements, sends, r.elements, in);
        else
            kolo_fi_exchange(c, &e);
    }
    kolo_fi_finish(c);
}

/* ---- explicit forms ---------------------------------------------------------------------- */

static bool one_type(call *c, fortran_type send, fortran_type recv) {
    if (send.code == recv.code) return true;
    return kolo_fi_problem(c, koloInvalidArgument, "give the same data type for both sides",
                           "the data types of the two sides differ");
}

/* One block against many. `type` is that of the side that this rank uses. */
static void explicit_one(call *c, action what, array one, int64_t count, fortran_type one_type_,
                         array many, array counts, array displs, fortran_type many_type,
                         const int32_t *root) {
    const bool scatters = what == DO_SCATTERV;
    amount a;
    blocks b = {0};
    view block, all;
    int in = 0, out = 0;
    if (kolo_fi_measure(c, count, one_type_, false, 0, root, true, &a) && degrees(c, &in, &out) &&
        (!a.here ||
         (one_type(c, one_type_, many_type) &&
          read_blocks(c, counts, scatters ? "sendcounts" : "recvcounts", displs, "displs", in,
                      &a.u, &b) &&
          kolo_fi_fits(c, many, scatters ? "send" : "recv", many_type, b.extent * a.u.bytes, false,
                       &all))) &&
        kolo_fi_fits(c, one, scatters ? "recv" : "send", one_type_, a.bytes,
                     a.here && !c->graph, &block)) {
        const size_t all_bytes = b.extent * a.u.bytes;
        const exchange e = {.what = what,
                            .send = scatters ? (a.here ? &all : NULL) : &block,
                            .recv = scatters ? &block : (a.here ? &all : NULL),
                            .send_bytes = scatters ? all_bytes : a.bytes,
                            .recv_bytes = scatters ? a.bytes : all_bytes,
                            .type = a.u.type,
                            .count = a.count,
                            .out = &b,
                            .in = &b,
                            .peer = root ? *root : 0};
        kolo_fi_exchange(c, &e);
    }
    free(b.counts);
    kolo_fi_finish(c);
}

static void explicit_reduce_scatter(call *c, array send, array recv, array counts,
                                    fortran_type type, const fortran_op *op) {
    amount a;
    blocks b = {0};
    view s, r;
    int in = 0, out = 0, rank = 0;
    if (kolo_fi_measure(c, 0, type, true, op->code, NULL, true, &a) && degrees(c, &in, &out) &&
        kolo_fi_check(c, koloCommUserRank(c->comm, &rank)) &&
        read_blocks(c, counts, "recvcounts", NULL, "", in, &a.u, &b) &&
        kolo_fi_fits(c, send, "send", type, b.extent * a.u.bytes, false, &s) &&
        kolo_fi_fits(c, recv, "recv", type, b.counts[rank] * a.u.bytes, false, &r)) {
        const exchange e = {.what = DO_REDUCE_SCATTERV,
                            .send = &s,
                            .recv = &r,
                            .send_bytes = b.extent * a.u.bytes,
                            .recv_bytes = b.counts[rank] * a.u.bytes,
                            .type = a.u.type,
                            .out = &b,
                            .in = &b,
                            .op = op->code};
        kolo_fi_exchange(c, &e);
    }
    free(b.counts);
    kolo_fi_finish(c);
}

static void explicit_many(call *c, action what, array send, array send_counts, array send_displs,
                          fortran_type send_type, array recv, array recv_counts,
                          array recv_displs, fortran_type recv_type) {
    amount a;
    blocks out_blocks = {0}, in_blocks = {0};
    view s, r;
    int in = 0, out = 0;
    if (kolo_fi_measure(c, 0, send_type, false, 0, NULL, true, &a) && degrees(c, &in, &out) &&
        one_type(c, send_type, recv_type) &&
        read_blocks(c, send_counts, "sendcounts", send_displs, "sdispls", out, &a.u,
                    &out_blocks) &&
        read_blocks(c, recv_counts, "recvcounts", recv_displs, "rdispls", in, &a.u, &in_blocks) &&
        kolo_fi_fits(c, send, "send", send_type, out_blocks.extent * a.u.bytes, false, &s) &&
        kolo_fi_fits(c, recv, "recv", recv_type, in_blocks.extent * a.u.bytes, false, &r)) {
        const exchange e = {.what = what,
                            .send = &s,
                            .recv = &r,
                            .send_bytes = out_blocks.extent * a.u.bytes,
                            .recv_bytes = in_blocks.extent * a.u.bytes,
                            .type = a.u.type,
                            .out = &out_blocks,
                            .in = &in_blocks};
        kolo_fi_exchange(c, &e);
    }
    free(out_blocks.counts);
    free(in_blocks.counts);
    kolo_fi_finish(c);
}

static void explicit_equal(call *c, action what, array send, int64_t send_count,
                           fortran_type send_type, array recv, int64_t recv_count,
                           fortran_type recv_type) {
    amount a;
    view s, r;
    int in = 0, out = 0;
    if (kolo_fi_measure(c, send_count, send_type, false, 0, NULL, true, &a) &&
        degrees(c, &in, &out) && one_type(c, send_type, recv_type) &&
        (send_count == recv_count ||
         kolo_fi_problem(c, koloInvalidArgument, "give the same count for both sides",
                         "%lld elements are sent and %lld received", (long long)send_count,
                         (long long)recv_count))) {
        const size_t sends = what == DO_NEIGHBOR_ALLGATHER ? 1 : (size_t)out;
        const size_t send_bytes = sends * a.bytes, recv_bytes = (size_t)in * a.bytes;
        const exchange e = {.what = what,
                            .send = &s,
                            .recv = &r,
                            .send_bytes = send_bytes,
                            .recv_bytes = recv_bytes,
                            .type = a.u.type,
                            .count = a.count};
        if (kolo_fi_fits(c, send, "send", send_type, send_bytes, false, &s) &&
            kolo_fi_fits(c, recv, "recv", recv_type, recv_bytes, false, &r))
            kolo_fi_exchange(c, &e);
    }
    kolo_fi_finish(c);
}

/* ---- entry points ------------------------------------------------------------------------ */

/* What a call is on: a communicator, or a graph. */
#define ARG_comm const fortran_comm *comm
#define ARG_graph const fortran_graph *graph
#define STREAM const fortran_stream *stream
#define REQUEST fortran_request *request
#define IERROR int32_t *ierror
#define LIST(...) __VA_ARGS__
#define BEGIN_comm(name, stream) kolo_fi_begin(&c, name, comm, stream, ierror)
#define BEGIN_comm_REQUEST(name) kolo_fi_begin_request(&c, name, comm, request, ierror)
#define BEGIN_graph(name, stream) kolo_fi_begin_graph(&c, name, graph, stream, NULL, ierror)
#define BEGIN_graph_REQUEST(name) kolo_fi_begin_graph(&c, name, graph, NULL, request, ierror)

#define PLAIN(ON, name, suffix, arguments, body)                             \
    KOLO_ENTRY void kolo_f_##name##suffix(arguments, ARG_##ON, IERROR) {           \
        call c;                                                              \
        BEGIN_##ON("kolo_" #name, NULL);                                     \
        body;                                                                \
    }
#define ON_STREAM(ON, name, suffix, arguments, body)                         \
    KOLO_ENTRY void kolo_f_##name##suffix##s(arguments, ARG_##ON, STREAM, IERROR) { \
        call c;                                                              \
        BEGIN_##ON("kolo_" #name, stream);                                   \
        body;                                                                \
    }
#define WITH_REQUEST(ON, name, suffix, arguments, body)                      \
    KOLO_ENTRY void kolo_f_i##name##suffix(arguments, ARG_##ON, REQUEST, IERROR) { \
        call c;                                                              \
        BEGIN_##ON##_REQUEST("kolo_i" #name);                                \
        body;                                                                \
    }
#define SHORT(ON, name, suffix, arguments, body)       \
    PLAIN(ON, name, suffix, LIST(arguments), body)     \
    ON_STREAM(ON, name, suffix, LIST(arguments), body) \
    WITH_REQUEST(ON, name, suffix, LIST(arguments), body)
/* Integer arrays of 4 and of 8 bytes: the descriptor tells. */
#define KINDS(ON, name, suffix, arguments, body)           \
    SHORT(ON, name, suffix##_4, LIST(arguments), body)     \
    SHORT(ON, name, suffix##_8, LIST(arguments), body)
#define EXPLICIT(ON, name, arguments4, arguments8, body)     \
    PLAIN(ON, name, _x4, LIST(arguments4), body)             \
    WITH_REQUEST(ON, name, _x4, LIST(arguments4), body)      \
    PLAIN(ON, name, _x8, LIST(arguments8), body)             \
    WITH_REQUEST(ON, name, _x8, LIST(arguments8), body)
#define TYPE(side) const fortran_type *side##type
#define ROOT const int32_t *root

#define ONE(ON, name, what, rest, root)                                                      \
    KINDS(ON, name, , LIST(array send, array recv, array recvcounts rest),                   \
          short_one(&c, what, send, recv, recvcounts, NULL, 0, root))                        \
    KINDS(ON, name, _d, LIST(array send, array recv, array recvcounts, array displs rest),   \
          short_one(&c, what, send, recv, recvcounts, displs, 0, root))                      \
    EXPLICIT(ON, name,                                                                       \
             LIST(array send, const int32_t *sendcount, TYPE(send), array recv,              \
                  array recvcounts, array displs, TYPE(recv) rest),                          \
             LIST(array send, const int64_t *sendcount, TYPE(send), array recv,              \
                  array recvcounts, array displs, TYPE(recv) rest),                          \
             explicit_one(&c, what, send, *sendcount, *sendtype, recv, recvcounts, displs,   \
                          *recvtype, root))
#define MANY(ON, name, what)                                                                 \
    KINDS(ON, name, , LIST(array send, array sendcounts, array recv, array recvcounts),      \
          short_many(&c, what, send, sendcounts, NULL, recv, recvcounts, NULL))              \
    KINDS(ON, name, _d,                                                                      \
          LIST(array send, array sendcounts, array recv, array recvcounts, array sdispls,    \
               array rdispls),                                                               \
          short_many(&c, what, send, sendcounts, sdispls, recv, recvcounts, rdispls))        \
    EXPLICIT(ON, name,                                                                       \
             LIST(array send, array sendcounts, array sdispls, TYPE(send), array recv,       \
                  array recvcounts, array rdispls, TYPE(recv)),                              \
             LIST(array send, array sendcounts, array sdispls, TYPE(send), array recv,       \
                  array recvcounts, array rdispls, TYPE(recv)),                              \
             explicit_many(&c, what, send, sendcounts, sdispls, *sendtype, recv, recvcounts, \
                           rdispls, *recvtype))
#define EQUAL(name, what)                                                                    \
    SHORT(graph, name, , LIST(array send, array recv), short_equal(&c, what, send, recv))    \
    EXPLICIT(graph, name,                                                                    \
             LIST(array send, const int32_t *sendcount, TYPE(send), array recv,              \
                  const int32_t *recvcount, TYPE(recv)),                                     \
             LIST(array send, const int64_t *sendcount, TYPE(send), array recv,              \
                  const int64_t *recvcount, TYPE(recv)),                                     \
             explicit_equal(&c, what, send, *sendcount, *sendtype, recv, *recvcount,         \
                            *recvtype))
#define NOTHING
#define AND_ROOT , ROOT

ONE(comm, allgatherv, DO_ALLGATHERV, NOTHING, NULL)
ONE(comm, gatherv, DO_GATHERV, AND_ROOT, root)
ONE(graph, neighbor_allgatherv, DO_NEIGHBOR_ALLGATHERV, NOTHING, NULL)
MANY(comm, alltoallv, DO_ALLTOALLV)
MANY(graph, neighbor_alltoallv, DO_NEIGHBOR_ALLTOALLV)
EQUAL(neighbor_allgather, DO_NEIGHBOR_ALLGATHER)
EQUAL(neighbor_alltoall, DO_NEIGHBOR_ALLTOALL)

KINDS(comm, scatterv, , LIST(array send, array sendcounts, array recv, ROOT),
      short_one(&c, DO_SCATTERV, recv, send, sendcounts, NULL, 0, root))
KINDS(comm, scatterv, _d, LIST(array send, array sendcounts, array recv, array displs, ROOT),
      short_one(&c, DO_SCATTERV, recv, send, sendcounts, displs, 0, root))
EXPLICIT(comm, scatterv,
         LIST(array send, array sendcounts, array displs, TYPE(send), array recv,
              const int32_t *recvcount, TYPE(recv), ROOT),
         LIST(array send, array sendcounts, array displs, TYPE(send), array recv,
              const int64_t *recvcount, TYPE(recv), ROOT),
         explicit_one(&c, DO_SCATTERV, recv, *recvcount, *recvtype, send, sendcounts, displs,
                      *sendtype, root))

#define OP const fortran_op *op
KINDS(comm, reduce_scatterv, , LIST(array send, array recv, array recvcounts, OP),
      short_one(&c, DO_REDUCE_SCATTERV, recv, send, recvcounts, NULL, op->code, NULL))
EXPLICIT(comm, reduce_scatterv,
         LIST(array send, array recv, array recvcounts, TYPE(data), OP),
         LIST(array send, array recv, array recvcounts, TYPE(data), OP),
         explicit_reduce_scatter(&c, send, recv, recvcounts, *datatype, op))
