/* mpicc hello.c $(pkg-config --cflags --libs kolo-mpi) -o hello && mpirun -n 4 ./hello */
#include <kolo_mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    koloComm_t comm;
    int rank, nranks;
    double x, sum;
    MPI_Init(&argc, &argv);
    if (koloCommInitMPI(&comm, MPI_COMM_WORLD) != koloSuccess) {
        fprintf(stderr, "%s\n", koloGetLastError(NULL));
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    koloCommUserRank(comm, &rank);
    koloCommCount(comm, &nranks);
    x = rank + 1;
    if (koloAllReduce(&x, &sum, 1, koloDouble, koloSum, comm, NULL) != koloSuccess) {
        fprintf(stderr, "%s\n", koloGetLastError(comm));
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    printf("rank %d of %d: the sum is %g\n", rank, nranks, sum);
    koloCommDestroy(comm);
    MPI_Finalize();
    return 0;
}
