/* A program with MPI sessions and without MPI_Init is told what to do, and that works. */
#include <kolo_mpi.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    MPI_Session session;
    MPI_Group group;
    MPI_Comm world;
    koloComm_t comm;
    koloUniqueId id;
    int rank, nranks, one = 1, sum = 0;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "kolo", MPI_INFO_NULL, MPI_ERRORS_RETURN, &world);
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &nranks);
    if (koloCommInitMPI(&comm, world) != koloInvalidUsage) return fputs("accepted\n", stdout), 1;
    if (!strstr(koloGetLastError(NULL), "MPI_Session_init") ||
        !strstr(koloGetLastError(NULL), "koloCommInitRank"))
        return fprintf(stderr, "%s\n", koloGetLastError(NULL)), 1;
    if (rank == 0 && koloGetUniqueId(&id))
        return fprintf(stderr, "%s\n", koloGetLastError(NULL)), 1;
    MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, world);
    if (koloCommInitRank(&comm, nranks, id, rank) ||
        koloAllReduce(&one, &sum, 1, koloInt32, koloSum, comm, 0) || koloCommDestroy(comm))
        return fprintf(stderr, "%s\n", koloGetLastError(NULL)), 1;
    MPI_Comm_free(&world);
    MPI_Group_free(&group);
    MPI_Session_finalize(&session);
    if (sum == nranks) fputs("all right\n", stdout);
    return 0;
}
