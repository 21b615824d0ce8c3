/* kolo in an MPI program: every result is compared with MPI's, and MPI stays usable. */
#include "check.h"
#include <kolo_mpi.h>

enum { ELEMENTS = 5000 };

static double in[4 * ELEMENTS], out[4 * ELEMENTS], expected[4 * ELEMENTS];
static int rank, nranks;

static void fresh(void) {
    for (int i = 0; i < 4 * ELEMENTS; i++) {
        in[i] = 1000 * (rank + 1) + i % 97;
        out[i] = expected[i] = -1;
    }
}

static void same(void) { CHECK(memcmp(out, expected, sizeof out) == 0); }

int main(int argc, char **argv) {
    koloComm_t comm, half;
    MPI_Comm mpi_half;
    int members = 0, next, previous;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    CHECK(nranks <= 4);
    OK(koloCommInitMPI(&comm, MPI_COMM_WORLD));
    FAILS(koloInvalidArgument, "", koloCommInitMPI(NULL, MPI_COMM_WORLD));
    CHECK(koloCommInitMPI(&half, MPI_COMM_NULL) == koloInvalidArgument && half == NULL);

    fresh();
    OK(koloAllReduce(in, out, ELEMENTS, koloDouble, koloSum, comm, NULL));
    MPI_Allreduce(in, expected, ELEMENTS, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    same();
    fresh();
    OK(koloAllGather(in, out, ELEMENTS, koloDouble, comm, NULL));
    MPI_Allgather(in, ELEMENTS, MPI_DOUBLE, expected, ELEMENTS, MPI_DOUBLE, MPI_COMM_WORLD);
    same();
    fresh();
    OK(koloAllToAll(in, out, ELEMENTS, koloDouble, comm, NULL));
    MPI_Alltoall(in, ELEMENTS, MPI_DOUBLE, expected, ELEMENTS, MPI_DOUBLE, MPI_COMM_WORLD);
    same();
    fresh();
    OK(koloReduce(in, out, ELEMENTS, koloDouble, koloMax, nranks - 1, comm, NULL));
    MPI_Reduce(in, expected, ELEMENTS, MPI_DOUBLE, MPI_MAX, nranks - 1, MPI_COMM_WORLD);
    same();
    fresh();
    next = (rank + 1) % nranks, previous = (rank + nranks - 1) % nranks;
    OK(koloGroupStart());
    OK(koloSend(in, ELEMENTS, koloDouble, next, comm, NULL));
    OK(koloRecv(out, ELEMENTS, koloDouble, previous, comm, NULL));
    OK(koloGroupEnd());
    MPI_Sendrecv(in, ELEMENTS, MPI_DOUBLE, next, 0, expected, ELEMENTS, MPI_DOUBLE, previous, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    same();

    OK(koloCommSplit(comm, rank % 2, 0, &half, NULL));
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &mpi_half);
    MPI_Comm_size(mpi_half, &members);
    fresh();
    OK(koloAllReduce(in, out, 1, koloDouble, koloProd, half, NULL));
    MPI_Allreduce(in, expected, 1, MPI_DOUBLE, MPI_PROD, mpi_half);
    same();
    OK(koloCommDestroy(half));
    MPI_Comm_free(&mpi_half);
    OK(koloCommDestroy(comm));
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) puts("under_mpi: ok");
    MPI_Finalize();
    return 0;
}
