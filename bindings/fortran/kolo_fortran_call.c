/* One call: its errors, its temporaries, and groups of calls. */
#define _GNU_SOURCE
#include "kolo_fortran.h"
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The sentence of the last call of this thread that failed, and the communicator it is about. */
static _Thread_local char last_text[SENTENCE_BYTES];
static _Thread_local koloComm_t last_comm;

static _Thread_local int group_depth;
/* The first call of the open group that failed here: the group must not run without it. */
static _Thread_local char refused_text[SENTENCE_BYTES];
static _Thread_local koloResult_t refused_code;
/* The calls without ierror that this thread is in. */
static _Thread_local int stopping;

/* Such a call stops the job, and says why in the words of Fortran. */
static int says_itself(void) {
    return stopping > 0;
}

__attribute__((constructor)) static void speak_for_fortran(void) {
    KOLO_IGNORE(koloQuietWhile(says_itself));
    KOLO_IGNORE(koloTranslateLog(kolo_fi_words));
}

static void no_communicator(call *c) {
    kolo_fi_problem(c, koloInvalidArgument,
                    "make it with kolo_comm_init, and call nothing after kolo_comm_destroy",
                    "comm was not initialised (kolo_comm_init) or is already destroyed");
}

void kolo_fi_begin(call *c, const char *name, const fortran_comm *comm,
                   const fortran_stream *stream, int32_t *ierror) {
    c->name = name;
    c->comm = comm ? comm->handle : NULL;
    c->async = stream != NULL;
    c->stream = stream ? stream->handle : NULL;
    c->request = NULL;
    c->graph = NULL;
    c->ierror = ierror;
    c->code = koloSuccess;
    c->text[0] = '\0';
    if (!ierror) stopping++;
    if (c->async && c->stream == NULL)
        kolo_fi_problem(c, koloInvalidArgument, "make it with kolo_stream_create",
                        "the stream was not created or is already destroyed");
    if (comm && !comm->handle) no_communicator(c);
}

void kolo_fi_begin_request(call *c, const char *name, const fortran_comm *comm,
                           fortran_request *request, int32_t *ierror) {
    kolo_fi_begin(c, name, comm, NULL, ierror);
    c->async = true;
    c->request = &request->handle;
    request->handle = NULL;
}

void kolo_fi_begin_graph(call *c, const char *name, const fortran_graph *graph,
                         const fortran_stream *stream, fortran_request *request, int32_t *ierror) {
    const fortran_comm comm = {graph->comm};
    if (request)
        kolo_fi_begin_request(c, name, &comm, request, ierror);
    else
        kolo_fi_begin(c, name, &comm, stream, ierror);
    c->graph = graph->handle;
}

bool kolo_fi_problem(call *c, koloResult_t code, const char *remedy, const char *what, ...) {
    char text[SENTENCE_BYTES];
    va_list list;
    va_start(list, what);
    vsnprintf(text, sizeof text, what, list);
    va_end(list);
    KOLO_IGNORE(koloDescribeError(c->comm, c->name, text, remedy, c->text, sizeof c->text));
    c->code = code;
    return false;
}

bool kolo_fi_check(call *c, koloResult_t code) {
    c->code = code;
    return code == koloSuccess;
}

/* Ends the job as MPI does when a call fails that nobody watches. */
static _Noreturn void stop_job(const char *sentence, const call *c) {
    /* Whoever read standard error may be gone, and the exit below is to come all the same. */
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, NULL);
    fprintf(stderr, "%s\nkolo: the job stops, because this call of %s has no ierror argument\n",
            sentence, c->name);
    fflush(NULL);
    const bool flushed = kolo_fi_flush_units();
    kolo_fi_wait_until_read();
    /* MPICH's MPI_Abort may hang where another rank is in MPI_Finalize, and exit where an exit
     * handler does. The alarm ends the process then, and a launcher ends the others. */
    signal(SIGALRM, SIG_DFL);
    sigset_t alarms;
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    pthread_sigmask(SIG_UNBLOCK, &alarms, NULL);
    alarm(10);
    kolo_fi_abort_mpi();
    /* exit lets the Fortran library write its buffers. A launcher ends the other ranks when one
     * ends with a non-zero code. */
    if (!flushed) _exit(1);
    exit(1);
}

void kolo_fi_finish(call *c) {
    const bool own = c->text[0] != '\0'; /* not of a call of libkolo, which has told of it */
    int rank;
    if (!c->ierror) stopping--;
    if (c->code == koloSuccess) {
        if (c->ierror) *c->ierror = koloSuccess;
        return;
    }
    if (!own) {
        kolo_fi_words(koloGetLastError(NULL), c->text, sizeof c->text);
        /* A copy of a variable outlives the communicator. */
        if (c->comm && c->code == koloInvalidArgument &&
            koloCommUserRank(c->comm, &rank) != koloSuccess)
            no_communicator(c);
    } else if (group_depth > 0 && !refused_text[0]) {
        memcpy(refused_text, c->text, sizeof refused_text);
        refused_code = c->code;
    }
    if (own && c->ierror) koloReportError(c->comm, c->code, c->text);
    last_comm = c->comm;
    memcpy(last_text, c->text, sizeof last_text);
    if (!c->ierror) stop_job(c->text, c);
    *c->ierror = (int32_t)c->code;
}

size_t kolo_fi_last_error(koloComm_t comm, char *text, size_t capacity) {
    /* A call on a stream or of a group is about no communicator in particular. */
    const bool own = last_text[0] && (!comm || !last_comm || comm == last_comm);
    char sentence[SENTENCE_BYTES];
    size_t length;
    if (!own) kolo_fi_words(koloGetLastError(comm), sentence, sizeof sentence);
    length = strlen(own ? last_text : sentence);
    if (length > capacity) length = capacity;
    memcpy(text, own ? last_text : sentence, length);
    return length;
}

/* The call with a request, with a stream, or blocking. */
#define DO(name, ...)                                            \
    (c->request ? koloI##name(__VA_ARGS__, c->comm, c->request)  \
                : kolo##name(__VA_ARGS__, c->comm, c->stream))
#define ALONG(name, ...)                                         \
    (c->request ? koloI##name(__VA_ARGS__, c->graph, c->request) \
                : kolo##name(__VA_ARGS__, c->graph, c->stream))
#define OUT e->out->counts, e->out->displs
#define IN e->in->counts, e->in->displs

static koloResult_t run(const call *c, const exchange *e, const void *send, void *recv) {
    const size_t count = e->count;
    const koloDataType_t type = e->type;
    const koloRedOp_t op = (koloRedOp_t)e->op;
    const int peer = e->peer;
    switch (e->what) {
    case DO_ALLREDUCE: return DO(AllReduce, send, recv, count, type, op);
    case DO_BCAST: return DO(Bcast, recv, count, type, peer);
    case DO_REDUCE: return DO(Reduce, send, recv, count, type, op, peer);
    case DO_ALLGATHER: return DO(AllGather, send, recv, count, type);
    case DO_GATHER: return DO(Gather, send, recv, count, type, peer);
    case DO_SCATTER: return DO(Scatter, send, recv, count, type, peer);
    case DO_REDUCE_SCATTER: return DO(ReduceScatter, send, recv, count, type, op);
    case DO_ALLTOALL: return DO(AllToAll, send, recv, count, type);
    case DO_SEND: return DO(Send, send, count, type, peer);
    case DO_RECV: return DO(Recv, recv, count, type, peer);
    case DO_SENDRECV:
        return DO(SendRecv, send, count, peer, recv, e->other, (int)e->source, type);
    case DO_SCAN: return DO(Scan, send, recv, count, type, op);
    case DO_EXSCAN: return DO(Exscan, send, recv, count, type, op);
    case DO_ALLGATHERV: return DO(AllGatherV, send, count, recv, IN, type);
    case DO_GATHERV: return DO(GatherV, send, count, recv, IN, type, peer);
    case DO_SCATTERV: return DO(ScatterV, send, OUT, recv, count, type, peer);
    case DO_REDUCE_SCATTERV: return DO(ReduceScatterV, send, recv, e->out->counts, type, op);
    case DO_ALLTOALLV: return DO(AllToAllV, send, OUT, recv, IN, type);
    case DO_NEIGHBOR_ALLGATHER: return ALONG(NeighborAllGather, send, recv, count, type);
    case DO_NEIGHBOR_ALLTOALL: return ALONG(NeighborAllToAll, send, recv, count, type);
    case DO_NEIGHBOR_ALLGATHERV: return ALONG(NeighborAllGatherV, send, count, recv, IN, type);
    case DO_NEIGHBOR_ALLTOALLV: return ALONG(NeighborAllToAllV, send, OUT, recv, IN, type);
    }
    return koloInternalError;
}

/* The block of this rank inside the other buffer, for KOLO_IN_PLACE. */
static bool own_block(call *c, const exchange *e, size_t block_bytes, size_t *offset) {
    const bool same = e->what == DO_ALLREDUCE || e->what == DO_REDUCE || e->what == DO_SCAN ||
                      e->what == DO_EXSCAN;
    const blocks *b = e->what == DO_SCATTERV ? e->out : e->in;
    int rank = 0;
    *offset = 0;
    if (same) return true;
    if (!kolo_fi_check(c, koloCommUserRank(c->comm, &rank))) return false;
    if (!b) {
        *offset = (size_t)rank * block_bytes;
        return true;
    }
    const size_t element = e->count ? block_bytes / e->count : 0;
    if (b->displs)
        *offset = b->displs[rank] * element;
    else
        for (int r = 0; r < rank; r++) *offset += b->counts[r] * element;
    return true;
}

/* Operations of the program are numbered from here on: those of kolo.h come before. */
enum { FIRST_MADE = 64 };

void kolo_fi_exchange(call *c, const exchange *e) {
    const view *send = e->send, *recv = e->recv;
    const bool send_in_place = send && send->in_place, recv_in_place = recv && recv->in_place;
    staged from = {0}, to = {0};
    size_t offset;
    const role sends = send && recv && send->base == recv->base ? SENT_IN_PLACE : SENT;
    if (kolo_fi_stage(c, send_in_place ? NULL : send, e->send_bytes, sends, &from) &&
        kolo_fi_stage(c, recv_in_place ? NULL : recv, e->recv_bytes, RECEIVED, &to)) {
        if (send_in_place && own_block(c, e, e->send_bytes, &offset)) from.data = to.data + offset;
        if (recv_in_place && own_block(c, e, e->recv_bytes, &offset)) to.data = from.data + offset;
        if (c->code == koloSuccess && (e->op < FIRST_MADE || kolo_fi_op_takes(c, e->op, e->type)))
            kolo_fi_check(c, run(c, e, from.data, to.data));
    }
    kolo_fi_unstage(c, &from);
    kolo_fi_unstage(c, &to);
}

bool kolo_fi_in_group(void) { return group_depth > 0; }

koloResult_t kolo_fi_group_start(void) {
    const koloResult_t code = koloGroupStart();
    if (code == koloSuccess) group_depth++;
    return code;
}

void kolo_fi_group_end(call *c) {
    koloResult_t code;
    if (group_depth == 1 && refused_text[0]) {
        /* libkolo was told of the call that failed, so it runs nothing. */
        KOLO_IGNORE(koloGroupEnd());
        code = c->code = refused_code;
        memcpy(c->text, refused_text, sizeof refused_text);
        refused_text[0] = '\0';
    } else {
        code = koloGroupEnd();
        kolo_fi_check(c, code);
    }
    if (group_depth > 0) group_depth--;
    if (group_depth == 0) kolo_fi_end_staged(code == koloSuccess);
}
