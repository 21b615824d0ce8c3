/* Sums without end, until a call fails: what the ranks of a job hear when something happens to
   others. Ranks start without a launcher. Prints "together" after the first sum, and the error. */
#include <kolo.h>
#include <stdio.h>
#include <time.h>

int main(void) {
    koloComm_t comm;
    if (koloCommInitEnv(&comm) != koloSuccess) {
        fprintf(stderr, "init: %s\n", koloGetLastError(NULL));
        return 2;
    }
    int rank, nranks;
    koloCommUserRank(comm, &rank);
    koloCommCount(comm, &nranks);
    for (long round = 0;; round++) {
        double mine[100], sums[100];
        for (int i = 0; i < 100; i++) {
            mine[i] = (double)(rank + i + round % 1000);
            sums[i] = -1;
        }
        if (koloAllReduce(mine, sums, 100, koloFloat64, koloSum, comm, NULL) != koloSuccess) {
            printf("rank %d: %s\n", rank, koloGetLastError(comm));
            fflush(stdout);
            koloCommDestroy(comm);
            return 3;
        }
        for (int i = 0; i < 100; i++) {
            double expected = nranks * (nranks - 1) / 2.0 + nranks * (double)(i + round % 1000);
            if (sums[i] != expected) {
                printf("rank %d: round %ld: wrong sum\n", rank, round);
                return 4;
            }
        }
        if (round == 0) {
            printf("together\n");
            fflush(stdout);
        }
        struct timespec pause = {0, 2000000};
        nanosleep(&pause, NULL);
    }
}
