/* What the parts of the Fortran decoder share.
 *
 * Problem: Fortran hands arrays of any type, kind and rank to one procedure, as descriptors whose
 * type codes differ between compilers, possibly with gaps between the elements, and wants errors
 * to stop the job unless it asked for the code.
 *
 * Idea: a descriptor becomes a `view` (decode.c: the only part that knows type codes), a call
 * carries its name, communicator and error text (call.c), and all data calls take one path:
 * views are checked, gaps are packed away, the C function runs, results are unpacked.
 * kolo_fortran.c has the entry points of the data calls, quick.c the short way of the most usual
 * ones, staged.c the temporaries, control.c the entry points of all others, op.c operations of the
 * program, words.c Fortran's names for what libkolo's sentences speak of, registered.c arrays that
 * peers read in place, wide.c and the functions of wide.awk integers of 8 bytes. The files are
 * compiled once for each Fortran compiler, with that compiler's ISO_Fortran_binding.h; native.c is
 * for gfortran alone. */
#ifndef KOLO_FORTRAN_H
#define KOLO_FORTRAN_H

#include <ISO_Fortran_binding.h>
#include <kolo.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KOLO_ENTRY __attribute__((visibility("default")))

/* Longer sentences are cut. */
#define SENTENCE_BYTES 2048

/* The types of module kolo as C sees them. */
typedef struct {
    koloComm_t handle;
} fortran_comm;
typedef struct {
    koloStream_t handle;
} fortran_stream;
typedef struct {
    koloRequest_t handle;
} fortran_request;
typedef struct {
    koloGraph_t handle;
    koloComm_t comm;
} fortran_graph;
typedef struct {
    void *handle;
} fortran_registration;
typedef struct {
    int32_t code;
} fortran_op;
typedef struct {
    int32_t code;
} fortran_type;

/* Kinds of types, as far as kolo treats them differently. */
typedef enum {
    CLASS_INTEGER,
    CLASS_REAL,
    CLASS_BFLOAT,
    CLASS_COMPLEX,
    CLASS_LOGICAL,
    CLASS_CHARACTER,
    CLASS_STRUCT,
    CLASS_POINTER,
    CLASS_UNKNOWN
} type_class;

/* An array argument. */
typedef struct {
    const char *argument; /* its name in the interface */
    char *base;
    type_class class;
    size_t element_bytes;
    size_t elements; /* 0 when assumed-size */
    bool assumed_size;
    bool contiguous;
    bool in_place; /* it is KOLO_IN_PLACE */
    bool of_mpi;   /* it is MPI_IN_PLACE */
    bool copy;     /* of the compiler, gone after the call */
    bool unclear;  /* a string of unknown length, or an integer(1) */
    int rank;
    CFI_dim_t dim[CFI_MAX_RANK];
} view;

/* One call of a Fortran procedure. */
typedef struct {
    const char *name;
    koloComm_t comm;
    bool async;
    koloStream_t stream;
    koloRequest_t *request; /* NULL: not asked for */
    koloGraph_t graph;
    int32_t *ierror; /* NULL: the argument is absent */
    koloResult_t code;
    char text[SENTENCE_BYTES]; /* the sentence when `code` was found here and not by libkolo */
} call;

/* What moves, in the terms of the C interface. */
typedef struct {
    koloDataType_t type;
    size_t per_element; /* C elements for one Fortran element */
    size_t bytes;       /* of one C element */
    size_t group;       /* Fortran elements that make one C element: 2 for pairs in an array */
} unit;

typedef enum {
    DO_ALLREDUCE,
    DO_BCAST,
    DO_REDUCE,
    DO_ALLGATHER,
    DO_GATHER,
    DO_SCATTER,
    DO_REDUCE_SCATTER,
    DO_ALLTOALL,
    DO_SEND,
    DO_RECV,
    DO_SENDRECV,
    DO_SCAN,
    DO_EXSCAN,
    DO_NEIGHBOR_ALLGATHER,
    DO_NEIGHBOR_ALLTOALL,
    DO_ALLGATHERV,
    DO_GATHERV,
    DO_SCATTERV,
    DO_REDUCE_SCATTERV,
    DO_ALLTOALLV,
    DO_NEIGHBOR_ALLGATHERV,
    DO_NEIGHBOR_ALLTOALLV
} action;

/* Sizes and places of blocks, in C elements; displs may be NULL. */
typedef struct {
    size_t *counts, *displs;
    int number;
    size_t extent; /* C elements of a buffer that holds them */
} blocks;

/* What a call exchanges. Views are NULL where the call does not use the side. */
typedef struct {
    action what;
    const view *send, *recv;
    size_t send_bytes, recv_bytes; /* of the whole sides */
    koloDataType_t type;
    size_t count, other; /* C elements of the block; of the other side's, where it may differ */
    const blocks *out, *in;
    int32_t op, peer;
    int32_t source; /* of DO_SENDRECV, which sends to `peer` */
} exchange;

typedef const CFI_cdesc_t *array;

/* Attributes of descriptors that kolo_fortran_native.c makes, beside those of the standard. */
#define KOLO_ATTRIBUTE_COPY 100
#define KOLO_ATTRIBUTE_UNCLEAR 101

/* What an explicit call moves. */
typedef struct {
    unit u;
    size_t count; /* C elements */
    size_t bytes; /* of one block */
    int nranks;   /* 1 where only one block counts */
    bool here; /* this rank is the root, or there is none */
} amount;

/* An argument of which kolo needs no more than this: an integer or a real, or an array of them
 * without gaps. */
typedef struct {
    void *base;
    size_t elements;
    koloDataType_t type;
} simple;

/* kolo_fortran_decode.c */
bool kolo_fi_simple(const CFI_cdesc_t *descriptor, simple *out);
bool kolo_fi_is_in_place(const CFI_cdesc_t *descriptor);
/* A problem, where the argument is MPI_IN_PLACE. */
bool kolo_fi_is_kolos(call *c, const view *v);
void kolo_fi_view(const CFI_cdesc_t *descriptor, const char *argument, view *out);
void kolo_fi_type_name(const view *v, char *text, size_t capacity);
void kolo_fi_pack(const view *v, char *packed, size_t bytes);
void kolo_fi_unpack(const view *v, const char *packed, size_t bytes);
bool kolo_fi_move_unit(call *c, const view *v, unit *out);
bool kolo_fi_reduce_unit(call *c, const view *v, int32_t op, unit *out);
bool kolo_fi_named_unit(call *c, fortran_type type, bool reduces, int32_t op, unit *out);
bool kolo_fi_named_fits(call *c, fortran_type type, const view *v);
const char *kolo_fi_named(int32_t code); /* the name of a data type, or NULL */

/* kolo_fortran.c: what an argument is, checked. Each is false after a problem. */
bool kolo_fi_plain(call *c, const view *v);
bool kolo_fi_whole(call *c, array descriptor, const char *argument, view *out);
bool kolo_fi_same_type(call *c, const view *send, const view *recv);
bool kolo_fi_sized(call *c, const view *small, int times, const view *large);
bool kolo_fi_ranks(call *c, int *nranks);
bool kolo_fi_is_root(call *c, int32_t root, bool *answer);
bool kolo_fi_fits(call *c, array descriptor, const char *argument, fortran_type type, size_t bytes,
                  bool may_be_in_place, view *out);
/* `of_all`: buffers have a block for each rank. */
bool kolo_fi_measure(call *c, int64_t count, fortran_type type, bool reduces, int32_t op,
                     const int32_t *root, bool of_all, amount *out);

/* kolo_fortran_quick.c: true if the call was of the usual kind, and is done. */
bool kolo_fi_quick_allreduce(call *c, array send, array recv, int32_t op);
bool kolo_fi_quick_allreduce_of(call *c, array send, array recv, int64_t count, fortran_type type,
                                int32_t op);
bool kolo_fi_quick_bcast(call *c, array buf, int32_t root);
bool kolo_fi_quick_bcast_of(call *c, array buf, int64_t count, fortran_type type, int32_t root);

/* kolo_fortran_call.c */
void kolo_fi_begin(call *c, const char *name, const fortran_comm *comm,
                   const fortran_stream *stream, int32_t *ierror);
void kolo_fi_begin_request(call *c, const char *name, const fortran_comm *comm,
                           fortran_request *request, int32_t *ierror);
void kolo_fi_begin_graph(call *c, const char *name, const fortran_graph *graph,
                         const fortran_stream *stream, fortran_request *request, int32_t *ierror);
bool kolo_fi_problem(call *c, koloResult_t code, const char *remedy, const char *what, ...)
    __attribute__((format(printf, 4, 5)));
bool kolo_fi_check(call *c, koloResult_t code);
void kolo_fi_finish(call *c);
void kolo_fi_exchange(call *c, const exchange *e);

/* kolo_fortran_staged.c: an argument as the C function gets it, in a temporary where it must be.
 * Between the two stands the call. */
typedef struct temporary temporary;
typedef struct {
    char *data;
    temporary *temporary; /* NULL: the caller's own memory */
} staged;
/* SENT_IN_PLACE: what is sent is received into, too. */
typedef enum { SENT, SENT_IN_PLACE, RECEIVED } role;
bool kolo_fi_stage(call *c, const view *v, size_t bytes, role is, staged *out);
void kolo_fi_unstage(call *c, staged *s);
/* The open group has ended. */
void kolo_fi_end_staged(bool succeeded);
/* What a stream or a request reads is taken before it is asked whether it has ended, for another
 * thread may begin a call meanwhile; and given up or back behind that. */
temporary *kolo_fi_take_staged_of(const void *owner);
void kolo_fi_give_staged(temporary *taken, bool ended);

/* kolo_fortran_call.c again. */
bool kolo_fi_in_group(void);
koloResult_t kolo_fi_group_start(void);
void kolo_fi_group_end(call *c);
size_t kolo_fi_last_error(koloComm_t comm, char *text, size_t capacity);

/* kolo_fortran_op.c: false after a problem, where the operation was made for another type. */
bool kolo_fi_op_takes(call *c, int32_t op, koloDataType_t type);

/* kolo_fortran_words.c: a sentence of libkolo, cut to fit, in the words of Fortran. */
void kolo_fi_words(const char *sentence, char *text, size_t capacity);

/* kolo_fortran_control.c: how a program ends that made a wrong call. */
bool kolo_fi_flush_units(void);
void kolo_fi_wait_until_read(void);
void kolo_fi_abort_mpi(void);

#endif
