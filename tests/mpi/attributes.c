/* kolo runs none of the functions by which the program copies its attributes. */
#include <kolo_mpi.h>
#include <stdio.h>

static int copies;

static int copy(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag)
{
    (void)comm, (void)key, (void)extra;
    copies++;
    *(void **)out = in;
    *flag = 1;
    return MPI_SUCCESS;
}

int main(void)
{
    koloComm_t comm, half;
    MPI_Comm world, twin;
    int key, rank, sum = 0, one = 1;
    MPI_Init(NULL, NULL);
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    MPI_Comm_rank(world, &rank);
    MPI_Comm_create_keyval(copy, MPI_COMM_NULL_DELETE_FN, &key, NULL);
    MPI_Comm_set_attr(world, key, &copies);
    if (koloCommInitMPI(&comm, world) || koloCommSplit(comm, rank % 2, 0, &half, NULL) ||
        koloAllReduce(&one, &sum, 1, koloInt32, koloSum, comm, 0)) {
        fprintf(stderr, "%s\n", koloGetLastError(NULL));
        return 1;
    }
    if (koloCommDestroy(half) || koloCommDestroy(comm)) return 1;
    int by_kolo = copies;
    MPI_Comm_dup(world, &twin);
    if (rank == 0 && by_kolo == 0 && copies == 1 && sum == 3) fputs("all right\n", stdout);
    if (by_kolo) printf("rank %d: %d copies\n", rank, by_kolo);
    MPI_Comm_free(&twin);
    MPI_Comm_free(&world);
    return MPI_Finalize() || by_kolo;
}
