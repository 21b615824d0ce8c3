/*
 * Draws sums and products of floats, whose bits hang on the order, and prints for each rank a hash
 * of all results.
 *
 *   dropin_floats SEED CALLS
 */
#include "drawn.h"
#include <complex.h>
#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 3000, RANKS = 16 };

/* Of either sign, over some orders of magnitude, so that sums cancel. */
static double number(void)
{
    const double mantissa = (double)draw(1u << 30) / (1u << 30) - 0.5;
    return ldexp(mantissa, (int)draw(12) - 6);
}

static void fill(void *at, int type, int count)
{
    for (int i = 0; i < count; i++) {
        const double a = number(), b = number();
        switch (type) {
        case 0: ((float *)at)[i] = (float)a; break;
        case 1: ((double *)at)[i] = a; break;
        case 2: ((long double *)at)[i] = (long double)a + (long double)b * 0x1p-54L; break;
        case 3: ((float complex *)at)[i] = (float)a + (float)b * I; break;
        default: ((double complex *)at)[i] = a + b * I;
        }
    }
}

int main(int argc, char **argv)
{
    static char send[(MOST + 50) * RANKS * 16], recv[(MOST + 50) * RANKS * 16];
    const MPI_Datatype types[] = {MPI_FLOAT, MPI_DOUBLE, MPI_LONG_DOUBLE, MPI_C_FLOAT_COMPLEX,
                                  MPI_C_DOUBLE_COMPLEX};
    const int bytes[] = {4, 8, 16, 8, 16};
    uint64_t hash = 1469598103934665603u;
    int rank, size;
    if (argc != 3) return 2;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size > RANKS) MPI_Abort(MPI_COMM_WORLD, 2);
    state = strtoull(argv[1], NULL, 10);
    for (int call = 0; call < atoi(argv[2]); call++) {
        const int what = (int)draw(6), type = (int)draw(5), in_place = draw(3) == 0;
        const int root = (int)draw((uint64_t)size);
        const int n = (int)draw(draw(3) ? 40 : MOST);
        const MPI_Datatype t = types[type];
        const MPI_Op op = draw(2) ? MPI_SUM : MPI_PROD;
        const uint64_t shared = state;
        int counts[RANKS], left = n, all = 0;
        for (int i = 0; i < size; i++) all += counts[i] = (n + i) % 50;
        if (all < n * size) all = n * size;
        state ^= (uint64_t)rank * 0xd6e8feb86659fd93u;
        fill(send, type, all);
        memset(recv, 0, sizeof recv);
        if (in_place) memcpy(recv, send, (size_t)(all * bytes[type]));
        const void *from = in_place ? MPI_IN_PLACE : send;
        state = shared + 1;
        switch (what) {
        case 0: MPI_Allreduce(from, recv, n, t, op, MPI_COMM_WORLD); break;
        case 1:
            MPI_Reduce(rank == root && n < 20 ? from : send, recv, n, t, op, root, MPI_COMM_WORLD);
            if (rank != root) left = 0;
            break;
        case 2: MPI_Scan(from, recv, n, t, op, MPI_COMM_WORLD); break;
        case 3:
            MPI_Exscan(from, recv, n, t, op, MPI_COMM_WORLD);
            if (rank == 0) left = 0;
            break;
        case 4: MPI_Reduce_scatter_block(from, recv, n, t, op, MPI_COMM_WORLD); break;
        default:
            MPI_Reduce_scatter(from, recv, counts, t, op, MPI_COMM_WORLD);
            left = counts[rank];
        }
        for (int i = 0; i < left * bytes[type]; i++) {
            if (type == 2 && i % 16 >= 10) continue;
            hash = (hash ^ (unsigned char)recv[i]) * 1099511628211u;
        }
    }
    printf("%d: %016llx\n", rank, (unsigned long long)hash);
    MPI_Finalize();
    return 0;
}
