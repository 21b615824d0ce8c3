/* The calls of the benchmark from C: what Fortran is compared with. */
#include <kolo.h>
#include <stdio.h>
#include <stdlib.h>

/* `calls` all-reduces of one double; `comm` is the handle inside a type(kolo_comm). */
void call_c(const double *send, double *recv, int calls, const koloComm_t *comm) {
    for (int i = 0; i < calls; i++)
        if (koloAllReduce(send, recv, 1, koloDouble, koloSum, *comm, NULL) != koloSuccess) {
            fprintf(stderr, "%s\n", koloGetLastError(*comm));
            exit(1);
        }
}
