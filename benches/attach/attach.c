/*
 * What it takes to start communicators over MPI: the first of a process, further ones of the same
 * ranks, and to end them.
 *
 *   mpicc benches/attach/attach.c $(pkg-config --cflags --libs kolo-mpi) -o attach
 *   mpirun -n 2 ./attach     prints milliseconds of rank 0: passed, and of its processor
 *
 * Each communicator is used once, and its sum is checked. Medians of 300.
 */
#define _GNU_SOURCE
#include <kolo.h>
#include <kolo_mpi.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MADE = 300, ALIVE = 10 };
static koloComm_t made[MADE];
static MPI_Comm over[MADE];
static double starts[2][MADE], ends[2][MADE];

static double processor(void)
{
    struct timespec at;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
    return (double)at.tv_sec * 1e3 + (double)at.tv_nsec * 1e-6;
}

static void must(koloResult_t code, koloComm_t comm)
{
    if (code == koloSuccess) return;
    fprintf(stderr, "%s\n", koloGetLastError(comm));
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static int by_size(const void *one, const void *two)
{
    const double a = *(const double *)one, b = *(const double *)two;
    return (a > b) - (a < b);
}

static double median(double *times)
{
    qsort(times, MADE, sizeof *times, by_size);
    return times[MADE / 2];
}

/* Begins to count when all ranks are here. */
static void begin(double *passed, double *used)
{
    MPI_Barrier(MPI_COMM_WORLD);
    *passed = MPI_Wtime() * 1e3, *used = processor();
}

int main(int argc, char **argv)
{
    koloComm_t first;
    double passed, used;
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    begin(&passed, &used);
    must(koloCommInitMPI(&first, MPI_COMM_WORLD), NULL);
    if (rank == 0)
        printf("the first: %.3f passed, %.3f of the processor\n", MPI_Wtime() * 1e3 - passed,
               processor() - used);
    for (int i = 0; i < MADE; i++) {
        long mine = rank + i, sum = 0;
        MPI_Comm_dup(MPI_COMM_WORLD, &over[i]);
        begin(&passed, &used);
        must(koloCommInitMPI(&made[i], over[i]), NULL);
        starts[0][i] = MPI_Wtime() * 1e3 - passed, starts[1][i] = processor() - used;
        must(koloAllReduce(&mine, &sum, 1, koloInt64, koloSum, made[i], NULL), made[i]);
        if (sum != (long)size * (size - 1) / 2 + (long)size * i) {
            fprintf(stderr, "communicator %d: the sum is %ld\n", i, sum);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        if (i < ALIVE) continue;
        begin(&passed, &used);
        must(koloCommDestroy(made[i - ALIVE]), NULL);
        ends[0][i] = MPI_Wtime() * 1e3 - passed, ends[1][i] = processor() - used;
        MPI_Comm_free(&over[i - ALIVE]);
    }
    for (int i = 0; i < ALIVE; i++) ends[0][i] = ends[0][ALIVE], ends[1][i] = ends[1][ALIVE];
    if (rank == 0) {
        printf("further: %.3f passed, %.3f of the processor\n", median(starts[0]),
               median(starts[1]));
        printf("ends: %.3f passed, %.3f of the processor\n", median(ends[0]), median(ends[1]));
    }
    for (int i = MADE - ALIVE; i < MADE; i++) must(koloCommDestroy(made[i]), NULL);
    must(koloCommDestroy(first), NULL);
    MPI_Finalize();
    return 0;
}
