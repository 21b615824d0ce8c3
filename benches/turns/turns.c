/* The median time of an all-reduce of doubles between ranks that are threads of this process.
 *
 *   turns RANKS BYTES CALLS     prints microseconds, as rank 0 sees them
 *
 * Buffers are written anew before every call, all ranks begin together, and every element of every
 * rank is checked.
 */
#include <kolo.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MOST_RANKS = 64 };

static int ranks, calls;
static size_t count;
static koloComm_t comms[MOST_RANKS];
static double *times;
static pthread_barrier_t gate;

static void check(koloResult_t result, koloComm_t comm) {
    if (result == koloSuccess) return;
    fprintf(stderr, "%s\n", koloGetLastError(comm));
    exit(1);
}

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1e6 + at.tv_nsec * 1e-3;
}

/* What rank `of` sends: small integers, so that sums are exact. */
static double sent(int of, size_t element, int call) {
    return of + (double)(element % 1000) + call;
}

static void *rank(void *argument) {
    int me = (int)(long)argument;
    double *send = malloc(count * sizeof(double)), *recv = malloc(count * sizeof(double));
    if (!send || !recv) exit(1);
    for (int i = 0; i < calls; i++) {
        for (size_t e = 0; e < count; e++) {
            send[e] = sent(me, e, i);
            recv[e] = -1;
        }
        pthread_barrier_wait(&gate);
        double begin = now();
        check(koloAllReduce(send, recv, count, koloDouble, koloSum, comms[me], NULL), comms[me]);
        if (me == 0) times[i] = now() - begin;
        for (size_t e = 0; e < count; e++) {
            if (recv[e] == ranks * sent(0, e, i) + ranks * (ranks - 1) / 2.0) continue;
            fprintf(stderr, "rank %d, call %d: element %zu is %g\n", me, i, e, recv[e]);
            exit(1);
        }
    }
    free(send);
    free(recv);
    return NULL;
}

static int by_time(const void *one, const void *other) {
    double difference = *(const double *)one - *(const double *)other;
    return (difference > 0) - (difference < 0);
}

int main(int argc, char **argv) {
    pthread_t threads[MOST_RANKS];
    if (argc != 4) return 2;
    ranks = atoi(argv[1]);
    count = strtoul(argv[2], NULL, 10) / sizeof(double);
    calls = atoi(argv[3]);
    if (ranks < 1 || ranks > MOST_RANKS || count < 1 || calls < 1) return 2;
    times = malloc(calls * sizeof(double));
    if (!times) return 1;
    check(koloCommInitAll(comms, ranks, NULL), NULL);
    pthread_barrier_init(&gate, NULL, ranks);
    for (long r = 0; r < ranks; r++) pthread_create(&threads[r], NULL, rank, (void *)r);
    for (int r = 0; r < ranks; r++) pthread_join(threads[r], NULL);
    for (int r = 0; r < ranks; r++) check(koloCommDestroy(comms[r]), NULL);
    qsort(times, calls, sizeof(double), by_time);
    printf("%.3f\n", times[calls / 2]);
    return 0;
}
