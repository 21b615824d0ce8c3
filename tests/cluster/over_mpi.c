/* over_mpi: a communicator of the ranks of MPI_COMM_WORLD. */
#include "check.h"
#include <kolo_mpi.h>

int main(int argc, char **argv) {
    koloComm_t comm;
    MPI_Init(&argc, &argv);
    must(koloCommInitMPI(&comm, MPI_COMM_WORLD), "koloCommInitMPI");
    tell(comm);
    must(koloCommDestroy(comm), "koloCommDestroy");
    MPI_Finalize();
    return 0;
}
