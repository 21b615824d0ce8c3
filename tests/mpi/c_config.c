/* A communicator of MPI's ranks with a configuration: that does not block, with settings, and with
 * one that is refused. */
#include <kolo_mpi.h>
#include <stdio.h>
#include <string.h>

#define OK(call)                                                       \
    do {                                                               \
        if ((call) != koloSuccess) {                                   \
            fprintf(stderr, "%s: %s\n", #call, koloGetLastError(NULL)); \
            MPI_Abort(MPI_COMM_WORLD, 1);                              \
        }                                                              \
    } while (0)

static void sums(koloComm_t comm, int rank, int nranks) {
    double mine = rank + 1, sum = 0;
    int place = -1;
    OK(koloCommUserRank(comm, &place));
    OK(koloAllReduce(&mine, &sum, 1, koloDouble, koloSum, comm, NULL));
    if (place != rank || sum != nranks * (nranks + 1) / 2.0) MPI_Abort(MPI_COMM_WORLD, 2);
    OK(koloCommDestroy(comm));
}

int main(int argc, char **argv) {
    int rank, nranks;
    MPI_Comm turned;
    koloComm_t comm = NULL;
    koloConfig_t config = KOLO_CONFIG_INITIALIZER;
    koloResult_t state;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    OK(koloCommInitMPIConfig(&comm, MPI_COMM_WORLD, &config));
    sums(comm, rank, nranks);

    /* Ranks are those of the communicator that is given. */
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &turned);
    config.blocking = 0;
    state = koloCommInitMPIConfig(&comm, turned, &config);
    while (state == koloInProgress) OK(koloCommGetAsyncError(comm, &state));
    OK(state);
    sums(comm, nranks - 1 - rank, nranks);
    MPI_Comm_free(&turned);

    /* The place of a call that fails is in the program, and not in the header. */
    config.blocking = 7;
    char place[100];
    snprintf(place, sizeof place, "c_config.c:%d)", __LINE__ + 1);
    state = koloCommInitMPIConfig(&comm, MPI_COMM_WORLD, &config);
    const char *said = koloGetLastError(NULL);
    if (state != koloInvalidArgument || !strstr(said, "blocking") ||
        !strstr(said, ". Called by main (") || !strstr(said, place)) {
        fprintf(stderr, "no %s in: %s\n", place, said);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    MPI_Finalize();
    if (rank == 0) fputs("c_config: ok\n", stdout);
    return 0;
}
