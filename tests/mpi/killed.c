/* A rank is killed while the others wait for it: every one of them gets an error that names it,
   within two seconds. */
#include <kolo_mpi.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
    koloComm_t comm;
    int rank, nranks, call;
    double x = 1, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    if (koloCommInitMPI(&comm, MPI_COMM_WORLD) != koloSuccess) {
        fprintf(stderr, "%s\n", koloGetLastError(NULL));
        return 1;
    }
    for (call = 0; call < 100; call++)
        if (koloAllReduce(&x, &sum, 1, koloDouble, koloSum, comm, NULL) || sum != nranks) return 1;
    if (rank == 1) {
        sleep(1);
        raise(SIGKILL);
    }
    double start = MPI_Wtime();
    koloResult_t result = koloAllReduce(&x, &sum, 1, koloDouble, koloSum, comm, NULL);
    double waited = MPI_Wtime() - start;
    const char *why = koloGetLastError(comm);
    int named = strstr(why, "rank 1 died") != NULL;
    printf("rank %d: code %d after %.2f s: %s\n", rank, result, waited, why);
    printf(result == koloRemoteError && named && waited < 3 ? "noticed\n" : "WRONG\n");
    fflush(stdout);
    koloCommAbort(comm);
    _exit(0);
}
