/*
 * The calls of MPI that kolo may take, in the order of every table of this library: first the
 * calls, then those of them that have a form with counts of MPI_Count (MPI_X_c), then what
 * allocates memory.
 *
 * The family's part has the same list, in decide.rs; tests/dropin.rs compares the two.
 */
#ifndef KOLO_PMPI_NAMES_H
#define KOLO_PMPI_NAMES_H

#define KOLO_PMPI_NAMES(X) \
    X(Barrier) X(Bcast) X(Reduce) X(Allreduce) X(Gather) X(Gatherv) X(Scatter) X(Scatterv) \
    X(Allgather) X(Allgatherv) X(Alltoall) X(Alltoallv) X(Reduce_scatter) \
    X(Reduce_scatter_block) X(Scan) X(Exscan) \
    X(Bcast_c) X(Reduce_c) X(Allreduce_c) X(Gather_c) X(Gatherv_c) X(Scatter_c) X(Scatterv_c) \
    X(Allgather_c) X(Allgatherv_c) X(Alltoall_c) X(Alltoallv_c) X(Reduce_scatter_c) \
    X(Reduce_scatter_block_c) X(Scan_c) X(Exscan_c) \
    X(Alloc_mem) X(Free_mem)

#define KOLO_PMPI_COUNT 33
/* The place of MPI_Free_mem. */
#define KOLO_PMPI_FREE_MEM 32
/* A power of 2: where calls came from, see jumps.S. */
#define KOLO_PMPI_CALLERS 256

#endif
