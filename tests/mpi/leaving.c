/* Ranks that leave as soon as their own part of a rooted call is done: what they sent arrives. */
#include <kolo_mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define LONG 500000

static double from[LONG], to[LONG];

static koloResult_t run(int what, koloComm_t comm, int rank, int nranks)
{
    int mine = rank + 1, sum = -1, all[64], whole = nranks * (nranks + 1) / 2;
    koloResult_t code = koloSuccess;
    switch (what) {
    case 0: /* many small calls */
        for (int i = 0; i < 50 && code == koloSuccess; i++) {
            code = koloReduce(&mine, &sum, 1, koloInt32, koloSum, 0, comm, NULL);
            if (code == koloSuccess && rank == 0 && sum != whole) return koloInternalError;
        }
        return code;
    case 1: /* one small call */
        code = koloReduce(&mine, &sum, 1, koloInt32, koloSum, 0, comm, NULL);
        if (code == koloSuccess && rank == 0 && sum != whole) return koloInternalError;
        return code;
    case 2:
        code = koloBcast(&mine, 1, koloInt32, 0, comm, NULL);
        return code == koloSuccess && mine != 1 ? koloInternalError : code;
    case 3:
        code = koloGather(&mine, all, 1, koloInt32, 0, comm, NULL);
        for (int i = 0; code == koloSuccess && rank == 0 && i < nranks; i++)
            if (all[i] != i + 1) return koloInternalError;
        return code;
    default: /* a long call */
        for (int i = 0; i < LONG; i++) from[i] = i % 1000 + rank;
        code = koloReduce(from, to, LONG, koloFloat64, koloSum, 0, comm, NULL);
        for (int i = 0; code == koloSuccess && rank == 0 && i < LONG; i++)
            if (to[i] != (i % 1000) * nranks + whole - nranks) return koloInternalError;
        return code;
    }
}

int main(void)
{
    int rank, nranks, bad = 0, worst;
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    for (int what = 0; what < 5; what++) {
        koloComm_t comm;
        koloResult_t code = koloCommInitMPI(&comm, MPI_COMM_WORLD);
        if (code == koloSuccess) code = run(what, comm, rank, nranks);
        if (code != koloSuccess) {
            printf("rank %d, call %d: %s\n", rank, what,
                   koloGetLastError(comm));
            bad = 1;
        }
        koloCommDestroy(comm);
    }
    MPI_Allreduce(&bad, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Finalize();
    if (rank == 0 && !worst) fputs("all right\n", stdout);
    return worst;
}
