/*
 * The table of kolo_mpi_start as the kolo command line tool uses it: this program is not linked
 * to MPI and loads libkolo_mpi.so, whose path is its argument.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "double/kolo.h"

typedef uintptr_t Comm;
typedef int Reduce(Comm, const void *, void *, size_t, int, int);
typedef int Move(Comm, const void *, void *, size_t, int);
typedef int Rooted(Comm, const void *, void *, size_t, int, int);
typedef int GatherV(Comm, const void *, size_t, void *, const int *, const int *, int);
typedef int AllToAllV(Comm, const void *, const int *, const int *, void *, const int *,
                      const int *, int);

/* struct MpiApi of src/bootstrap/mpi_abi.rs */
typedef struct {
    size_t size;
    uint32_t version;
    int thread_level;
    const char *family, *library;
    Comm world;
    int rank, nranks;
    int (*table)(Comm, koloMpiTable *);
    int (*comm_info)(Comm, int *, int *);
    int (*split)(Comm, int, int, Comm *);
    int (*comm_free)(Comm);
    int (*barrier)(Comm);
    double (*wtime)(void);
    int (*bcast_bytes)(Comm, void *, size_t, int);
    int (*allgather_bytes)(Comm, const void *, size_t, void *);
    Reduce *allreduce, *reduce_scatter;
    int (*reduce)(Comm, const void *, void *, size_t, int, int, int);
    int (*bcast)(Comm, void *, size_t, int, int);
    Move *allgather, *alltoall;
    Rooted *gather, *scatter;
    int (*sendrecv)(Comm, const void *, void *, size_t, int, int, int);
    int (*finalize)(void);
    int (*abort)(int);
    Reduce *scan, *exscan;
    GatherV *allgatherv;
    int (*gatherv)(Comm, const void *, size_t, void *, const int *, const int *, int, int);
    int (*scatterv)(Comm, const void *, const int *, const int *, void *, size_t, int, int);
    int (*reduce_scatter_v)(Comm, const void *, void *, const int *, int, int);
    AllToAllV *alltoallv;
    int (*ring)(Comm, Comm *);
    Move *neighbor_allgather, *neighbor_alltoall;
    GatherV *neighbor_allgatherv;
    AllToAllV *neighbor_alltoallv;
} Api;

enum { NOT_SUPPORTED = -1, BAD_ARGUMENT = -2, INT32 = 2, INT64 = 4, DOUBLE = 8, N = 5, MOST = 64 };

static const Api *api;

#define CHECK(condition)                                                              \
    do {                                                                              \
        if (!(condition)) {                                                           \
            fprintf(stderr, "api.c:%d: %s fails\n", __LINE__, #condition);            \
            if (api != NULL)                                                          \
                api->abort(1);                                                        \
            exit(1);                                                                  \
        }                                                                             \
    } while (0)

static void reductions(int me, int n)
{
    int64_t send[MOST * N] = {0}, out[MOST * N] = {0};
    for (int op = 0; op < 4; op++) {
        for (int i = 0; i < n * N; i++)
            send[i] = (me + 1) * 2 + i % 3;
        int64_t fold[N];
        for (int i = 0; i < N; i++) {
            fold[i] = op == 1;
            for (int r = 0; r < n; r++) {
                int64_t value = (r + 1) * 2 + i % 3;
                if (op == 0)
                    fold[i] += value;
                else if (op == 1)
                    fold[i] *= value;
                else if (op == 2)
                    fold[i] = r == 0 || value > fold[i] ? value : fold[i];
                else
                    fold[i] = r == 0 || value < fold[i] ? value : fold[i];
            }
        }
        CHECK(api->allreduce(api->world, send, out, N, INT64, op) == 0);
        CHECK(memcmp(out, fold, sizeof fold) == 0);
        memcpy(out, send, sizeof fold);
        CHECK(api->allreduce(api->world, NULL, out, N, INT64, op) == 0);
        CHECK(memcmp(out, fold, sizeof fold) == 0);
        memset(out, 0, sizeof out);
        CHECK(api->reduce(api->world, send, out, N, INT64, op, n - 1) == 0);
        CHECK(me != n - 1 || memcmp(out, fold, sizeof fold) == 0);
    }
    /* Every element of the result of rank r is the sum of element r * N + i. */
    int64_t part[N];
    for (int i = 0; i < n * N; i++)
        send[i] = me * 1000 + i;
    CHECK(api->reduce_scatter(api->world, send, part, N, INT64, 0) == 0);
    for (int i = 0; i < N; i++)
        CHECK(part[i] == 1000 * (int64_t)n * (n - 1) / 2 + (int64_t)n * (me * N + i));
}

static void moves(int me, int n)
{
    double send[MOST * N] = {0}, out[MOST * N] = {0};
    for (int root = 0; root < n; root++) {
        for (int i = 0; i < N; i++)
            send[i] = me + i / 8.0;
        CHECK(api->bcast(api->world, send, N, DOUBLE, root) == 0);
        CHECK(send[0] == root && send[N - 1] == root + (N - 1) / 8.0);
        send[0] = me;
        CHECK(api->gather(api->world, send, out, 1, DOUBLE, root) == 0);
        for (int r = 0; me == root && r < n; r++)
            CHECK(out[r] == r);
        for (int i = 0; i < n * N; i++)
            send[i] = 100 * me + i;
        CHECK(api->scatter(api->world, send, out, N, DOUBLE, root) == 0);
        CHECK(out[0] == 100 * root + me * N);
    }
    for (int i = 0; i < n; i++)
        send[i] = 100 * me + i;
    CHECK(api->allgather(api->world, send, out, 1, DOUBLE) == 0);
    for (int r = 0; r < n; r++)
        CHECK(out[r] == 100 * r);
    CHECK(api->alltoall(api->world, send, out, 1, DOUBLE) == 0);
    for (int r = 0; r < n; r++)
        CHECK(out[r] == 100 * r + me);
    int next = (me + 1) % n, prev = (me + n - 1) % n, to = me, from = -1;
    CHECK(api->sendrecv(api->world, &to, &from, 1, INT32, next, prev) == 0);
    CHECK(from == prev);
    int all[MOST];
    CHECK(api->allgather_bytes(api->world, &me, sizeof me, all) == 0);
    for (int r = 0; r < n; r++)
        CHECK(all[r] == r);
    CHECK(api->bcast_bytes(api->world, &to, sizeof to, n - 1) == 0 && to == n - 1);
}

static void scans(int me)
{
    int64_t mine[2] = {me + 1, -me}, out[2] = {-5, -5};
    CHECK(api->scan(api->world, mine, out, 2, INT64, 0) == 0);
    CHECK(out[0] == (int64_t)(me + 1) * (me + 2) / 2 && out[1] == -(int64_t)me * (me + 1) / 2);
    CHECK(api->exscan(api->world, mine, out, 2, INT64, 0) == 0);
    CHECK(me == 0 || out[0] == (int64_t)me * (me + 1) / 2);
    memcpy(out, mine, sizeof out);
    CHECK(api->scan(api->world, NULL, out, 2, INT64, 2) == 0);
    CHECK(out[0] == me + 1 && out[1] == 0);
}

/* Block r has r elements, so block 0 is empty, and lies with a gap behind each block. */
static void blocks(int me, int n)
{
    static double send[MOST * MOST], out[MOST * MOST];
    int counts[MOST] = {0}, places[MOST] = {0}, same[MOST] = {0}, arrive[MOST] = {0}, end = 0;
    for (int r = 0; r < n; r++) {
        counts[r] = r;
        places[r] = end;
        same[r] = me;
        end += r + 1;
    }
    for (int i = 0; i < end; i++) {
        send[i] = 1000 * me + i;
        out[i] = -1;
    }
    CHECK(api->allgatherv(api->world, send, me, out, counts, places, DOUBLE) == 0);
    for (int r = 0; r < n; r++) {
        CHECK(r == 0 || out[places[r] + r - 1] == 1000 * r + r - 1);
        CHECK(r == n - 1 || out[places[r] + r] == -1);
    }
    for (int i = 0; i < me; i++)
        out[places[me] + i] = 7 * me;
    CHECK(api->allgatherv(api->world, NULL, me, out, counts, places, DOUBLE) == 0);
    CHECK(n == 1 || out[places[n - 1]] == 7 * (n - 1));
    for (int root = 0; root < n; root++) {
        CHECK(api->gatherv(api->world, send, me, out, counts, places, DOUBLE, root) == 0);
        for (int r = 1; me == root && r < n; r++)
            CHECK(out[places[r]] == 1000 * r);
        out[0] = -1;
        CHECK(api->scatterv(api->world, send, counts, places, out, me, DOUBLE, root) == 0);
        CHECK(me == 0 ? out[0] == -1 : out[0] == 1000 * root + places[me]);
    }
    /* Block r of everybody's data, packed, is summed for rank r. */
    CHECK(api->reduce_scatter_v(api->world, send, out, counts, DOUBLE, 0) == 0);
    int begin = me * (me - 1) / 2;
    for (int i = 0; i < me; i++)
        CHECK(out[i] == 1000.0 * n * (n - 1) / 2 + (double)n * (begin + i));
    /* Everybody sends r elements to rank r, which so gets its own number from everybody. */
    for (int r = 0; r < n; r++) {
        places[r] = r * (r - 1) / 2;
        arrive[r] = r * me;
    }
    CHECK(api->alltoallv(api->world, send, counts, places, out, same, arrive, DOUBLE) == 0);
    for (int r = 0; me > 0 && r < n; r++)
        CHECK(out[r * me] == 1000 * r + begin && out[r * me + me - 1] == 1000 * r + begin + me - 1);
}

static void neighbours(int me, int n)
{
    Comm ring = 0;
    int rank = -1, size = -1;
    CHECK(api->ring(api->world, &ring) == 0 && ring != 0);
    CHECK(api->comm_info(ring, &rank, &size) == 0 && rank == me && size == n);
    int below = (me + n - 1) % n, above = (me + 1) % n;
    int32_t send[2] = {10 * me, 10 * me + 1}, out[4] = {-1, -1, -1, -1};
    CHECK(api->neighbor_allgather(ring, send, out, 1, INT32) == 0);
    CHECK(out[0] == 10 * below && out[1] == 10 * above);
    int counts[2] = {1, 1}, from[2] = {0, 1}, places[2] = {3, 1};
    CHECK(api->neighbor_allgatherv(ring, send + 1, 1, out, counts, places, INT32) == 0);
    CHECK(out[3] == 10 * below + 1 && out[1] == 10 * above + 1);
    /* On a ring of one or two ranks MPIs differ in which of the two blocks goes where. */
    CHECK(api->neighbor_alltoall(ring, send, out, 1, INT32) == 0);
    CHECK(n < 3 || (out[0] == 10 * below + 1 && out[1] == 10 * above));
    CHECK(api->neighbor_alltoallv(ring, send, counts, from, out, counts, places, INT32) == 0);
    CHECK(n < 3 || (out[3] == 10 * below + 1 && out[1] == 10 * above));
    CHECK(api->comm_free(ring) == 0);
}

static void refusals(void)
{
    float in[4] = {0}, out[4];
    static const int without[] = {6, 9, 10, 11};
    for (int k = 0; k < 4; k++)
        CHECK(api->allreduce(api->world, in, out, 4, without[k], 0) == NOT_SUPPORTED);
    CHECK(api->allreduce(api->world, in, out, 4, 7, 4) == NOT_SUPPORTED);
    CHECK(api->allreduce(api->world, in, out, 4, 7, 99) == NOT_SUPPORTED);
    CHECK(api->allreduce(api->world, in, out, (size_t)1 << 32, 7, 0) == NOT_SUPPORTED);
    CHECK(api->allreduce(api->world, in, out, 4, 12, 0) == BAD_ARGUMENT);
    CHECK(api->allreduce(api->world, in, out, 4, -1, 0) == BAD_ARGUMENT);
    CHECK(api->allreduce(api->world, in, out, 4, 7, -1) == BAD_ARGUMENT);
    CHECK(api->allreduce(0, in, out, 4, 7, 0) == BAD_ARGUMENT);
    static const int newer[] = {16, 17, 20, 23, 26, 27, 32, 37};
    for (int k = 0; k < 8; k++)
        CHECK(api->scan(api->world, in, out, 1, newer[k], 0) == NOT_SUPPORTED);
    CHECK(api->exscan(api->world, in, out, 4, 7, 10) == NOT_SUPPORTED);
    CHECK(api->allgatherv(api->world, in, 4, out, NULL, NULL, 7) == BAD_ARGUMENT);
    CHECK(api->reduce_scatter_v(api->world, in, out, NULL, 7, 0) == BAD_ARGUMENT);
    CHECK(api->ring(api->world, NULL) == BAD_ARGUMENT);
    CHECK(api->sendrecv(api->world, NULL, out, 4, 7, 0, 0) == BAD_ARGUMENT);
    CHECK(api->table(api->world, NULL) == BAD_ARGUMENT);
    CHECK(api->comm_info(api->world, NULL, NULL) == BAD_ARGUMENT);
}

static void communicators(int me, int n)
{
    Comm half = 7;
    int rank = -1, size = -1;
    CHECK(api->split(api->world, me == 0 ? -1 : 3, -me, &half) == 0);
    CHECK((half == 0) == (me == 0));
    if (half != 0) {
        CHECK(api->comm_info(half, &rank, &size) == 0);
        CHECK(size == n - 1 && rank == n - 1 - me);
        int64_t one = 1, sum = 0;
        CHECK(api->allreduce(half, &one, &sum, 1, INT64, 0) == 0 && sum == n - 1);
        CHECK(api->comm_free(half) == 0);
    }
    koloMpiTable table;
    CHECK(api->table(api->world, &table) == 0);
    CHECK(table.size == sizeof table && table.problem == NULL);
    CHECK(table.rank == me && table.nranks == n);
    int all[MOST];
    CHECK(table.allgather(table.ctx, &me, sizeof me, all) == 0 && all[n - 1] == n - 1);
    CHECK(table.idle(table.ctx) == 0 && table.free(table.ctx) == 0);
}

int main(int argc, char **argv)
{
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL) : NULL;
    if (library == NULL) {
        fprintf(stderr, "%s\n", argc > 1 ? dlerror() : "usage: api LIBRARY");
        return 1;
    }
    const Api *(*start)(int) = (const Api *(*)(int))dlsym(library, "kolo_mpi_start");
    CHECK(start != NULL);
    api = start(1);
    CHECK(api != NULL && start(3) == api);
    CHECK(api->size == sizeof *api && api->version == 1);
    CHECK(api->thread_level >= 0 && api->thread_level <= 3);
    CHECK(strcmp(api->family, argc > 2 ? argv[2] : "") == 0 && strlen(api->library) > 3);
    int me = api->rank, n = api->nranks;
    CHECK(n >= 1 && n <= MOST && me >= 0 && me < n);
    double begin = api->wtime();
    CHECK(api->barrier(api->world) == 0);
    reductions(me, n);
    moves(me, n);
    scans(me);
    blocks(me, n);
    neighbours(me, n);
    refusals();
    communicators(me, n);
    CHECK(api->wtime() >= begin);
    if (me == 0)
        printf("api: %d ranks on %s (%s): ok\n", n, api->family, api->library);
    CHECK(api->finalize() == 0);
    CHECK(api->finalize() == 0);
    fflush(stderr);
    CHECK(freopen("/dev/null", "w", stderr) != NULL); /* a sentence is expected here */
    const Api *after = start(1);
    api = NULL;
    return after != NULL;
}
