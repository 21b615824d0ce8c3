/*
 * kolo over MPI: link with -lkolo_mpi -lkolo. There is one libkolo_mpi per MPI family: openmpi,
 * mpich, and abi for every MPI that has the standard binary interface of MPI 5.
 */
#ifndef KOLO_MPI_H
#define KOLO_MPI_H

#include <kolo.h>
#include <mpi.h>
#include <string.h>

#ifndef KOLO_MUST_CHECK
#define KOLO_MUST_CHECK
#endif

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Makes a kolo communicator of the ranks of `comm`, with the same ranks. Collective over `comm`.
 *
 * It blocks until all ranks have called, for the ranks meet by MPI calls of this thread.
 * koloCommInitMPIConfig need not.
 *
 * MPI must be initialised, by MPI_Init or MPI_Init_thread. A program that has MPI sessions alone
 * broadcasts a koloUniqueId over a communicator of them, and calls koloCommInitRank. `comm` stays
 * yours: it is used only inside koloCommInitMPI and koloCommSplit of the new communicator (which
 * are collective), so you may free it once you make no more of these calls. Another one is split
 * from it only if MPI carries the data between nodes (KOLO_NET=mpi). MPI may be finalised before or
 * after koloCommDestroy; with KOLO_NET=mpi only after it.
 *
 * MPI_PROC_NULL, as peer of a message or as neighbour, is nobody to the new communicator and to
 * what is split from it, as KOLO_NO_RANK is to all.
 *
 * Threads: below MPI_THREAD_MULTIPLE a blocking kolo call counts as an MPI call of its thread,
 * because kolo lets MPI make progress while it waits (at least once a millisecond it polls with a
 * probe that matches no message). Below MPI_THREAD_SERIALIZED it does so on the main thread only.
 *
 * Errors: koloInvalidUsage (MPI is not initialised, or finalised, or another one than this library
 * was built for, or does not know of the other processes that its launcher started),
 * koloInvalidArgument (newcomm is NULL, comm is MPI_COMM_NULL or an inter-communicator), and those
 * of koloCommInitRank; koloGetLastError(NULL) has the sentence.
 */
KOLO_MUST_CHECK
koloResult_t koloCommInitMPI(koloComm_t *newcomm, MPI_Comm comm);

/* The same with a communicator of Fortran: an INTEGER handle, or the mpi_val of type(MPI_Comm). The
 * standard binary interface of MPI 5 is for C alone, and has no MPI_Fint. */
#if !defined(MPI_ABI_VERSION) || MPI_ABI_VERSION < 1
KOLO_MUST_CHECK
koloResult_t koloCommInitMPI_f(koloComm_t *newcomm, MPI_Fint comm);
#endif

/*
 * koloCommInitMPI with a configuration, such as one that does not block (blocking = 0): the ranks
 * meet by a koloUniqueId that rank 0 of `comm` makes and MPI broadcasts, and then as
 * koloCommInitRankConfig has it. MPI moves no data of this communicator (KOLO_NET=mpi is an error),
 * and KOLO_NO_RANK alone is nobody to it. Collective over `comm`, which may be freed afterwards.
 *
 * Errors: koloInvalidArgument (MPI does not take comm), koloSystemError (MPI does not broadcast),
 * that of koloGetUniqueId on rank 0, on all ranks, and those of koloCommInitRankConfig.
 */
KOLO_MUST_CHECK static inline
koloResult_t koloCommInitMPIConfig(koloComm_t *newcomm, MPI_Comm comm,
                                   const koloConfig_t *config);

/* The function calls MPI itself, so that it stands in the program, whose MPI that is. */
static inline koloResult_t
    koloCommInitMPIConfig(koloComm_t *newcomm, MPI_Comm comm, const koloConfig_t *config)
{
    struct {
        koloUniqueId id;
        int code;
    } card;
    int rank, nranks;
    if (MPI_Comm_rank(comm, &rank) != MPI_SUCCESS || MPI_Comm_size(comm, &nranks) != MPI_SUCCESS)
        return koloInvalidArgument;
    memset(&card, 0, sizeof card);
    if (rank == 0) card.code = (int)koloGetUniqueId(&card.id);
    if (MPI_Bcast(&card, (int)sizeof card, MPI_BYTE, 0, comm) != MPI_SUCCESS)
        return koloSystemError;
    if (card.code != (int)koloSuccess) return (koloResult_t)card.code;
    return koloCommInitRankConfig(newcomm, nranks, card.id, rank, config);
}

#ifdef __cplusplus
}
#endif

#endif
