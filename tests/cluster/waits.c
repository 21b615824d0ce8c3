/* waits [handle|ignore]: 3 barriers; then rank 1 stays away from the fourth call, an all-reduce.
 * With "handle" the program has a handler for SIGTERM, which ends it with status 7; with "ignore"
 * it ignores SIGUSR1. */
#include "check.h"
#include <signal.h>
#include <string.h>
#include <unistd.h>

static void on_term(int number) {
    (void)number;
    _exit(7);
}

int main(int argc, char **argv) {
    koloComm_t comm;
    int rank;
    double x[2048];
    if (argc > 1 && strcmp(argv[1], "handle") == 0) signal(SIGTERM, on_term);
    if (argc > 1 && strcmp(argv[1], "ignore") == 0) signal(SIGUSR1, SIG_IGN);
    must(koloCommInitEnv(&comm), "koloCommInitEnv");
    must(koloCommUserRank(comm, &rank), "koloCommUserRank");
    for (int i = 0; i < 3; i++) must(koloBarrier(comm, NULL), "koloBarrier");
    for (int i = 0; i < 2048; i++) x[i] = rank + i;
    printf("rank %d is there\n", rank);
    fflush(stdout);
    /* A handler ends one sleep early. */
    while (rank == 1) sleep(600);
    must(koloAllReduce(x, x, 2048, koloFloat64, koloSum, comm, NULL), "koloAllReduce");
    return 0;
}
