/* koloSendRecv, and ranks that are nobody: ranks are threads, buffers differ by rank and element,
 * receive buffers start poisoned. */
#include "check.h"
#include <sched.h>
#include <stdatomic.h>

enum { MOST_ELEMENTS = 40000, MOST = 4 };

static const int64_t UNTOUCHED = (int64_t)0xa5a5a5a5a5a5a5a5;

static int64_t value(int rank, int element) { return 1000003 * (int64_t)(rank + 1) + 7 * element; }

static void fill(int64_t *buffer, int rank, int count) {
    for (int i = 0; i < count; i++) buffer[i] = value(rank, i);
}
static void poison(int64_t *buffer, int count) {
    for (int i = 0; i < count; i++) buffer[i] = UNTOUCHED;
}

/* A shift up the line of ranks, whose ends have one neighbour; of `count` elements. */
static void exchanges(int rank, int nranks, koloComm_t comm, koloStream_t stream, int count) {
    const int above = rank + 1 < nranks ? rank + 1 : KOLO_NO_RANK;
    const int below = rank > 0 ? rank - 1 : KOLO_NO_RANK;
    const koloDataType_t type = koloInt64;
    koloRequest_t requests[2];
    static __thread int64_t in[MOST_ELEMENTS], out[2 * MOST_ELEMENTS];
    int64_t unsent = value(rank, 0);
    fill(in, rank, count);
    poison(out, 2 * count);
    OK(koloSendRecv(in, count, above, out, count, below, type, comm, stream));
    if (stream) OK(koloStreamSynchronize(stream));
    for (int i = 0; i < count; i++) CHECK(out[i] == (rank > 0 ? value(rank - 1, i) : UNTOUCHED));
    CHECK(out[count] == UNTOUCHED);
    /* To itself; the other end may be a plain send or receive; to nobody and from nobody. */
    poison(out, count);
    OK(koloSendRecv(in, count, rank, out, count, rank, type, comm, stream));
    if (stream) OK(koloStreamSynchronize(stream));
    for (int i = 0; i < count; i++) CHECK(out[i] == value(rank, i));
    poison(out, count);
    if (rank % 2 == 0) {
        OK(koloSendRecv(in, count, above, out, count, above, type, comm, stream));
    } else {
        OK(koloRecv(out, count, type, below, comm, stream));
        OK(koloSend(in, count, type, below, comm, stream));
    }
    OK(koloSend(NULL, count, type, KOLO_NO_RANK, comm, stream));
    OK(koloRecv(&unsent, 1, type, KOLO_NO_RANK, comm, stream));
    OK(koloSendRecv(NULL, count, KOLO_NO_RANK, &unsent, 1, KOLO_NO_RANK, type, comm, stream));
    if (stream) OK(koloStreamSynchronize(stream));
    CHECK(unsent == value(rank, 0));
    const int partner = rank % 2 == 0 ? above : below;
    for (int i = 0; i < count; i++)
        CHECK(out[i] == (partner == KOLO_NO_RANK ? UNTOUCHED : value(partner, i)));
    /* Two at a time, which only end together. */
    poison(out, 2 * count);
    OK(koloISendRecv(in, count, above, out, count, below, type, comm, &requests[0]));
    OK(koloISendRecv(in, count, below, out + count, count, above, type, comm, &requests[1]));
    OK(koloWait(&requests[1]));
    for (int i = 0; i < count; i++)
        CHECK(out[count + i] == (above == KOLO_NO_RANK ? UNTOUCHED : value(above, i)));
    OK(koloWait(&requests[0]));
    for (int i = 0; i < count; i++) CHECK(out[i] == (rank > 0 ? value(rank - 1, i) : UNTOUCHED));
    FAILS(koloInvalidArgument, "overlap",
          koloSendRecv(in, count, rank, in + count - 1, count, rank, type, comm, stream));
    FAILS(koloInvalidArgument, "peer -7",
          koloSendRecv(in, count, -7, out, count, rank, type, comm, stream));
}

/* A request has ended when both of its messages have: here one has come, and the other is not taken
 * before its sender has seen that. It is larger than what kolo holds between two ranks. */
static void both_halves(int rank, int nranks, koloComm_t comm) {
    enum { LARGE = 2000000 };
    static atomic_int seen;
    koloRequest_t request;
    int done = 0;
    int64_t one = UNTOUCHED, *large = malloc(LARGE * sizeof *large);
    const int peer = 1 - rank;
    CHECK(large != NULL);
    if (nranks > 1 && rank == 0) {
        volatile int64_t *come = &one;
        fill(large, rank, LARGE);
        OK(koloISendRecv(large, LARGE, peer, &one, 1, peer, koloInt64, comm, &request));
        while (*come == UNTOUCHED) {
            OK(koloTest(&request, &done));
            CHECK(!done);
        }
        for (int i = 0; i < 1000; i++) {
            OK(koloTest(&request, &done));
            CHECK(!done);
        }
        CHECK(one == value(peer, 0));
        atomic_store(&seen, 1);
        OK(koloWait(&request));
    } else if (nranks > 1 && rank == 1) {
        int64_t mine = value(rank, 0);
        poison(large, LARGE);
        OK(koloSend(&mine, 1, koloInt64, peer, comm, NULL));
        while (!atomic_load(&seen)) sched_yield();
        OK(koloRecv(large, LARGE, koloInt64, peer, comm, NULL));
        for (int i = 0; i < LARGE; i++) CHECK(large[i] == value(peer, i));
        atomic_store(&seen, 0);
    }
    free(large);
}

static void one_rank(int rank, int nranks, koloComm_t comm) {
    const int counts[] = {1, 3, 1000, MOST_ELEMENTS};
    koloStream_t stream;
    OK(koloStreamCreate(&stream));
    for (int i = 0; i < 4; i++) {
        exchanges(rank, nranks, comm, NULL, counts[i]);
        exchanges(rank, nranks, comm, stream, counts[i]);
    }
    both_halves(rank, nranks, comm);
    OK(koloStreamDestroy(stream));
    OK(koloBarrier(comm, NULL));
}

int main(void) {
    for (int nranks = 1; nranks <= MOST; nranks++) on_ranks(nranks, one_rank);
    puts("messages: ok");
    return 0;
}
