/* The same call of 8 bytes as calls.c, from an MPI program of two ranks: what the drop-in adds.
 *
 *   mpirun -n 1 dropin COUNT : -n 1 valgrind ... dropin COUNT
 *
 * Rank 1 is counted; it comes to every call after rank 0, and never waits.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static double sent, received;

void __attribute__((noinline)) measured(void)
{
    MPI_Allreduce(&sent, &received, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    int rank, token = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const int count = argc > 1 ? atoi(argv[1]) : 0;
    for (int i = 0; i < count; i++) {
        sent = rank + i;
        received = -1;
        if (rank == 0) {
            MPI_Send(&token, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
            MPI_Allreduce(&sent, &received, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        } else {
            MPI_Recv(&token, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            usleep(3000);
            measured();
        }
        if (received != 2 * i + 1) {
            fprintf(stderr, "call %d on rank %d: %g\n", i, rank, received);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    MPI_Finalize();
    return 0;
}
