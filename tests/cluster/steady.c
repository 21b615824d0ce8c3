/* Sums without end, until a call fails: what the ranks of a job hear when something happens to
   others. Ranks start without a launcher. Prints "together" after the first sum, and the error.
   With a number it sums so many elements, in memory that other ranks of the node read. */
#include <kolo.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(int argc, char **argv) {
    const int count = argc > 1 ? atoi(argv[1]) : 100;
    koloComm_t comm;
    if (koloCommInitEnv(&comm) != koloSuccess) {
        fprintf(stderr, "init: %s\n", koloGetLastError(NULL));
        return 2;
    }
    int rank, nranks;
    koloCommUserRank(comm, &rank);
    koloCommCount(comm, &nranks);
    void *memory[2];
    for (int i = 0; i < 2; i++)
        if (koloMemAlloc(&memory[i], count * sizeof(double)) != koloSuccess) return 5;
    double *const mine = memory[0], *const sums = memory[1];
    for (long round = 0;; round++) {
        for (int i = 0; i < count; i++) {
            mine[i] = (double)(rank + i + round % 1000);
            sums[i] = -1;
        }
        if (koloAllReduce(mine, sums, count, koloFloat64, koloSum, comm, NULL) != koloSuccess) {
            printf("rank %d: %s\n", rank, koloGetLastError(comm));
            fflush(stdout);
            koloCommDestroy(comm);
            return 3;
        }
        for (int i = 0; i < count; i++) {
            double expected = nranks * (nranks - 1) / 2.0 + nranks * (double)(i + round % 1000);
            if (sums[i] != expected) {
                printf("rank %d: round %ld: wrong sum\n", rank, round);
                return 4;
            }
        }
        if (round == 0) {
            fputs("together\n", stdout);
            fflush(stdout);
        }
        struct timespec pause = {0, 2000000};
        nanosleep(&pause, NULL);
    }
}
