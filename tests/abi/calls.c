/* Every call with real data: ranks are threads, buffers differ by rank and element, receive
 * buffers start poisoned. */
#include "check.h"
#include <math.h>

enum { ELEMENTS = 1000, MOST = 4 };

static int64_t value(int rank, int element) { return 1000003 * (int64_t)(rank + 1) + 7 * element; }

static void fill(int64_t *buffer, int rank, int count) {
    for (int i = 0; i < count; i++) buffer[i] = value(rank, i);
}
static void poison(int64_t *buffer, int count) { memset(buffer, 0xa5, sizeof *buffer * count); }
static void still_poisoned(const int64_t *buffer, int count) {
    for (int i = 0; i < count; i++) CHECK(buffer[i] == (int64_t)0xa5a5a5a5a5a5a5a5);
}

static int64_t sum_of(int nranks, int element) {
    int64_t sum = 0;
    for (int rank = 0; rank < nranks; rank++) sum += value(rank, element);
    return sum;
}

static void reductions(int rank, int nranks, koloComm_t comm, koloStream_t stream) {
    static __thread int64_t in[MOST * ELEMENTS], out[MOST * ELEMENTS];
    const koloDataType_t type = koloInt64;
    const int last = nranks - 1;
    fill(in, rank, nranks * ELEMENTS), poison(out, ELEMENTS);
    OK(koloAllReduce(in, out, ELEMENTS, type, koloSum, comm, stream));
    if (stream) OK(koloStreamSynchronize(stream));
    for (int i = 0; i < ELEMENTS; i++) CHECK(out[i] == sum_of(nranks, i));
    OK(koloAllReduce(in, out, ELEMENTS, type, koloMax, comm, stream));
    if (stream) OK(koloStreamSynchronize(stream));
    for (int i = 0; i < ELEMENTS; i++) CHECK(out[i] == value(last, i));
    poison(out, MOST * ELEMENTS);
    OK(koloReduce(in, out, ELEMENTS, type, koloMin, last, comm, stream));
    if (stream) OK(koloStreamSynchronize(stream));
    if (rank == last)
        for (int i = 0; i < ELEMENTS; i++) CHECK(out[i] == value(0, i));
    else
        still_poisoned(out, ELEMENTS);
    still_poisoned(out + ELEMENTS, (MOST - 1) * ELEMENTS);
    poison(out, MOST * ELEMENTS);
    OK(koloReduceScatter(in, out, ELEMENTS, type, koloSum, comm, stream));
    if (stream) OK(koloStreamSynchronize(stream));
    for (int i = 0; i < ELEMENTS; i++) CHECK(out[i] == sum_of(nranks, rank * ELEMENTS + i));
    still_poisoned(out + ELEMENTS, (MOST - 1) * ELEMENTS);
    for (int i = 0; i < nranks * ELEMENTS; i++) CHECK(in[i] == value(rank, i));
    OK(koloAllReduce(in, in, ELEMENTS, type, koloSum, comm, stream));
    if (stream) OK(koloStreamSynchronize(stream));
    for (int i = 0; i < ELEMENTS; i++) CHECK(in[i] == sum_of(nranks, i));
}

/* Terms that a plain sum loses. */
static void exact(int rank, int nranks, koloComm_t comm) {
    double terms[300], out[300], sum = -1, both[2] = {-1, -1};
    float singles[300], single = -1;
    unsigned char mask[300];
    for (int i = 0; i < 300; i++) {
        terms[i] = i % 3 == 1 ? 0.5 / 128 : i % 3 ? -1e300 : 1e300;
        singles[i] = i % 3 == 1 ? 0.5f : i % 3 ? -1e30f : 1e30f;
        mask[i] = i % 3 == 1 ? 1 << i % 8 : 0;
    }
    const double wanted = nranks * (100 * 0.5 / 128);
    OK(koloSumExactDouble(terms, 300, &sum, comm));
    CHECK(sum == wanted);
    OK(koloSumExactDoubleMasked(terms, mask, rank ? 300 : 0, &sum, comm));
    CHECK(sum == (nranks - 1) * (100 * 0.5 / 128));
    OK(koloSumExactFloat(singles, 300, &single, comm));
    CHECK(single == 50.0f * nranks);
    OK(koloSumExactFloatMasked(singles, mask, 300, &single, comm));
    CHECK(single == 50.0f * nranks);
    OK(koloSumExactDouble(NULL, 0, &sum, comm));
    CHECK(sum == 0 && !signbit(sum));
    /* 10 x 15 complex numbers, every second row backwards, without the last column. */
    const size_t extents[2] = {5, 14};
    const ptrdiff_t strides[2] = {-32, 160}, mask_strides[2] = {0, 1};
    double parts[2] = {0, 0};
    for (int y = 0; y < 14; y++)
        for (int x = 0; x < 5; x++)
            for (int part = 0; part < 2; part++)
                parts[part] += mask[y] ? (terms[20 * y + 4 * x + part] = 20 * y + 4 * x + part) : 0;
    OK(koloSumExactArray(terms + 16, koloFloat64, 2, 2, extents, strides, mask, 1, mask_strides,
                         both, comm));
    CHECK(both[0] == nranks * parts[0] && both[1] == nranks * parts[1]);
    OK(koloSumExactArray(&wanted, koloFloat64, 1, 0, NULL, NULL, NULL, 0, NULL, both, comm));
    CHECK(both[0] == nranks * wanted);
    for (int i = 0; i < 300; i++) terms[i] = rank == 0 ? 1e300 : rank == nranks - 1 ? -1e300 : 0.5;
    OK(koloAllReduce(terms, out, 300, koloDouble, koloSumExact, comm, NULL));
    for (int i = 0; i < 300; i++)
        CHECK(out[i] == (nranks == 1 ? 1e300 : (nranks - 2) * 0.5));
}

static void moves(int rank, int nranks, koloComm_t comm, koloStream_t stream) {
    static __thread int64_t in[MOST * ELEMENTS], out[MOST * ELEMENTS];
    const koloDataType_t type = koloInt64;
    const int last = nranks - 1;
    fill(in, rank, nranks * ELEMENTS);
    poison(out, nranks * ELEMENTS);
    OK(koloBroadcast(rank == last ? in : NULL, out, ELEMENTS, type, last, comm, stream));
    if (stream) OK(koloStreamSynchronize(stream));
    for (int i = 0; i < ELEMENTS; i++) CHECK(out[i] == value(last, i));
    poison(out, nranks * ELEMENTS);
    if (rank == 0) fill(out, 0, ELEMENTS);
    OK(koloBcast(out, ELEMENTS, type, 0, comm, stream));
    if (stream) OK(koloStreamSynchronize(stream));
    for (int i = 0; i < ELEMENTS; i++) CHECK(out[i] == value(0, i));
    poison(out, nranks * ELEMENTS);
    OK(koloAllGather(in, out, ELEMENTS, type, comm, stream));
    if (stream) OK(koloStreamSynchronize(stream));
    for (int i = 0; i < nranks * ELEMENTS; i++)
        CHECK(out[i] == value(i / ELEMENTS, i % ELEMENTS));
    poison(out, nranks * ELEMENTS);
    OK(koloGather(in, out, ELEMENTS, type, last, comm, stream));
    if (stream) OK(koloStreamSynchronize(stream));
    for (int i = 0; rank == last && i < nranks * ELEMENTS; i++)
        CHECK(out[i] == value(i / ELEMENTS, i % ELEMENTS));
    if (rank != last) still_poisoned(out, nranks * ELEMENTS);
    poison(out, nranks * ELEMENTS);
    OK(koloScatter(in, out, ELEMENTS, type, 0, comm, stream));
    if (stream) OK(koloStreamSynchronize(stream));
    for (int i = 0; i < ELEMENTS; i++) CHECK(out[i] == value(0, rank * ELEMENTS + i));
    poison(out, nranks * ELEMENTS);
    OK(koloAllToAll(in, out, ELEMENTS, type, comm, stream));
    if (stream) OK(koloStreamSynchronize(stream));
    for (int i = 0; i < nranks * ELEMENTS; i++)
        CHECK(out[i] == value(i / ELEMENTS, rank * ELEMENTS + i % ELEMENTS));
    poison(out, nranks * ELEMENTS);
    OK(koloGroupStart());
    OK(koloSend(in, ELEMENTS, type, (rank + 1) % nranks, comm, stream));
    OK(koloRecv(out, ELEMENTS, type, (rank + last) % nranks, comm, stream));
    OK(koloGroupEnd());
    if (stream) OK(koloStreamSynchronize(stream));
    for (int i = 0; i < ELEMENTS; i++) CHECK(out[i] == value((rank + last) % nranks, i));
    OK(koloBarrier(comm, stream));
}

static void made_operations(int rank, int nranks, koloComm_t comm) {
    const double expected[2] = {nranks * (nranks + 1) / 2.0, nranks * (nranks + 1) / 2.0 * 10.0};
    for (int residence = 0; residence < 2; residence++) {
        double scalar = rank + 1, in = 1.0, out = -1.0;
        koloRedOp_t op;
        OK(koloRedOpCreatePreMulSum(&op, &scalar, koloDouble, (koloScalarResidence_t)residence,
                                    comm));
        OK(koloAllReduce(&in, &out, 1, koloDouble, op, comm, NULL));
        CHECK(out == expected[0]);
        scalar *= 10.0;
        OK(koloAllReduce(&in, &out, 1, koloDouble, op, comm, NULL));
        CHECK(out == expected[residence == koloScalarDevice]);
        /* A group keeps operations that are destroyed before its end. */
        out = -1.0;
        OK(koloGroupStart());
        OK(koloAllReduce(&in, &out, 1, koloDouble, op, comm, NULL));
        OK(koloRedOpDestroy(op, comm));
        OK(koloGroupEnd());
        CHECK(out == expected[residence == koloScalarDevice]);
    }
}

static void splits(int rank, int nranks, koloComm_t comm) {
    koloComm_t half = NULL, none = comm;
    koloConfig_t config = KOLO_CONFIG_INITIALIZER;
    int count = -1, position = -1, members = (nranks + (rank % 2 == 0)) / 2;
    config.name = "half";
    OK(koloCommSplit(comm, rank % 2, -rank, &half, &config));
    OK(koloCommCount(half, &count));
    OK(koloCommUserRank(half, &position));
    CHECK(count == members && position == members - 1 - rank / 2);
    OK(koloCommSplit(comm, rank == 0 ? 5 : KOLO_SPLIT_NOCOLOR, 0, &none, NULL));
    CHECK((none != NULL) == (rank == 0));
    if (none) OK(koloCommDestroy(none));
    OK(koloCommDestroy(half));
    /* No place for the result on one rank is an error of all, and the parent stays. */
    CHECK(koloCommSplit(comm, 0, 0, rank == 0 ? NULL : &half, NULL) != koloSuccess);
    CHECK(strstr(koloGetLastError(comm), "newcomm") != NULL);
    CHECK(rank == 0 || half == NULL);
    OK(koloBarrier(comm, NULL));
}

static void one_rank(int rank, int nranks, koloComm_t comm) {
    koloStream_t stream;
    koloResult_t state = koloInternalError;
    int64_t in = value(rank, 0), out = -1;
    OK(koloStreamCreate(&stream));
    reductions(rank, nranks, comm, NULL);
    exact(rank, nranks, comm);
    moves(rank, nranks, comm, NULL);
    reductions(rank, nranks, comm, stream);
    moves(rank, nranks, comm, stream);
    OK(koloAllReduce(&in, &out, 1, koloInt64, koloSum, comm, stream));
    do state = koloStreamQuery(stream);
    while (state == koloInProgress);
    CHECK(state == koloSuccess && out == sum_of(nranks, 0));
    OK(koloStreamDestroy(stream));
    made_operations(rank, nranks, comm);
    splits(rank, nranks, comm);
    OK(koloCommGetAsyncError(comm, &state));
    CHECK(state == koloSuccess);
}

/* All ranks on one thread, by a group. */
static void grouped(int nranks) {
    koloComm_t comms[MOST] = {0};
    koloUniqueId id;
    int64_t in[MOST], *out;
    OK(koloMemAlloc((void **)&out, MOST * sizeof *out));
    OK(koloGetUniqueId(&id));
    OK(koloGroupStart());
    for (int rank = 0; rank < nranks; rank++) {
        OK(koloCommInitRank(&comms[rank], nranks, id, rank));
        CHECK(comms[rank] == NULL);
    }
    OK(koloGroupEnd());
    OK(koloGroupStart());
    for (int rank = 0; rank < nranks; rank++) {
        in[rank] = value(rank, 0), out[rank] = -1;
        OK(koloAllReduce(&in[rank], &out[rank], 1, koloInt64, koloSum, comms[rank], NULL));
    }
    OK(koloGroupStart());
    OK(koloGroupEnd());
    CHECK(out[0] == -1);
    OK(koloGroupEnd());
    for (int rank = 0; rank < nranks; rank++) CHECK(out[rank] == sum_of(nranks, 0));
    for (int rank = 0; rank < nranks; rank++) OK(koloCommDestroy(comms[rank]));
    OK(koloMemFree(out));
}

/* All ranks on one thread, each with a stream: a group begins the calls, and each stream ends its
 * own, in another order than they were begun. */
static void grouped_on_streams(int nranks) {
    koloComm_t comms[MOST];
    koloStream_t streams[MOST];
    koloUniqueId id;
    static int64_t from[MOST][ELEMENTS], to[MOST][ELEMENTS];
    OK(koloGetUniqueId(&id));
    OK(koloGroupStart());
    for (int rank = 0; rank < nranks; rank++)
        OK(koloCommInitRank(&comms[rank], nranks, id, rank));
    OK(koloGroupEnd());
    for (int rank = 0; rank < nranks; rank++) OK(koloStreamCreate(&streams[rank]));
    for (int round = 0; round < 3; round++) {
        OK(koloGroupStart());
        for (int rank = 0; rank < nranks; rank++) {
            for (int i = 0; i < ELEMENTS; i++) from[rank][i] = value(rank, i + round);
            poison(to[rank], ELEMENTS);
            OK(koloAllReduce(from[rank], to[rank], ELEMENTS, koloInt64, koloSum, comms[rank],
                             streams[rank]));
            still_poisoned(to[rank], ELEMENTS);
        }
        OK(koloGroupEnd());
        for (int rank = nranks - 1; rank >= 0; rank--) {
            OK(koloStreamSynchronize(streams[rank]));
            for (int i = 0; i < ELEMENTS; i++)
                CHECK(to[rank][i] == sum_of(nranks, i + round));
        }
    }
    for (int rank = 0; rank < nranks; rank++) {
        OK(koloStreamDestroy(streams[rank]));
        OK(koloCommDestroy(comms[rank]));
    }
}

/* A launcher of threads: its collectives are a shared board between two barriers. */
typedef struct {
    int nranks;
    pthread_barrier_t barrier;
    const void *board[MOST];
} launcher;
typedef struct {
    launcher *shared;
    int rank, freed, idle_calls;
} member;

static int launcher_allgather(void *ctx, const void *send, size_t bytes, void *recv) {
    member *me = ctx;
    me->shared->board[me->rank] = send;
    pthread_barrier_wait(&me->shared->barrier);
    for (int rank = 0; rank < me->shared->nranks; rank++)
        memcpy((char *)recv + rank * bytes, me->shared->board[rank], bytes);
    pthread_barrier_wait(&me->shared->barrier);
    return 0;
}
static int launcher_bcast(void *ctx, void *buffer, size_t bytes, int root) {
    member *me = ctx;
    me->shared->board[me->rank] = buffer;
    pthread_barrier_wait(&me->shared->barrier);
    if (me->rank != root) memcpy(buffer, me->shared->board[root], bytes);
    pthread_barrier_wait(&me->shared->barrier);
    return 0;
}
static int launcher_idle(void *ctx) { return ((member *)ctx)->idle_calls++, 0; }
static int launcher_free(void *ctx) { return ((member *)ctx)->freed++, 0; }

static void *launched_main(void *pointer) {
    member *me = pointer;
    koloMpiTable table = {.size = sizeof table, .version = KOLO_MPI_TABLE_VERSION, .ctx = me};
    table.rank = me->rank, table.nranks = me->shared->nranks;
    table.bcast = launcher_bcast, table.allgather = launcher_allgather;
    table.idle = launcher_idle, table.free = launcher_free;
    koloComm_t comm;
    OK(koloCommInitTable(&comm, &table));
    reductions(me->rank, me->shared->nranks, comm, NULL);
    moves(me->rank, me->shared->nranks, comm, NULL);
    OK(koloCommDestroy(comm));
    CHECK(me->freed == 1);
    return NULL;
}

static void launched(int nranks) {
    launcher shared = {.nranks = nranks};
    member members[MOST];
    pthread_t threads[MOST];
    CHECK(pthread_barrier_init(&shared.barrier, NULL, nranks) == 0);
    for (int rank = 0; rank < nranks; rank++) {
        members[rank] = (member){&shared, rank, 0, 0};
        CHECK(pthread_create(&threads[rank], NULL, launched_main, &members[rank]) == 0);
    }
    for (int rank = 0; rank < nranks; rank++) CHECK(pthread_join(threads[rank], NULL) == 0);
    pthread_barrier_destroy(&shared.barrier);
}

int main(void) {
    for (int nranks = 1; nranks <= MOST; nranks++) {
        on_ranks(nranks, one_rank);
        grouped(nranks);
        grouped_on_streams(nranks);
        launched(nranks);
    }
    puts("calls: ok");
    return 0;
}
