/* MPI is finalised before kolo's communicators are destroyed, by real calls of the program: what
 * comes after it succeeds with right results, or is an error that says so. Nothing crashes, and
 * nothing waits for ever. With the argument `data` a network of MPI carries the data between
 * ranks, and then calls with others must fail. */
#include <kolo_mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONG 100001
#define POISON (-77777)

static int64_t from[LONG], to[LONG + 1];
static int rank, nranks, failed, bad;

static int64_t value(int r, int element, int call) {
    return ((int64_t)r * 31 + (int64_t)element * 7 + (int64_t)call * 13) % 101 - 50;
}

/* After MPI_Finalize a call may fail, if it says why. */
static void judge(koloResult_t code, koloComm_t comm, const char *what) {
    const char *sentence = koloGetLastError(comm);
    if (code == koloSuccess) return;
    failed++;
    if (strstr(sentence, "finalised") && strstr(sentence, "Remedy: ")) return;
    printf("rank %d: %s: code %d without a good sentence: %s\n", rank, what, code, sentence);
    bad = 1;
}

/* A sum of all ranks; whether it was made, and right. */
static koloResult_t sum(koloComm_t comm, int count, int call) {
    int me, n;
    koloResult_t code;
    for (int i = 0; i < count; i++) from[i] = value(rank, i, call);
    for (int i = 0; i <= count; i++) to[i] = POISON;
    koloCommUserRank(comm, &me);
    koloCommCount(comm, &n);
    code = koloAllReduce(from, to, (size_t)count, koloInt64, koloSum, comm, NULL);
    /* The split communicator has every second rank. */
    int step = n == nranks ? 1 : 2, first = n == nranks ? 0 : rank % 2;
    for (int i = 0; code == koloSuccess && i < count; i++) {
        int64_t wanted = 0;
        for (int r = first; r < nranks; r += step) wanted += value(r, i, call);
        if (to[i] != wanted) {
            printf("rank %d: element %d of %d is wrong\n", rank, i, count);
            bad = 1;
            break;
        }
    }
    if (to[count] != POISON) bad = 1;
    return code;
}

int main(int argc, char **argv) {
    koloComm_t world, half, late = NULL;
    koloStream_t stream;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    int by_mpi = argc == 2 && strcmp(argv[1], "data") == 0;
    if (koloCommInitMPI(&world, MPI_COMM_WORLD) != koloSuccess ||
        koloCommSplit(world, rank % 2, rank, &half, NULL) != koloSuccess ||
        koloStreamCreate(&stream) != koloSuccess) {
        fprintf(stderr, "%s\n", koloGetLastError(NULL));
        return 1;
    }
    for (int call = 0; call < 10; call++)
        if (sum(world, call % 2 ? LONG : 5, call) || sum(half, call % 2 ? 7 : LONG, call)) return 1;
    MPI_Finalize();

    judge(sum(world, 5, 20), world, "a small call");
    judge(sum(world, LONG, 21), world, "a large call");
    judge(sum(half, LONG, 22), half, "a call of the other communicator");
    judge(koloAllReduce(from, to, LONG, koloInt64, koloSum, world, stream), world, "enqueued");
    koloResult_t async = koloStreamSynchronize(stream);
    if (async != koloSuccess) judge(async, NULL, "the stream");
    judge(koloCommSplit(world, 0, rank, &late, NULL), world, "a split");
    koloResult_t again = koloCommInitMPI(&late, MPI_COMM_WORLD);
    if (again == koloSuccess) bad = 1;
    judge(again, NULL, "another communicator");
    if (by_mpi && failed < 4) {
        printf("rank %d: only %d calls failed\n", rank, failed);
        bad = 1;
    }
    judge(koloStreamDestroy(stream), NULL, "the end of the stream");
    judge(koloCommDestroy(half), NULL, "the end of the other communicator");
    judge(koloCommDestroy(world), NULL, "the end");
    printf("%s after %d errors\n", bad ? "finalize_first: WRONG" : "finalize_first: ok", failed);
    return bad;
}
