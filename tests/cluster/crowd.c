/* One communicator of many ranks, each a thread: `crowd FILE PROCESS PROCESSES THREADS`. Process 0
   writes the unique id to FILE, which the others wait for. Every rank sums one element and prints
   the seconds that it took to make the communicator, and the sum. */
#include "check.h"
#include <pthread.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

static koloUniqueId id;
static int nranks;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void *one(void *argument) {
    int rank = (int)(intptr_t)argument;
    koloComm_t comm;
    double begin = now();
    must(koloCommInitRank(&comm, nranks, id, rank), "koloCommInitRank");
    double made = now();
    int64_t mine = (int64_t)rank * rank + 7, sum = -1, expected = 0;
    must(koloAllReduce(&mine, &sum, 1, koloInt64, koloSum, comm, NULL), "koloAllReduce");
    double summed = now();
    for (int64_t r = 0; r < nranks; r++) expected += r * r + 7;
    if (sum != expected) {
        fprintf(stderr, "rank %d: %ld, not %ld\n", rank, (long)sum, (long)expected);
        exit(4);
    }
    must(koloCommDestroy(comm), "koloCommDestroy");
    printf("rank %d right: made in %.1f s, summed in %.1f s, ended in %.1f s\n", rank, made - begin,
           summed - made, now() - summed);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 5) return 2;
    int process = atoi(argv[2]), threads = atoi(argv[4]);
    nranks = atoi(argv[3]) * threads;
    if (process == 0) {
        char unfinished[4096];
        must(koloGetUniqueId(&id), "koloGetUniqueId");
        snprintf(unfinished, sizeof unfinished, "%s.new", argv[1]);
        FILE *f = fopen(unfinished, "w");
        if (!f || fwrite(&id, sizeof id, 1, f) != 1 || fclose(f)) return 3;
        if (rename(unfinished, argv[1])) return 3;
    } else {
        FILE *f;
        while (!(f = fopen(argv[1], "r"))) usleep(10000);
        if (fread(&id, sizeof id, 1, f) != 1 || fclose(f)) return 3;
    }
    pthread_t *ranks = calloc((size_t)threads, sizeof *ranks);
    for (int t = 0; t < threads; t++) {
        intptr_t rank = (intptr_t)process * threads + t;
        if (pthread_create(&ranks[t], NULL, one, (void *)rank)) return 3;
    }
    for (int t = 0; t < threads; t++) pthread_join(ranks[t], NULL);
    free(ranks);
    return 0;
}
