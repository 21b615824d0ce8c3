/* Collectives whose every element is checked: `exchange CALL ITERATIONS BYTES...`, where CALL is
   all_reduce, broadcast (roots in turn) or sendrecv (with the rank half the job away). Ranks start
   without a launcher. At the end they meet in a barrier, unless CALL ends in _and_leave, and each
   prints "right". */
#include "check.h"
#include <stdint.h>
#include <string.h>

static uint32_t value(int rank, size_t i, int round) {
    return (uint32_t)(rank + 1) * 2654435761u * (uint32_t)(round + 1) + (uint32_t)i * 40503u;
}

static void check(const uint32_t *got, size_t i, uint32_t expected, int rank, int round) {
    if (got[i] == expected) return;
    fprintf(stderr, "rank %d: round %d: element %zu is %08x, not %08x\n", rank, round, i, got[i],
            expected);
    exit(4);
}

int main(int argc, char **argv) {
    koloComm_t comm;
    must(koloCommInitEnv(&comm), "koloCommInitEnv");
    int rank, n;
    must(koloCommUserRank(comm, &rank), "koloCommUserRank");
    must(koloCommCount(comm, &n), "koloCommCount");
    for (int a = 3; a < argc; a++) {
        size_t bytes = (size_t)atol(argv[a]), count = bytes / sizeof(uint32_t);
        uint32_t *mine = malloc(bytes), *got = malloc(bytes);
        for (int round = 0; round < atoi(argv[2]); round++) {
            for (size_t i = 0; i < count; i++) mine[i] = value(rank, i, round);
            memset(got, 0xa5, bytes);
            int root = round % n, to = (rank + n / 2) % n, from = (rank + n - n / 2) % n;
            if (!strncmp(argv[1], "all_reduce", 10)) {
                must(koloAllReduce(mine, got, count, koloUint32, koloSum, comm, NULL), argv[1]);
            } else if (!strncmp(argv[1], "broadcast", 9)) {
                must(koloBroadcast(mine, got, count, koloUint32, root, comm, NULL), argv[1]);
                from = root;
            } else {
                must(koloGroupStart(), argv[1]);
                must(koloSend(mine, count, koloUint32, to, comm, NULL), argv[1]);
                must(koloRecv(got, count, koloUint32, from, comm, NULL), argv[1]);
                must(koloGroupEnd(), argv[1]);
            }
            for (size_t i = 0; i < count; i++) {
                uint32_t expected = value(from, i, round);
                if (!strncmp(argv[1], "all_reduce", 10)) {
                    expected = 0;
                    for (int r = 0; r < n; r++) expected += value(r, i, round);
                }
                check(got, i, expected, rank, round);
            }
        }
        free(mine);
        free(got);
    }
    if (!strstr(argv[1], "_and_leave")) must(koloBarrier(comm, NULL), "koloBarrier");
    must(koloCommDestroy(comm), "koloCommDestroy");
    fputs("right\n", stdout);
    return 0;
}
