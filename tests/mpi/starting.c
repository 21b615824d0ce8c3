/* One rank alone cannot begin: KOLO_TEST_VARIABLE is set on the last rank only. All ranks must get
 * an error that says why, and none may wait; without the variable they make a communicator. */
#include <kolo_mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    int rank, nranks, good = 1, all;
    koloComm_t comm;
    koloResult_t code;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    if (argc == 3 && rank == nranks - 1) setenv(argv[1], argv[2], 1);
    code = koloCommInitMPI(&comm, MPI_COMM_WORLD);
    if (argc == 3) {
        char who[64];
        const char *sentence = koloGetLastError(NULL);
        snprintf(who, sizeof who, "rank %d on ", nranks - 1);
        good = code != koloSuccess && strstr(sentence, argv[2]) && strstr(sentence, "Remedy: ") &&
               (rank == nranks - 1 || (code == koloRemoteError && strstr(sentence, who)));
        unsetenv(argv[1]);
        if (!good) fprintf(stderr, "rank %d: %d, %s\n", rank, code, sentence);
        /* The program's communicator is in step: the next attempt meets. */
        code = koloCommInitMPI(&comm, MPI_COMM_WORLD);
    }
    good = good && code == koloSuccess && koloBarrier(comm, NULL) == koloSuccess &&
           koloCommDestroy(comm) == koloSuccess;
    MPI_Allreduce(&good, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (rank == 0) fputs(all ? "starting: ok\n" : "starting: wrong\n", stdout);
    MPI_Finalize();
    return !all;
}
