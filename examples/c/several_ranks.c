/* Two ranks in each process, each with a stream of its own, as programs with several devices have
 * them. MPI only hands the unique id round.
 *
 *     mpicc several_ranks.c $(pkg-config --cflags --libs kolo) -o several_ranks
 *     mpirun -n 2 ./several_ranks
 */
#include <kolo.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define EACH 2         /* ranks of a process */
#define COUNT 1000000  /* elements of a rank */
#define ROUNDS 3

#define MPI_OK(call)                                               \
    do {                                                           \
        if ((call) != MPI_SUCCESS) {                               \
            fprintf(stderr, "line %d: MPI failed\n", __LINE__);    \
            exit(1);                                               \
        }                                                          \
    } while (0)
#define KOLO_OK(call)                                                              \
    do {                                                                           \
        if ((call) != koloSuccess) {                                               \
            fprintf(stderr, "line %d: %s\n", __LINE__, koloGetLastError(NULL));    \
            MPI_Abort(MPI_COMM_WORLD, 1);                                          \
        }                                                                          \
    } while (0)

/* A number for this machine: its name up to the first dot (DJB2a). */
static uint64_t host_hash(void) {
    char name[256] = "";
    uint64_t hash = 5381;
    gethostname(name, sizeof name - 1);
    for (int i = 0; name[i] != '\0' && name[i] != '.'; i++) hash = (hash * 33) ^ (uint64_t)name[i];
    return hash;
}

static int64_t element(int rank, int i, int round) {
    return (int64_t)rank * 1000003 + i % 977 + 7 * round;
}

static int64_t sum_of_elements(int nranks, int i, int round) {
    const int64_t n = nranks;
    return n * (n - 1) / 2 * 1000003 + n * (i % 977 + 7 * round);
}

int main(int argc, char **argv) {
    int process, processes, local = 0, wrong = 0;
    uint64_t *hosts;
    koloUniqueId id;
    koloComm_t comms[EACH];
    koloStream_t streams[EACH];
    int64_t *send[EACH], *recv[EACH];

    MPI_OK(MPI_Init(&argc, &argv));
    MPI_OK(MPI_Comm_rank(MPI_COMM_WORLD, &process));
    MPI_OK(MPI_Comm_size(MPI_COMM_WORLD, &processes));
    const int nranks = EACH * processes;

    /* The processes of this machine before this one: with devices, these would be taken. */
    hosts = malloc((size_t)processes * sizeof *hosts);
    hosts[process] = host_hash();
    MPI_OK(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, hosts, sizeof *hosts, MPI_BYTE,
                         MPI_COMM_WORLD));
    for (int p = 0; p < process; p++) local += hosts[p] == hosts[process];

    if (process == 0) KOLO_OK(koloGetUniqueId(&id));
    MPI_OK(MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD));

    /* Each rank waits for all others, so one thread makes its ranks in a group. */
    KOLO_OK(koloGroupStart());
    for (int i = 0; i < EACH; i++)
        KOLO_OK(koloCommInitRank(&comms[i], nranks, id, EACH * process + i));
    KOLO_OK(koloGroupEnd());
    for (int i = 0; i < EACH; i++) {
        KOLO_OK(koloStreamCreate(&streams[i]));
        send[i] = malloc(COUNT * sizeof *send[i]);
        recv[i] = malloc(COUNT * sizeof *recv[i]);
    }

    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < EACH; i++)
            for (int k = 0; k < COUNT; k++) {
                send[i][k] = element(EACH * process + i, k, round);
                recv[i][k] = -1;
            }
        KOLO_OK(koloGroupStart());
        for (int i = 0; i < EACH; i++)
            KOLO_OK(koloAllReduce(send[i], recv[i], COUNT, koloInt64, koloSum, comms[i],
                                  streams[i]));
        KOLO_OK(koloGroupEnd());
        /* The calls have begun. Until a stream is synchronised its buffers belong to kolo. */
        for (int i = 0; i < EACH; i++) KOLO_OK(koloStreamSynchronize(streams[i]));
        for (int i = 0; i < EACH; i++)
            for (int k = 0; k < COUNT; k++)
                wrong += recv[i][k] != sum_of_elements(nranks, k, round);
    }

    for (int i = 0; i < EACH; i++) {
        free(send[i]);
        free(recv[i]);
        KOLO_OK(koloStreamDestroy(streams[i]));
        KOLO_OK(koloCommDestroy(comms[i]));
    }
    free(hosts);
    printf("process %d, number %d on its machine: %d of %d ranks, %s\n", process, local, EACH,
           nranks, wrong ? "wrong sums" : "all sums right");
    MPI_OK(MPI_Finalize());
    return wrong != 0;
}
