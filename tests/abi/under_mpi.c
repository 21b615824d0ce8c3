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

/* A line of ranks: what MPI calls nobody is nobody to kolo, in messages and in graphs. */
static void nobody_of_mpi(koloComm_t comm, int mine, int members) {
    const int above = mine + 1 < members ? mine + 1 : MPI_PROC_NULL;
    const int below = mine > 0 ? mine - 1 : MPI_PROC_NULL;
    const int sources[2] = {below, above};
    double two[2] = {10 * mine, 10 * mine + 1}, from[2] = {-1, -1};
    koloGraph_t graph;
    int listed[2] = {99, 99}, others[2] = {99, 99};
    fresh();
    for (int i = 0; i < ELEMENTS; i++) in[i] = 1000 * (mine + 1) + i % 97;
    OK(koloSendRecv(in, ELEMENTS, above, out, ELEMENTS, below, koloDouble, comm, NULL));
    for (int i = 0; i < ELEMENTS; i++) CHECK(out[i] == (mine > 0 ? 1000 * mine + i % 97 : -1));
    OK(koloSend(in, 1, koloDouble, MPI_PROC_NULL, comm, NULL));
    OK(koloRecv(in, 1, koloDouble, MPI_PROC_NULL, comm, NULL));
    CHECK(in[0] == 1000 * (mine + 1));
    FAILS(koloInvalidArgument, "peer -3", koloSend(in, 1, koloDouble, -3, comm, NULL));
    FAILS(koloInvalidArgument, "root", koloBcast(in, 1, koloDouble, MPI_PROC_NULL, comm, NULL));
    OK(koloGraphCreate(comm, 2, sources, 2, sources, &graph));
    OK(koloGraphNeighbors(graph, listed, others));
    CHECK(listed[0] == (mine > 0 ? mine - 1 : KOLO_NO_RANK) && listed[0] == others[0]);
    OK(koloNeighborAllToAll(two, from, 1, koloDouble, graph, NULL));
    CHECK(from[0] == (mine > 0 ? 10 * (mine - 1) + 1 : -1));
    CHECK(from[1] == (mine + 1 < members ? 10 * (mine + 1) : -1));
    OK(koloGraphDestroy(graph));
}

int main(int argc, char **argv) {
    koloComm_t comm, half;
    MPI_Comm mpi_half;
    int members = 0, place = -1, next, previous;
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
    fresh();
    OK(koloSendRecv(in, ELEMENTS, next, out, ELEMENTS, previous, koloDouble, comm, NULL));
    MPI_Sendrecv(in, ELEMENTS, MPI_DOUBLE, next, 0, expected, ELEMENTS, MPI_DOUBLE, previous, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    same();

    OK(koloCommSplit(comm, rank % 2, 0, &half, NULL));
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &mpi_half);
    MPI_Comm_size(mpi_half, &members);
    nobody_of_mpi(comm, rank, nranks);
    MPI_Comm_rank(mpi_half, &place);
    nobody_of_mpi(half, place, members);
    fresh();
    OK(koloAllReduce(in, out, 1, koloDouble, koloProd, half, NULL));
    MPI_Allreduce(in, expected, 1, MPI_DOUBLE, MPI_PROD, mpi_half);
    same();
    OK(koloCommDestroy(half));
    MPI_Comm_free(&mpi_half);
    OK(koloCommDestroy(comm));
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) fputs("under_mpi: ok\n", stdout);
    MPI_Finalize();
    return 0;
}
