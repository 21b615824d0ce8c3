/* An all-reduce of 8 bytes from an MPI program of two ranks: by MPI's name, which the drop-in
 * takes, or, compiled with -DBY_KOLO, by kolo.h.
 *
 *   mpirun -n 1 dropin COUNT : -n 1 valgrind ... dropin COUNT
 *
 * Rank 1 is counted; it comes to every call after rank 0, and never waits.
 */
#ifdef BY_KOLO
#include <kolo.h>
#include <kolo_mpi.h>
#endif
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static double sent, received;

#ifdef BY_KOLO
static koloComm_t comm;

void __attribute__((noinline)) measured(void)
{
    if (koloAllReduce(&sent, &received, 1, koloFloat64, koloSum, comm, NULL) != koloSuccess)
        MPI_Abort(MPI_COMM_WORLD, 1);
}
#else
void __attribute__((noinline)) measured(void)
{
    MPI_Allreduce(&sent, &received, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}
#endif

int main(int argc, char **argv)
{
    int rank, token = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
#ifdef BY_KOLO
    if (koloCommInitMPI(&comm, MPI_COMM_WORLD) != koloSuccess) MPI_Abort(MPI_COMM_WORLD, 1);
#endif
    const int count = argc > 1 ? atoi(argv[1]) : 0;
    for (int i = 0; i < count; i++) {
        sent = rank + i;
        received = -1;
        if (rank == 0) {
            MPI_Send(&token, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
            measured();
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
#ifdef BY_KOLO
    (void)!koloCommDestroy(comm);
#endif
    MPI_Finalize();
    return 0;
}
