/* What the programs of this folder share: every rank prints who it is and the sum of rank + 1. */
#include <kolo.h>
#include <stdio.h>
#include <stdlib.h>

static void must(koloResult_t code, const char *call) {
    if (code == koloSuccess) return;
    fprintf(stderr, "%s: %s: %s\n", call,
            code == koloInvalidUsage ? "koloInvalidUsage" : koloGetErrorString(code),
            koloGetLastError(NULL));
    exit(1);
}

static inline void tell(koloComm_t comm) {
    int rank, nranks;
    must(koloCommUserRank(comm, &rank), "koloCommUserRank");
    must(koloCommCount(comm, &nranks), "koloCommCount");
    int mine = rank + 1, sum = 0;
    must(koloAllReduce(&mine, &sum, 1, koloInt32, koloSum, comm, NULL), "koloAllReduce");
    printf("%d of %d, sum %d\n", rank, nranks, sum);
    fflush(stdout);
}
