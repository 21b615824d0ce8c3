/* Small calls of two ranks that are threads, for a counter of instructions.
 *
 *   calls COLLECTIVE COUNT     a collective with blocks of 8 bytes, COUNT times: all_reduce,
 *                              broadcast, reduce, gather, scatter, reduce_scatter, alltoall,
 *                              sendrecv or barrier
 *
 * Rank 1 comes to every call after rank 0 and so never waits: it calls from `measured`, and what is
 * counted there is the call without any waiting.
 */
#include <kolo.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static koloComm_t comms[2];
static const char *collective;
static int count;
/* Calls that rank 0 has come to. */
static atomic_int begun;

static void check(koloResult_t result, koloComm_t comm) {
    if (result == koloSuccess) return;
    fprintf(stderr, "%s\n", koloGetLastError(comm));
    exit(1);
}

static void call(int me) {
    double send = me + 1, recv = -1, blocks[2] = {me, 5}, got[2];
    if (!strcmp(collective, "all_reduce"))
        check(koloAllReduce(&send, &recv, 1, koloFloat64, koloSum, comms[me], NULL), comms[me]);
    else if (!strcmp(collective, "broadcast"))
        check(koloBroadcast(&send, &recv, 1, koloFloat64, 0, comms[me], NULL), comms[me]);
    else if (!strcmp(collective, "reduce_scatter"))
        check(koloReduceScatter(blocks, &recv, 1, koloFloat64, koloSum, comms[me], NULL),
              comms[me]);
    else if (!strcmp(collective, "alltoall"))
        check(koloAllToAll(blocks, got, 1, koloFloat64, comms[me], NULL), comms[me]);
    else if (!strcmp(collective, "reduce"))
        check(koloReduce(&send, &recv, 1, koloFloat64, koloSum, 0, comms[me], NULL), comms[me]);
    else if (!strcmp(collective, "gather"))
        check(koloGather(&send, got, 1, koloFloat64, 0, comms[me], NULL), comms[me]);
    else if (!strcmp(collective, "scatter"))
        check(koloScatter(blocks, &recv, 1, koloFloat64, 0, comms[me], NULL), comms[me]);
    else if (!strcmp(collective, "sendrecv"))
        check(koloSendRecv(&send, 1, !me, &recv, 1, !me, koloFloat64, comms[me], NULL), comms[me]);
    else
        check(koloBarrier(comms[me], NULL), comms[me]);
}

void __attribute__((noinline)) measured(void) { call(1); }

static void *rank(void *argument) {
    int me = (int)(long)argument;
    for (int i = 0; i < count; i++) {
        if (me == 0) {
            begun = i + 1;
            call(0);
        } else {
            while (begun <= i) usleep(1000);
            usleep(3000);
            measured();
        }
    }
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[2];
    int devices[2] = {KOLO_DEVICE_HOST, KOLO_DEVICE_HOST};
    if (argc != 3) return 2;
    collective = argv[1];
    count = atoi(argv[2]);
    check(koloCommInitAll(comms, 2, devices), NULL);
    for (long i = 0; i < 2; i++) pthread_create(&threads[i], NULL, rank, (void *)i);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; i++) koloCommDestroy(comms[i]);
    return 0;
}
