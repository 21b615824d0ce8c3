/*
 * Makes communicators of all ranks, uses and frees them: dropin_spans ALTOGETHER ALIVE
 *
 * So many are alive at a time. Each is used twice, by an MPI_Allreduce and an MPI_Bcast, whose
 * results are checked on all ranks.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, size;

static void use(MPI_Comm comm, int number)
{
    enum { N = 5 };
    int mine[N], found[N];
    for (int i = 0; i < N; i++) mine[i] = number + i * (rank + 1), found[i] = -1;
    MPI_Allreduce(mine, found, N, MPI_INT, MPI_SUM, comm);
    for (int i = 0; i < N; i++)
        if (found[i] != size * number + i * size * (size + 1) / 2) {
            printf("rank %d: communicator %d: sum %d is %d\n", rank, number, i, found[i]);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    int me, root = number % size;
    MPI_Comm_rank(comm, &me);
    for (int i = 0; i < N; i++) found[i] = me == root ? 3 * number + i : -1;
    MPI_Bcast(found, N, MPI_INT, root, comm);
    for (int i = 0; i < N; i++)
        if (found[i] != 3 * number + i) {
            printf("rank %d: communicator %d: byte %d is %d\n", rank, number, i, found[i]);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int all = argc > 1 ? atoi(argv[1]) : 10, alive = argc > 2 ? atoi(argv[2]) : 1;
    MPI_Comm *comms = malloc((size_t)alive * sizeof *comms);
    for (int i = 0; i < all; i++) {
        if (i >= alive) MPI_Comm_free(&comms[i % alive]);
        /* Every other one has the ranks in reverse order. */
        if (i % 2) MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comms[i % alive]);
        else MPI_Comm_dup(MPI_COMM_WORLD, &comms[i % alive]);
        use(comms[i % alive], i);
    }
    for (int i = 0; i < alive && i < all; i++) use(comms[i], all + i);
    for (int i = 0; i < alive && i < all; i++) MPI_Comm_free(&comms[i]);
    free(comms);
    printf("rank %d: done\n", rank);
    MPI_Finalize();
    return 0;
}
