/*
 * Collectives between two groups. What counts on other ranks only is given so that whoever looks at
 * it ends badly. The messages are checked on all ranks.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static void check(int good, const char *what, int rank)
{
    if (good) return;
    fprintf(stderr, "dropin_groups: rank %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv)
{
    int rank, ranks, mine, theirs, sum, me;
    MPI_Comm half, between;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    /* The upper group has one rank more, or as many. */
    const int lower = ranks / 2, upper = ranks - lower, below = rank < lower;
    MPI_Comm_split(MPI_COMM_WORLD, below, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, below ? lower : 0, 17, &between);
    MPI_Comm_rank(between, &me);
    int *volatile nowhere = (int *)8;
    const MPI_Datatype none = MPI_INT;
    for (int round = 0; round < 3; round++) {
        /* The sum of one group goes to the other. */
        mine = 100 * round + rank + 1;
        MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, between);
        theirs = 0;
        for (int other = below ? lower : 0; other < (below ? ranks : lower); other++)
            theirs += 100 * round + other + 1;
        check(sum == theirs, "the sum of the other group", rank);

        /* From the lower group to rank 0 of the upper one, and back. */
        int counts[64], at[64], got[256];
        for (int i = 0; i < lower; i++) {
            counts[i] = i + 1;
            at[i] = 2 * i * (i + 1);
        }
        for (int i = 0; i < 256; i++) got[i] = below ? mine : -1;
        if (below)
            MPI_Gatherv(got, me + 1, MPI_INT, nowhere, nowhere, nowhere, none, 0, between);
        else
            MPI_Gatherv(nowhere, -1, none, got, counts, at, MPI_INT, me ? MPI_PROC_NULL : MPI_ROOT,
                        between);
        for (int i = 0; !below && me == 0 && i < lower; i++)
            for (int k = 0; k < counts[i]; k++)
                check(got[at[i] + k] == 100 * round + i + 1, "gathered", rank);
        if (below) {
            for (int i = 0; i < 256; i++) got[i] = -1;
            MPI_Scatterv(nowhere, nowhere, nowhere, none, got, me + 1, MPI_INT, 0, between);
            for (int k = 0; k <= me; k++) check(got[k] == 100 * round + me + 1, "scattered", rank);
        } else
            MPI_Scatterv(got, counts, at, MPI_INT, nowhere, -1, none,
                         me ? MPI_PROC_NULL : MPI_ROOT, between);
    }
    MPI_Comm_free(&between);
    MPI_Comm_free(&half);
    MPI_Finalize();
    printf("%d: %d of %d\n", rank, lower, upper);
    return 0;
}
