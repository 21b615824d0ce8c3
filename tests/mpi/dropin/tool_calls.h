/* Of tool.c: all collectives with counts of type N and displacements of type AT. */
COUNTED(NAME(Bcast), (void *b, N n, MPI_Datatype t, int root, MPI_Comm c), (b, n, t, root, c))
COUNTED(NAME(Reduce), (FOLD, int root, MPI_Comm c), (s, r, n, t, op, root, c))
COUNTED(NAME(Allreduce), (FOLD, MPI_Comm c), (s, r, n, t, op, c))
COUNTED(NAME(Scan), (FOLD, MPI_Comm c), (s, r, n, t, op, c))
COUNTED(NAME(Exscan), (FOLD, MPI_Comm c), (s, r, n, t, op, c))
COUNTED(NAME(Reduce_scatter_block), (FOLD, MPI_Comm c), (s, r, n, t, op, c))
COUNTED(NAME(Reduce_scatter), (const void *s, void *r, const N n[], MPI_Datatype t, MPI_Op op,
                               MPI_Comm c), (s, r, n, t, op, c))
COUNTED(NAME(Gather), (OUT, INTO, int root, MPI_Comm c), (s, n, t, r, m, u, root, c))
COUNTED(NAME(Scatter), (OUT, INTO, int root, MPI_Comm c), (s, n, t, r, m, u, root, c))
COUNTED(NAME(Allgather), (OUT, INTO, MPI_Comm c), (s, n, t, r, m, u, c))
COUNTED(NAME(Alltoall), (OUT, INTO, MPI_Comm c), (s, n, t, r, m, u, c))
COUNTED(NAME(Gatherv), (OUT, void *r, const N m[], const AT at[], MPI_Datatype u, int root,
                        MPI_Comm c), (s, n, t, r, m, at, u, root, c))
COUNTED(NAME(Scatterv), (const void *s, const N n[], const AT at[], MPI_Datatype t, INTO, int root,
                         MPI_Comm c), (s, n, at, t, r, m, u, root, c))
COUNTED(NAME(Allgatherv), (OUT, void *r, const N m[], const AT at[], MPI_Datatype u, MPI_Comm c),
        (s, n, t, r, m, at, u, c))
COUNTED(NAME(Alltoallv), (const void *s, const N n[], const AT from[], MPI_Datatype t, void *r,
                          const N m[], const AT at[], MPI_Datatype u, MPI_Comm c),
        (s, n, from, t, r, m, at, u, c))
