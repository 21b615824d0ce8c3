/* Errors name the communicator as the program has named it for MPI, or as MPI names its own. */
#include <kolo_mpi.h>
#include <stdio.h>
#include <string.h>

static int rank;

static void stop(const char *what, const char *text) {
    fprintf(stderr, "rank %d: %s: %s\n", rank, what, text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* A call that fails on a communicator of these ranks; `words` begin its sentence. */
static void fails(MPI_Comm comm, const char *words) {
    char begin[200];
    const double one = rank;
    koloComm_t made = NULL;
    int mine;
    if (koloCommInitMPI(&made, comm) != koloSuccess) stop("start", koloGetLastError(NULL));
    MPI_Comm_rank(comm, &mine);
    if (koloSend(&one, 1, koloDouble, mine, made, NULL) != koloInvalidUsage)
        stop("a message to oneself", koloGetLastError(made));
    snprintf(begin, sizeof begin, "kolo: rank %d: Send%s: ", mine, words);
    if (strncmp(koloGetLastError(made), begin, strlen(begin)) != 0)
        stop(begin, koloGetLastError(made));
    if (koloCommDestroy(made) != koloSuccess) stop("end", koloGetLastError(NULL));
}

int main(int argc, char **argv) {
    MPI_Comm other, turned;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    fails(MPI_COMM_WORLD, " on communicator MPI_COMM_WORLD");
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    fails(other, "");
    MPI_Comm_set_name(other, "sea ice");
    fails(other, " on communicator sea ice");
    MPI_Comm_split(other, 0, -rank, &turned);
    MPI_Comm_set_name(turned, "ocean");
    fails(turned, " on communicator ocean");
    fails(other, " on communicator sea ice");
    MPI_Comm_free(&turned);
    MPI_Comm_free(&other);
    MPI_Finalize();
    if (rank == 0) fputs("names: ok\n", stdout);
    return 0;
}
