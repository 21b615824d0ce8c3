/* Says whether kolo finds the other processes of the job; with an argument, whether MPI does. It
 * ends well in any case, as a program does that ignores errors. */
#include <kolo_mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    koloComm_t comm = NULL;
    int nranks = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    if (argc > 1) {
        printf("world of %d\n", nranks);
    } else if (koloCommInitMPI(&comm, MPI_COMM_WORLD) != koloSuccess) {
        fputs("refused\n", stdout);
    } else {
        koloCommCount(comm, &nranks);
        if (nranks == 1) fputs("alone\n", stdout);
        else printf("%d ranks\n", nranks);
        koloCommDestroy(comm);
    }
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
