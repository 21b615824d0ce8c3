/*
 * The ranks in C of a job whose other ranks are half.f90: the same collectives with the same data.
 *
 *   half CALLS
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64, RANKS = 16, ROOM = MOST * RANKS };

static int rank, nranks, call;
static int s[ROOM], r[ROOM], counts[RANKS], at[RANKS];

static int value(int of, int element)
{
    return (of * 31 + element * 7 + call * 13) % 101 + 1;
}

static void must(int good, const char *what)
{
    if (good) return;
    fprintf(stderr, "half.c: rank %d: %s in call %d\n", rank, what, call);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static int sum(int element, int till)
{
    int all = 0;
    for (int k = 0; k < till; k++) all += value(k, element);
    return all;
}

static void moved(int n, int root)
{
    const MPI_Comm comm = MPI_COMM_WORLD;
    switch (call % 16) {
    case 0: MPI_Barrier(comm); return;
    case 1:
        if (rank == root) memcpy(r, s, sizeof r);
        MPI_Bcast(r, n, MPI_INT, root, comm);
        for (int i = 0; i < n; i++) must(r[i] == value(root, i), "bcast");
        return;
    case 2: MPI_Gather(s, n, MPI_INT, r, n, MPI_INT, root, comm); break;
    case 3: MPI_Gatherv(s, n, MPI_INT, r, counts, at, MPI_INT, root, comm); break;
    case 4:
        MPI_Scatter(s, n, MPI_INT, r, n, MPI_INT, root, comm);
        for (int i = 0; i < n; i++) must(r[i] == value(root, rank * n + i), "scatter");
        return;
    case 5:
        MPI_Scatterv(s, counts, at, MPI_INT, r, n, MPI_INT, root, comm);
        for (int i = 0; i < n; i++) must(r[i] == value(root, at[rank] + i), "scatterv");
        return;
    case 6: MPI_Allgather(s, n, MPI_INT, r, n, MPI_INT, comm); break;
    case 7: MPI_Allgatherv(s, n, MPI_INT, r, counts, at, MPI_INT, comm); break;
    case 8: MPI_Alltoall(s, n, MPI_INT, r, n, MPI_INT, comm); break;
    case 9: MPI_Alltoallv(s, counts, at, MPI_INT, r, counts, at, MPI_INT, comm); break;
    }
    const int apart = call % 16 == 3 || call % 16 == 7 || call % 16 == 9;
    const int on_root = call % 16 <= 3, own = call % 16 >= 8;
    for (int k = 0; k < nranks && (!on_root || rank == root); k++)
        for (int i = 0; i < n; i++) {
            const int to = apart ? at[k] + i : k * n + i;
            const int from = !own ? i : apart ? at[rank] + i : rank * n + i;
            must(r[to] == value(k, from), "a block");
        }
}

static void folded(int n, int root)
{
    const MPI_Comm comm = MPI_COMM_WORLD;
    int till = nranks, first = 0;
    switch (call % 16) {
    case 10: MPI_Reduce(s, r, n, MPI_INT, MPI_SUM, root, comm); break;
    case 11: MPI_Allreduce(s, r, n, MPI_INT, MPI_SUM, comm); break;
    case 12:
        for (int k = 0; k < nranks; k++) counts[k] = n;
        MPI_Reduce_scatter(s, r, counts, MPI_INT, MPI_SUM, comm), first = rank * n;
        break;
    case 13:
        MPI_Reduce_scatter_block(s, r, n, MPI_INT, MPI_SUM, comm), first = rank * n;
        break;
    case 14: MPI_Scan(s, r, n, MPI_INT, MPI_SUM, comm), till = rank + 1; break;
    case 15: MPI_Exscan(s, r, n, MPI_INT, MPI_SUM, comm), till = rank; break;
    }
    if ((call % 16 == 10 && rank != root) || till == 0) return;
    for (int i = 0; i < n; i++) must(r[i] == sum(first + i, till), "a sum");
}

/* Types that have other names in C: 8 bytes of a float, pairs, and an operation of the program. */
static void other_types(int root)
{
    double d = value(rank, 0), all;
    int64_t wide = value(rank, 1), most;
    struct { int value, place; } pair = {value(rank, 2) % 3, rank}, best;
    int expected = 0;
    MPI_Allreduce(&d, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    must(all == sum(0, nranks), "a sum of floats");
    MPI_Reduce(&wide, &most, 1, MPI_INT64_T, MPI_MAX, root, MPI_COMM_WORLD);
    for (int k = 0; k < nranks; k++)
        expected = value(k, 1) > expected ? value(k, 1) : expected;
    must(rank != root || most == expected, "a maximum");
    MPI_Allreduce(&pair, &best, 1, MPI_2INT, MPI_MINLOC, MPI_COMM_WORLD);
    expected = 0;
    for (int k = 1; k < nranks; k++)
        if (value(k, 2) % 3 < value(expected, 2) % 3) expected = k;
    must(best.place == expected && best.value == value(expected, 2) % 3, "a place");
}

int main(int argc, char **argv)
{
    int number = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    must(argc == 2 && nranks <= RANKS, "the arguments");
    for (call = 1; call <= atoi(argv[1]); call++) {
        const int n = call * 37 % MOST, root = call / 16 % nranks;
        for (int k = 0; k < nranks; k++) counts[k] = n, at[k] = k * MOST;
        for (int i = 0; i < ROOM; i++) s[i] = value(rank, i), r[i] = -1;
        if (call % 16 < 10) moved(n, root);
        else folded(n, root);
        number++;
        if (call % 5 == 0) other_types(root), number += 3;
    }
    MPI_Finalize();
    if (rank == 0) printf("all %d are right\n", number);
    return 0;
}
