/* The last rank computes for some seconds, outside of kolo, while rank 0 has sent it much:
   `slow_reader SECONDS WAY`. The ways: messages begun together, many small messages, a broadcast.
   All that arrives is checked; rank 0 prints by how many KiB its memory grew meanwhile, and how
   long it waited. */
#include "check.h"
#include <stdint.h>
#include <string.h>
#include <time.h>

enum { LARGE = 4 << 20, MANY = 8, SMALL = 1 << 10, BYTES = LARGE * MANY };

static uint32_t value(size_t i, int turn) {
    return (uint32_t)i * 2654435761u + (uint32_t)turn * 40503u;
}

/* A line of /proc/self/status that is in KiB. */
static long status(const char *name) {
    char line[256];
    long kib = -1;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, name, strlen(name))) kib = atol(line + strlen(name));
    if (f) fclose(f);
    return kib;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void move(koloComm_t comm, int rank, int last, const char *way, char *data) {
    koloRequest_t requests[MANY];
    if (*way == 'b') {
        must(koloBcast(data, BYTES, koloByte, 0, comm, NULL), "koloBcast");
    } else if (*way == 's') {
        for (int at = 0; at < BYTES; at += SMALL) {
            if (rank == 0) must(koloSend(data + at, SMALL, koloByte, last, comm, NULL), "koloSend");
            if (rank == last) must(koloRecv(data + at, SMALL, koloByte, 0, comm, NULL), "koloRecv");
        }
    } else if (rank == 0 || rank == last) {
        for (int i = 0; i < MANY; i++) {
            char *at = data + i * LARGE;
            must(rank == 0 ? koloISend(at, LARGE, koloByte, last, comm, &requests[i])
                           : koloIRecv(at, LARGE, koloByte, 0, comm, &requests[i]), "begin");
        }
        must(koloWaitAll(MANY, requests), "koloWaitAll");
    }
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    koloComm_t comm;
    must(koloCommInitEnv(&comm), "koloCommInitEnv");
    const char *way = argv[2];      /* together, small, broadcast */
    int rank, n;
    must(koloCommUserRank(comm, &rank), "koloCommUserRank");
    must(koloCommCount(comm, &n), "koloCommCount");
    uint32_t *data = malloc(BYTES);
    for (int turn = 0; turn < 2; turn++) {      /* the first warms up */
        for (size_t i = 0; i < BYTES / sizeof *data; i++)
            data[i] = rank == 0 ? value(i, turn) : 0xa5a5a5a5u;
        must(koloBarrier(comm, NULL), "koloBarrier");
        FILE *f = fopen("/proc/self/clear_refs", "w");      /* VmHWM starts anew */
        if (!f || fputs("5", f) < 0 || fclose(f)) return 5;
        long before = status("VmRSS:");
        double begin = now();
        if (turn && rank == n - 1) {
            struct timespec pause = {atoi(argv[1]), 0};
            nanosleep(&pause, NULL);
        }
        move(comm, rank, n - 1, way, (char *)data);
        if (turn && rank == 0)
            printf("grew %ld KiB, waited %.1f s\n", status("VmHWM:") - before, now() - begin);
        if (rank == 0 || rank == n - 1 || *way == 'b')
            for (size_t i = 0; i < BYTES / sizeof *data; i++)
                if (data[i] != value(i, turn)) {
                    fprintf(stderr, "rank %d: turn %d: element %zu is wrong\n", rank, turn, i);
                    return 4;
                }
    }
    must(koloCommDestroy(comm), "koloCommDestroy");
    fputs("right\n", stdout);
    return 0;
}
