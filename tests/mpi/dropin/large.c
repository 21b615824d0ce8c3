/*
 * Broadcasts one element of more than 2 GiB with a gap in it, to ranks that receive many smaller
 * ones. Every rank says that it has all of it.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HALF = 1100 << 20, GAP = 64 };

/* The byte at a place of the data. */
static unsigned char value(size_t at)
{
    return (unsigned char)(at * 31 + (at >> 20));
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Datatype two, mib;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Type_vector(2, HALF, HALF + GAP, MPI_BYTE, &two);
    MPI_Type_commit(&two);
    MPI_Type_contiguous(1 << 20, MPI_BYTE, &mib);
    MPI_Type_commit(&mib);
    const size_t all = (size_t)2 * HALF + GAP;
    unsigned char *memory = malloc(all);
    memset(memory, 0x5a, all);
    for (size_t i = 0; rank == 0 && i < (size_t)2 * HALF; i++)
        memory[i < HALF ? i : i + GAP] = value(i);
    if (rank == 0) MPI_Bcast(memory, 1, two, 0, MPI_COMM_WORLD);
    else MPI_Bcast(memory, 2 * (HALF >> 20), mib, 0, MPI_COMM_WORLD);
    for (size_t i = 0; i < (size_t)2 * HALF; i++)
        if (memory[rank || i < HALF ? i : i + GAP] != value(i)) {
            fprintf(stderr, "large: rank %d: byte %zu\n", rank, i);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    /* And back, so that it is unpacked. */
    if (rank == 0) memset(memory, 0x5a, all);
    if (rank == 0) MPI_Bcast(memory, 1, two, 1, MPI_COMM_WORLD);
    else MPI_Bcast(memory, 2 * (HALF >> 20), mib, 1, MPI_COMM_WORLD);
    for (size_t i = 0; i < all; i++) {
        const int gap = rank == 0 ? i >= HALF && i < HALF + GAP : i >= (size_t)2 * HALF;
        const size_t from = rank == 0 && i > HALF ? i - GAP : i;
        if (memory[i] != (gap ? 0x5a : value(from))) {
            fprintf(stderr, "large: rank %d: byte %zu on its way back\n", rank, i);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    printf("rank %d has it\n", rank);
    MPI_Finalize();
    return 0;
}
