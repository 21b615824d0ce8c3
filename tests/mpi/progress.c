/* Right by MPI's progress rule: rank 1 waits in MPI for what rank 0 sends after its call ended. */
#include <kolo_mpi.h>
#include <stdio.h>

#define COUNT 300000

static double from[COUNT], to[COUNT];

int main(void)
{
    koloComm_t comm;
    koloRequest_t request;
    int rank, nranks, wrong = 0;
    char byte = 0;
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    if (koloCommInitMPI(&comm, MPI_COMM_WORLD) != koloSuccess) return 1;
    for (int i = 0; i < COUNT; i++) from[i] = i + rank;
    if (koloIAllReduce(from, to, COUNT, koloFloat64, koloSum, comm, &request) != koloSuccess)
        return 1;
    if (rank > 0) MPI_Bcast(&byte, 1, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (koloWait(&request) != koloSuccess) return 1;
    if (rank == 0) MPI_Bcast(&byte, 1, MPI_CHAR, 0, MPI_COMM_WORLD);
    for (int i = 0; i < COUNT; i++)
        wrong += to[i] != (double)i * nranks + nranks * (nranks - 1) / 2;
    koloCommDestroy(comm);
    MPI_Finalize();
    if (!wrong && rank == 0) fputs("all right\n", stdout);
    return wrong != 0;
}
