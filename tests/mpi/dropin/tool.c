/*
 * A tool of PMPI: it counts the blocking collectives that the program calls, and tells at its end
 * how many there were.
 */
#include <mpi.h>
#include <stdio.h>

static int calls, rank = -1;

/* A name and its arguments, as MPI has them and as they are passed on. */
#define COUNTED(name, arguments, passed) COUNTED_AS(name, arguments, passed)
#define COUNTED_AS(name, arguments, passed) \
    int MPI_##name arguments                \
    {                                       \
        calls++;                            \
        return PMPI_##name passed;          \
    }
#define OUT const void *s, N n, MPI_Datatype t
#define INTO void *r, N m, MPI_Datatype u
#define FOLD const void *s, void *r, N n, MPI_Datatype t, MPI_Op op

COUNTED(Barrier, (MPI_Comm c), (c))
#define N int
#define AT int
#define NAME(name) name
#include "tool_calls.h"
#if MPI_VERSION >= 4
#undef N
#undef AT
#undef NAME
#define N MPI_Count
#define AT MPI_Aint
#define NAME(name) name##_c
#include "tool_calls.h"
#endif

int MPI_Init(int *argc, char ***argv)
{
    const int code = PMPI_Init(argc, argv);
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return code;
}

static __attribute__((destructor)) void tell(void)
{
    if (rank >= 0) fprintf(stderr, TOOL ": rank %d: %d calls\n", rank, calls);
}
