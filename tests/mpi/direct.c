/* Large calls on buffers that come from koloMemAlloc on some ranks and from malloc on others, in an
   order that changes: whichever way the data take, every element on every rank is right. */
#include <kolo_mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALLS 60

static int rank, nranks;

static double *get(int shared, size_t count) {
    void *place = NULL;
    if (!shared) return malloc(count * sizeof(double));
    if (koloMemAlloc(&place, count * sizeof(double))) exit(2);
    return place;
}

static void put_back(int shared, double *place) {
    if (!shared)
        free(place);
    else if (koloMemFree(place))
        exit(3);
}

static double value(int of, size_t element, int call) {
    return (double)((of * 31 + element * 7 + (size_t)call * 13) % 101) - 50;
}

static void must(koloResult_t result, koloComm_t comm, const char *what) {
    if (result == koloSuccess) return;
    fprintf(stderr, "rank %d, %s: %s\n", rank, what, koloGetLastError(comm));
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void wrong(const char *what, int call, size_t element) {
    fprintf(stderr, "rank %d: %s, call %d, element %zu is wrong\n", rank, what, call, element);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv) {
    koloComm_t comm;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    must(koloCommInitMPI(&comm, MPI_COMM_WORLD), NULL, "init");
    for (int call = 0; call < CALLS; call++) {
        /* Mostly all shared; now and then one rank's buffers are private. */
        int odd = call % 5 == 4 && call % nranks == rank;
        int in_place = call % 3 == 2;
        size_t count = 50000 + (size_t)call * 1777, part = count / nranks;
        double *send = get(!odd, count);
        double *recv = in_place ? send : get(!odd, count);
        if (!in_place) memset(recv, 0x5a, count * sizeof(double));
        for (size_t e = 0; e < count; e++) send[e] = value(rank, e, call);
        must(koloAllReduce(send, recv, count, koloDouble, koloSum, comm, NULL), comm, "all-reduce");
        for (size_t e = 0; e < count; e++) {
            double sum = 0;
            for (int r = 0; r < nranks; r++) sum += value(r, e, call);
            if (recv[e] != sum) wrong("all-reduce", call, e);
        }
        for (size_t e = 0; e < count; e++) recv[e] = value(rank, e, call);
        must(koloAllGather(recv + rank * part, recv, part, koloDouble, comm, NULL), comm, "gather");
        for (size_t e = 0; e < part * nranks; e++)
            if (recv[e] != value((int)(e / part), e, call)) wrong("all-gather", call, e);
        for (size_t e = 0; e < count; e++) recv[e] = value(rank, e, call);
        must(koloBroadcast(recv, recv, count, koloDouble, call % nranks, comm, NULL),
             comm, "broadcast");
        for (size_t e = 0; e < count; e++)
            if (recv[e] != value(call % nranks, e, call)) wrong("broadcast", call, e);
        for (size_t e = 0; e < count; e++) recv[e] = value(rank, e, call);
        must(koloReduceScatter(recv, recv + rank * part, part, koloDouble, koloMax, comm, NULL),
             comm, "reduce-scatter");
        for (size_t e = rank * part; e < (rank + 1) * part; e++) {
            double most = -100;
            for (int r = 0; r < nranks; r++)
                if (value(r, e, call) > most) most = value(r, e, call);
            if (recv[e] != most) wrong("reduce-scatter", call, e);
        }
        if (!in_place) put_back(!odd, recv);
        put_back(!odd, send);
    }
    must(koloCommDestroy(comm), NULL, "destroy");
    MPI_Finalize();
    if (rank == 0) fputs("all right\n", stdout);
    return 0;
}
