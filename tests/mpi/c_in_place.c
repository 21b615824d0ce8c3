/* MPI_IN_PLACE is an error that says how kolo is told, and no crash; nothing is written. */
#include <kolo_mpi.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;

static void refused(koloResult_t code, koloComm_t comm, const char *which, const char *how)
{
    const char *text = koloGetLastError(comm);
    if (code == koloInvalidArgument && strstr(text, which) && strstr(text, how)) return;
    fprintf(stderr, "%d: %d, \"%s\" without \"%s\" or \"%s\"\n", rank, (int)code, text, which, how);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv)
{
    const char *const send = "the send buffer is MPI_IN_PLACE";
    const char *const receive = "the receive buffer is MPI_IN_PLACE";
    double x[64];
    koloComm_t comm;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (koloCommInitMPI(&comm, MPI_COMM_WORLD) != koloSuccess || size > 8) return 1;
    for (int i = 0; i < 64; i++) x[i] = rank * 100 + i;
    refused(koloAllReduce(MPI_IN_PLACE, x, 4, koloDouble, koloSum, comm, NULL), comm, send,
            "in place means send == recv");
    refused(koloAllGather(MPI_IN_PLACE, x, 4, koloDouble, comm, NULL), comm, send,
            "in place means send == recv + ");
    refused(koloAllToAll(MPI_IN_PLACE, x, 4, koloDouble, comm, NULL), comm, send,
            "no in-place form");
    refused(koloScan(x, MPI_IN_PLACE, 4, koloDouble, koloSum, comm, NULL), comm, receive,
            "pass both buffers");
    /* Where nobody looks at it, it may be anything. */
    if (koloAllReduce(MPI_IN_PLACE, x, 0, koloDouble, koloSum, comm, NULL) != koloSuccess) return 1;
    for (int i = 0; i < 64; i++)
        if (x[i] != rank * 100 + i) return 1;
    if (koloAllReduce(x, x, 4, koloDouble, koloSum, comm, NULL) != koloSuccess) return 1;
    for (int i = 0; i < 4; i++)
        if (x[i] != size * (size - 1) / 2 * 100 + size * i) return 1;
    if (koloCommDestroy(comm) != koloSuccess) return 1;
    MPI_Finalize();
    if (rank == 0) fputs("c_in_place: ok\n", stdout);
    return 0;
}
