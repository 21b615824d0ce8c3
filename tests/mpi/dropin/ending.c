/*
 * Attributes of MPI_COMM_SELF, whose callbacks MPI_Finalize calls first: they run collectives on
 * communicators that kolo has, and free one of them. Every rank prints how many were right.
 */
#include <mpi.h>
#include <stdio.h>

static MPI_Comm copy;
static int rank, ranks, right;

static void use(MPI_Comm comm, int number)
{
    int mine = (rank + 1) * number, all[64], sum = -1;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm);
    right += sum == number * ranks * (ranks + 1) / 2;
    MPI_Allgather(&mine, 1, MPI_INT, all, 1, MPI_INT, comm);
    int good = 1;
    for (int i = 0; i < ranks; i++) good &= all[i] == (i + 1) * number;
    right += good;
    MPI_Barrier(comm);
}

/* Called in the opposite order of their making: 2, 1. */
static int ended(MPI_Comm comm, int key, void *value, void *extra)
{
    const int which = *(int *)value;
    (void)comm, (void)key, (void)extra;
    use(MPI_COMM_WORLD, 10 + which);
    use(copy, 20 + which);
    if (which == 1) {
        MPI_Comm_free(&copy);
        use(MPI_COMM_WORLD, 30);
        /* Of a communicator that is made here, too. */
        MPI_Comm_dup(MPI_COMM_WORLD, &copy);
        use(copy, 40);
        MPI_Comm_free(&copy);
        printf("rank %d: %d right\n", rank, right);
        fflush(stdout);
    }
    return MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    static int one = 1, two = 2;
    int keys[2];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    for (int i = 0; i < 2; i++)
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, ended, &keys[i], NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, keys[0], &one);
    MPI_Comm_set_attr(MPI_COMM_SELF, keys[1], &two);
    use(MPI_COMM_WORLD, 1);
    use(copy, 2);
    MPI_Finalize();
    return 0;
}
