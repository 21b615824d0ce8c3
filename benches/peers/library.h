/* The calls of the program by MPI, or with -DKOLO by kolo's own functions, under one set of names.
 *
 * Sums are of float, and counts are elements. `library_begin` gives rank and number of ranks;
 * `library_memory` what a rank's buffers are made of.
 */
#ifndef PEERS_LIBRARY_H
#define PEERS_LIBRARY_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef KOLO

#include <kolo.h>

/* Numbers and places of elements in arrays. */
typedef size_t amount;

static koloComm_t comm;

static void must(koloResult_t result) {
    if (result == koloSuccess) return;
    fprintf(stderr, "%s\n", koloGetLastError(comm));
    exit(1);
}

static void library_begin(int *argc, char ***argv, int *me, int *ranks) {
    (void)argc;
    (void)argv;
    must(koloCommInitEnv(&comm));
    must(koloCommUserRank(comm, me));
    must(koloCommCount(comm, ranks));
}

static void library_end(void) { must(koloCommDestroy(comm)); }

static void *library_memory(size_t bytes, int mapped) {
    void *memory = NULL;
    if (!mapped) return malloc(bytes);
    must(koloMemAlloc(&memory, bytes));
    return memory;
}

static void library_free(void *memory, int mapped) {
    if (mapped)
        must(koloMemFree(memory));
    else
        free(memory);
}

#define ALL_REDUCE(s, r, n) must(koloAllReduce(s, r, n, koloFloat32, koloSum, comm, NULL))
#define ALL_GATHER(s, r, n) must(koloAllGather(s, r, n, koloFloat32, comm, NULL))
#define ALL_TO_ALL(s, r, n) must(koloAllToAll(s, r, n, koloFloat32, comm, NULL))
#define BROADCAST(b, n) must(koloBcast(b, n, koloFloat32, 0, comm, NULL))
#define REDUCE_SCATTER(s, r, n) must(koloReduceScatter(s, r, n, koloFloat32, koloSum, comm, NULL))
#define REDUCE(s, r, n) must(koloReduce(s, r, n, koloFloat32, koloSum, 0, comm, NULL))
#define GATHER(s, r, n) must(koloGather(s, r, n, koloFloat32, 0, comm, NULL))
#define SCATTER(s, r, n) must(koloScatter(s, r, n, koloFloat32, 0, comm, NULL))
#define BARRIER() must(koloBarrier(comm, NULL))
#define ALL_GATHER_V(s, n, r, counts, places) \
    must(koloAllGatherV(s, n, r, counts, places, koloFloat32, comm, NULL))
#define GATHER_V(s, n, r, counts, places) \
    must(koloGatherV(s, n, r, counts, places, koloFloat32, 0, comm, NULL))
#define SCATTER_V(s, counts, places, r, n) \
    must(koloScatterV(s, counts, places, r, n, koloFloat32, 0, comm, NULL))
#define ALL_TO_ALL_V(s, sizes, starts, r, counts, places) \
    must(koloAllToAllV(s, sizes, starts, r, counts, places, koloFloat32, comm, NULL))
#define SEND_RECV(s, to, r, from, n) \
    must(koloSendRecv(s, n, to, r, n, from, koloFloat32, comm, NULL))

#else

#include <mpi.h>

typedef int amount;

#define WORLD MPI_COMM_WORLD

static void must(int result) {
    if (result == MPI_SUCCESS) return;
    fprintf(stderr, "MPI: error %d\n", result);
    exit(1);
}

static void library_begin(int *argc, char ***argv, int *me, int *ranks) {
    must(MPI_Init(argc, argv));
    must(MPI_Comm_rank(WORLD, me));
    must(MPI_Comm_size(WORLD, ranks));
}

static void library_end(void) { must(MPI_Finalize()); }

static void *library_memory(size_t bytes, int mapped) {
    if (mapped) {
        fprintf(stderr, "MPI has no mapped memory\n");
        exit(2);
    }
    return malloc(bytes);
}

static void library_free(void *memory, int mapped) {
    (void)mapped;
    free(memory);
}

#define ALL_REDUCE(s, r, n) must(MPI_Allreduce(s, r, n, MPI_FLOAT, MPI_SUM, WORLD))
#define ALL_GATHER(s, r, n) must(MPI_Allgather(s, n, MPI_FLOAT, r, n, MPI_FLOAT, WORLD))
#define ALL_TO_ALL(s, r, n) must(MPI_Alltoall(s, n, MPI_FLOAT, r, n, MPI_FLOAT, WORLD))
#define BROADCAST(b, n) must(MPI_Bcast(b, n, MPI_FLOAT, 0, WORLD))
#define REDUCE_SCATTER(s, r, n) must(MPI_Reduce_scatter_block(s, r, n, MPI_FLOAT, MPI_SUM, WORLD))
#define REDUCE(s, r, n) must(MPI_Reduce(s, r, n, MPI_FLOAT, MPI_SUM, 0, WORLD))
#define GATHER(s, r, n) must(MPI_Gather(s, n, MPI_FLOAT, r, n, MPI_FLOAT, 0, WORLD))
#define SCATTER(s, r, n) must(MPI_Scatter(s, n, MPI_FLOAT, r, n, MPI_FLOAT, 0, WORLD))
#define BARRIER() must(MPI_Barrier(WORLD))
#define ALL_GATHER_V(s, n, r, counts, places) \
    must(MPI_Allgatherv(s, n, MPI_FLOAT, r, counts, places, MPI_FLOAT, WORLD))
#define GATHER_V(s, n, r, counts, places) \
    must(MPI_Gatherv(s, n, MPI_FLOAT, r, counts, places, MPI_FLOAT, 0, WORLD))
#define SCATTER_V(s, counts, places, r, n) \
    must(MPI_Scatterv(s, counts, places, MPI_FLOAT, r, n, MPI_FLOAT, 0, WORLD))
#define ALL_TO_ALL_V(s, sizes, starts, r, counts, places) \
    must(MPI_Alltoallv(s, sizes, starts, MPI_FLOAT, r, counts, places, MPI_FLOAT, WORLD))
#define SEND_RECV(s, to, r, from, n) \
    must(MPI_Sendrecv(s, n, MPI_FLOAT, to, 0, r, n, MPI_FLOAT, from, 0, WORLD, MPI_STATUS_IGNORE))

#endif
#endif
