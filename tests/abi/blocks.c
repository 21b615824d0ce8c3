/* Scans, blocks of different sizes, neighbours, and asynchronous calls, from C. */
#include "check.h"

enum { MOST = 8 };

/* Block r has r + 1 elements, all r * 10; nothing for rank 1. */
static size_t size_of(int rank) { return rank == 1 ? 0 : (size_t)rank + 1; }

static void fill(int64_t *place, size_t count, int64_t value) {
    for (size_t i = 0; i < count; i++) place[i] = value;
}

static void is(const int64_t *place, size_t count, int64_t value) {
    for (size_t i = 0; i < count; i++) CHECK(place[i] == value);
}

static void scans(int rank, int n, koloComm_t comm) {
    int64_t one = rank + 1, sum = -1, before = -1;
    OK(koloScan(&one, &sum, 1, koloInt64, koloSum, comm, NULL));
    CHECK(sum == (rank + 1) * (rank + 2) / 2);
    OK(koloExscan(&one, rank ? &before : NULL, 1, koloInt64, koloSum, comm, NULL));
    CHECK(before == (rank ? rank * (rank + 1) / 2 : -1));
    OK(koloScan(&one, &one, 1, koloInt64, koloMax, comm, NULL));
    CHECK(one == rank + 1);
    FAILS(koloInvalidArgument, "no average",
          koloScan(&one, &sum, 1, koloInt64, koloAvg, comm, NULL));
    (void)n;
}

static void gathers(int rank, int n, koloComm_t comm) {
    size_t counts[MOST], displs[MOST], next = 1;
    int64_t mine[MOST + 1], all[64], back[MOST + 1];
    for (int r = 0; r < n; r++) counts[r] = size_of(r), displs[r] = next, next += counts[r] + 1;
    fill(mine, counts[rank], rank * 10);
    fill(all, 64, -1);
    OK(koloAllGatherV(mine, counts[rank], all, counts, displs, koloInt64, comm, NULL));
    for (int r = 0; r < n; r++) {
        is(all + displs[r], counts[r], r * 10);
        CHECK(all[displs[r] + counts[r]] == -1);
    }
    /* In place. */
    fill(all, 64, -1);
    fill(all + displs[rank], counts[rank], rank * 10);
    OK(koloAllGatherV(all + displs[rank], counts[rank], all, counts, displs, koloInt64, comm,
                      NULL));
    for (int r = 0; r < n; r++) is(all + displs[r], counts[r], r * 10);
    fill(back, MOST + 1, -1);
    if (rank == n - 1)
        OK(koloScatterV(all, counts, displs, back, counts[rank], koloInt64, n - 1, comm, NULL));
    else
        OK(koloScatterV(NULL, NULL, NULL, back, counts[rank], koloInt64, n - 1, comm, NULL));
    is(back, counts[rank], rank * 10);
    CHECK(back[counts[rank]] == -1);
    fill(all, 64, -1);
    if (rank == 0) {
        OK(koloGatherV(mine, counts[0], all, counts, NULL, koloInt64, 0, comm, NULL));
        for (int r = 0, at = 0; r < n; at += (int)counts[r++]) is(all + at, counts[r], r * 10);
    } else {
        OK(koloGatherV(mine, counts[rank], NULL, NULL, NULL, koloInt64, 0, comm, NULL));
    }
    for (int i = 0; i < 64; i++) all[i] = i * (rank + 1);
    fill(back, MOST + 1, -1);
    OK(koloReduceScatterV(all, back, counts, koloInt64, koloSum, comm, NULL));
    size_t before = 0;
    for (int r = 0; r < rank; r++) before += counts[r];
    for (size_t i = 0; i < counts[rank]; i++)
        CHECK(back[i] == (int64_t)(before + i) * n * (n + 1) / 2);
}

static void exchanges(int rank, int n, koloComm_t comm) {
    size_t out[MOST], into[MOST];
    int64_t send[64], recv[64], *at = send;
    for (int r = 0; r < n; r++) {
        out[r] = (size_t)(rank + r) % 3, into[r] = (size_t)(r + rank) % 3;
        fill(at, out[r], rank * 100 + r);
        at += out[r];
    }
    fill(recv, 64, -1);
    OK(koloAllToAllV(send, out, NULL, recv, into, NULL, koloInt64, comm, NULL));
    at = recv;
    for (int r = 0; r < n; at += into[r++]) is(at, into[r], r * 100 + rank);
    CHECK(*at == -1);
    out[0] = SIZE_MAX;
    FAILS(koloInvalidArgument, "send count 0 is negative",
          koloAllToAllV(send, out, NULL, recv, into, NULL, koloInt64, comm, NULL));
    FAILS(koloInvalidArgument, "sendcounts is NULL",
          koloAllToAllV(send, NULL, NULL, recv, into, NULL, koloInt64, comm, NULL));
    if (n > 1) {
        size_t ones[MOST], places[MOST];
        for (int r = 0; r < n; r++) ones[r] = 1, places[r] = 0;
        FAILS(koloInvalidArgument, "overlaps",
              koloAllToAllV(send, ones, NULL, recv, ones, places, koloInt64, comm, NULL));
    }
}

static void neighbours(int rank, int n, koloComm_t comm) {
    const int dims[1] = {n}, periods[1] = {0}, ring[1] = {1};
    int sources[2], destinations[2], in = -1, out = -1;
    int64_t send[2] = {rank * 10, rank * 10 + 1}, recv[4] = {-1, -1, -1, -1};
    koloGraph_t graph = NULL;
    OK(koloCartCreate(comm, 1, dims, periods, &graph));
    OK(koloGraphDegrees(graph, &in, &out));
    OK(koloGraphNeighbors(graph, sources, destinations));
    CHECK(in == 2 && out == 2 && sources[0] == (rank ? rank - 1 : KOLO_NO_RANK));
    CHECK(sources[1] == (rank < n - 1 ? rank + 1 : KOLO_NO_RANK));
    OK(koloNeighborAllToAll(send, recv, 1, koloInt64, graph, NULL));
    CHECK(recv[0] == (rank ? (rank - 1) * 10 + 1 : -1));
    CHECK(recv[1] == (rank < n - 1 ? (rank + 1) * 10 : -1));
    OK(koloNeighborAllGather(send, recv, 2, koloInt64, graph, NULL));
    if (rank) CHECK(recv[0] == (rank - 1) * 10 && recv[1] == recv[0] + 1);
    OK(koloGraphDestroy(graph));
    FAILS(koloInvalidArgument, "graph",
          koloNeighborAllGather(send, recv, 2, koloInt64, graph, NULL));
    /* A ring by hand, with different sizes. */
    const int prev = (rank + n - 1) % n, next = (rank + 1) % n;
    const size_t ours = (size_t)rank % 2 + 1, theirs = (size_t)prev % 2 + 1;
    OK(koloGraphCreate(comm, 1, &prev, 1, &next, &graph));
    fill(recv, 4, -1);
    OK(koloNeighborAllGatherV(send, ours, recv, &theirs, NULL, koloInt64, graph, NULL));
    CHECK(recv[0] == prev * 10 && recv[theirs] == -1);
    OK(koloNeighborAllToAllV(send, &ours, NULL, recv + 2, &theirs, NULL, koloInt64, graph, NULL));
    CHECK(recv[2] == prev * 10);
    OK(koloGraphDestroy(graph));
    FAILS(koloInvalidArgument, "a grid of", koloCartCreate(comm, 1, (int[]){n + 1}, ring, &graph));
    FAILS(koloInvalidArgument, "-2 is no length",
          koloGraphCreate(comm, -2, &prev, 0, NULL, &graph));
    FAILS(koloInvalidArgument, "neighbour", koloGraphCreate(comm, 1, &n, 0, NULL, &graph));
}

/* Every call asynchronously, all in flight at once. */
static void requests(int rank, int n, koloComm_t comm) {
    enum { COUNT = 50000 };
    const int prev = (rank + n - 1) % n, next = (rank + 1) % n;
    size_t counts[MOST];
    int64_t *a = malloc(COUNT * 8), *b = malloc(COUNT * 8), *c = malloc(COUNT * 8);
    int64_t small[4] = {rank, rank, rank, rank}, sum = -1, all[MOST], mine = rank, total = 0;
    int64_t each[MOST], from[MOST], first = rank == 0 ? 5 : -1, scan = -1, block = -1, got[MOST];
    koloRequest_t list[16] = {NULL};
    koloGraph_t graph;
    int done = 0, used = 0;
    for (int r = 0; r < n; r++) counts[r] = 1, each[r] = rank * 10 + r, total += r;
    OK(koloGraphCreate(comm, 1, &prev, 1, &next, &graph));
    fill(a, COUNT, rank), fill(b, COUNT, -1), fill(c, COUNT, -1);
    /* Receives and sends in an order that needs both to progress together. */
    OK(koloISend(a, COUNT, koloInt64, next, comm, &list[used++]));
    OK(koloIRecv(b, COUNT, koloInt64, prev, comm, &list[used++]));
    OK(koloIAllReduce(a, c, COUNT, koloInt64, koloSum, comm, &list[used++]));
    OK(koloIAllReduce(small, &sum, 1, koloInt64, koloSum, comm, &list[used++]));
    OK(koloIAllGather(&mine, all, 1, koloInt64, comm, &list[used++]));
    OK(koloIBcast(&first, 1, koloInt64, 0, comm, &list[used++]));
    OK(koloIScan(&mine, &scan, 1, koloInt64, koloSum, comm, &list[used++]));
    OK(koloIAllToAll(each, from, 1, koloInt64, comm, &list[used++]));
    OK(koloIReduceScatter(each, &block, 1, koloInt64, koloMax, comm, &list[used++]));
    OK(koloIAllGatherV(&mine, 1, got, counts, NULL, koloInt64, comm, &list[used++]));
    OK(koloINeighborAllGather(&mine, &small[2], 1, koloInt64, graph, &list[used++]));
    OK(koloIBarrier(comm, &list[used++]));
    OK(koloWait(&list[2]));
    CHECK(list[2] == NULL);
    is(c, COUNT, total);
    while (!done) OK(koloTest(&list[3], &done));
    CHECK(list[3] == NULL && sum == total);
    OK(koloWaitAll((size_t)used, list));
    for (int i = 0; i < used; i++) CHECK(list[i] == NULL);
    is(b, COUNT, prev);
    CHECK(first == 5 && scan == rank * (rank + 1) / 2 && block == (n - 1) * 10 + rank);
    CHECK(small[2] == prev);
    for (int r = 0; r < n; r++) CHECK(all[r] == r && got[r] == r && from[r] == r * 10 + rank);
    done = 0;
    OK(koloTest(&list[0], &done));
    CHECK(done);
    OK(koloWait(&list[0]));
    /* A send of one call ends although a receive that was begun before it has not. */
    if (n > 1 && rank < 2) {
        int64_t x = rank, y = -1;
        OK(koloIRecv(&y, 1, koloInt64, 1 - rank, comm, &list[0]));
        if (rank == 0) {
            OK(koloISend(&x, 1, koloInt64, 1, comm, &list[1]));
            OK(koloWait(&list[1]));
        } else {
            OK(koloWait(&list[0]));
            OK(koloISend(&x, 1, koloInt64, 0, comm, &list[1]));
        }
        OK(koloWaitAll(2, list));
        CHECK(y == 1 - rank);
    }
    FAILS(koloInvalidArgument, "request is NULL", koloWait(NULL));
    FAILS(koloInvalidArgument, "no live request", koloWait(&(koloRequest_t){(koloRequest_t)&mine}));
    FAILS(koloInvalidArgument, "request is NULL", koloIBarrier(comm, NULL));
    FAILS(koloInvalidArgument, "no live communicator", koloIBarrier(NULL + 1, &list[0]));
    CHECK(list[0] == NULL);
    FAILS(koloInvalidArgument, "requests is NULL", koloWaitAll(1, NULL));
    OK(koloGraphDestroy(graph));
    free(a), free(b), free(c);
}

static void body(int rank, int n, koloComm_t comm) {
    scans(rank, n, comm);
    gathers(rank, n, comm);
    exchanges(rank, n, comm);
    neighbours(rank, n, comm);
    requests(rank, n, comm);
}

int main(void) {
    for (int n = 1; n <= 6; n++) on_ranks(n, body);
    puts("blocks: ok");
    return 0;
}
