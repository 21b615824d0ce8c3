/*
 * A copy of a type is freed, and a copy of another type may get its handle: sums are those of the
 * type that the handle means now. At the end each rank says how often that was so.
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { ROUNDS = 40, COUNT = 3 };

static int rank, ranks;

static void bad(int round, const char *what)
{
    fprintf(stderr, "rank %d, round %d: a wrong sum of %s\n", rank, round, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

#define SUM(type, handle, name)                                                       \
    do {                                                                              \
        type mine[COUNT], all[COUNT];                                                 \
        memset(all, 0x5a, sizeof all);                                                \
        for (int i = 0; i < COUNT; i++) mine[i] = (type)((rank + 1) * (i + 2) + round);\
        MPI_Allreduce(mine, all, COUNT, handle, MPI_SUM, MPI_COMM_WORLD);             \
        for (int i = 0; i < COUNT; i++) {                                             \
            const int sum = ranks * (ranks + 1) / 2 * (i + 2) + ranks * round;        \
            if (all[i] != (type)sum) bad(round, name);                                \
        }                                                                             \
    } while (0)

int main(int argc, char **argv)
{
    int reused = 0;
    MPI_Datatype before = MPI_DATATYPE_NULL;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int round = 0; round < ROUNDS; round++) {
        const MPI_Datatype types[] = {MPI_DOUBLE, MPI_INT, MPI_FLOAT, MPI_LONG};
        const int which = round % 4;
        MPI_Datatype copy;
        MPI_Type_dup(types[which], &copy);
        reused += copy == before;
        switch (which) {
        case 0: SUM(double, copy, "doubles"); break;
        case 1: SUM(int, copy, "ints"); break;
        case 2: SUM(float, copy, "floats"); break;
        default: SUM(long, copy, "longs");
        }
        before = copy;
        MPI_Type_free(&copy);
    }
    MPI_Finalize();
    printf("rank %d: %d reused\n", rank, reused);
    return 0;
}
