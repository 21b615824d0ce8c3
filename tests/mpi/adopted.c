/*
 * Makes kolo's communicators of drawn parts of MPI_COMM_WORLD, uses them, and frees them in a drawn
 * order; the first one goes in the middle.
 *
 *   adopted SEED ROUNDS
 */
#include "drawn.h"
#include <kolo.h>
#include <kolo_mpi.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 30000, ALIVE = 12, RANKS = 64 };
static int rank;

static void must(koloResult_t code, koloComm_t comm, const char *call)
{
    if (code == koloSuccess) return;
    fprintf(stderr, "%d: %s: %s\n", rank, call, koloGetLastError(comm));
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void wrong(const char *call, int number, int64_t found, int64_t wanted)
{
    fprintf(stderr, "%d: %s %d: %lld instead of %lld\n", rank, call, number, (long long)found,
            (long long)wanted);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* One collective of each kind; who is in it and what it carries hangs on the rank in it. */
static void use(koloComm_t comm, int number)
{
    static int64_t send[MOST], recv[MOST];
    int me, size;
    must(koloCommUserRank(comm, &me), comm, "koloCommUserRank");
    must(koloCommCount(comm, &size), comm, "koloCommCount");
    const int count = (int)(mixed((uint64_t)number) % (number % 4 ? 100 : MOST)) + 1;
    for (int i = 0; i < count; i++) send[i] = (int64_t)(me + 1) * (i + 3) + number;
    memset(recv, 0x5a, sizeof recv);
    must(koloAllReduce(send, recv, (size_t)count, koloInt64, koloSum, comm, NULL), comm, "sum");
    for (int i = 0; i < count; i++) {
        const int64_t sum = (int64_t)size * (size + 1) / 2 * (i + 3) + (int64_t)size * number;
        if (recv[i] != sum) wrong("sum", number, recv[i], sum);
    }
    const int root = number % size;
    for (int i = 0; i < count; i++) recv[i] = me == root ? (int64_t)number * 7 - i : -1;
    must(koloBcast(recv, (size_t)count, koloInt64, root, comm, NULL), comm, "broadcast");
    for (int i = 0; i < count; i++)
        if (recv[i] != (int64_t)number * 7 - i) wrong("broadcast", number, recv[i], number * 7 - i);
    must(koloBarrier(comm, NULL), comm, "barrier");
}

/* The ranks of a part in reverse order are who they are: an error names their processes. */
static void turned(void)
{
    koloComm_t whole, part;
    MPI_Comm reversed;
    int me, size, pids[RANKS], seen = 0;
    const int pid = (int)getpid();
    must(koloCommInitMPI(&whole, MPI_COMM_WORLD), NULL, "koloCommInitMPI");
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
    MPI_Comm_rank(reversed, &me);
    MPI_Comm_size(reversed, &size);
    MPI_Allgather(&pid, 1, MPI_INT, pids, 1, MPI_INT, reversed);
    must(koloCommInitMPI(&part, reversed), NULL, "koloCommInitMPI in reverse");
    use(part, 5);
    MPI_Barrier(MPI_COMM_WORLD);
    /* Different roots; a rank that has gone on hears of it in a later call. */
    int64_t word = 0;
    koloResult_t code = koloBcast(&word, 1, koloInt64, me, part, NULL);
    for (int i = 0; code == koloSuccess && i < 100; i++) code = koloBarrier(part, NULL);
    const char *text = koloGetLastError(part);
    for (const char *at = text; (at = strstr(at, "(pid ")) != NULL; at++) {
        const char *named = at;
        while (named > text && strncmp(named, "rank ", 5)) named--;
        const int who = atoi(named + 5), found = atoi(at + 5);
        if (who < 0 || who >= size) wrong("rank", who, who, size);
        if (pids[who] != found) wrong("process of rank", who, found, pids[who]);
        seen++;
    }
    if (code == koloSuccess || !seen) wrong("error that names processes", (int)code, seen, 2);
    MPI_Barrier(MPI_COMM_WORLD);
    must(koloCommAbort(part), NULL, "koloCommAbort");
    must(koloCommDestroy(whole), NULL, "koloCommDestroy");
    MPI_Comm_free(&reversed);
}

int main(int argc, char **argv)
{
    koloComm_t first, alive[ALIVE] = {NULL};
    MPI_Comm parts[ALIVE];
    if (argc != 3) return 2;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const uint64_t seed = strtoull(argv[1], NULL, 10);
    const int rounds = atoi(argv[2]);
    state = seed;
    must(koloCommInitMPI(&first, MPI_COMM_WORLD), NULL, "koloCommInitMPI");
    use(first, 1);
    for (int round = 0; round < rounds; round++) {
        const int place = (int)draw(ALIVE), colors = (int)draw(3) + 1;
        const uint64_t own = mixed(seed + (uint64_t)(round * 1000 + rank));
        if (alive[place]) {
            must(koloCommDestroy(alive[place]), NULL, "koloCommDestroy");
            alive[place] = NULL;
            if (draw(2)) MPI_Comm_free(&parts[place]);
            else draw(1);
        } else {
            draw(2);
        }
        MPI_Comm_split(MPI_COMM_WORLD, (int)(own % (uint64_t)colors), (int)(own >> 40) % 100,
                       &parts[place]);
        must(koloCommInitMPI(&alive[place], parts[place]), NULL, "koloCommInitMPI of a part");
        for (int i = 0; i < 3; i++) use(alive[place], round + i);
        const int other = (int)draw(ALIVE);
        if (alive[other]) use(alive[other], round + 7);
        if (round == rounds / 2) must(koloCommDestroy(first), NULL, "koloCommDestroy of the first");
    }
    for (int place = 0; place < ALIVE; place++)
        if (alive[place]) must(koloCommDestroy(alive[place]), NULL, "koloCommDestroy");
    turned();
    MPI_Finalize();
    if (rank == 0) fputs("adopted: ok\n", stdout);
    return 0;
}
