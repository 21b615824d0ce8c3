/*
 * One rank is killed by a signal while it waits in a collective. Every other one gets an error from
 * its own call that names the dead one, within 2 seconds of its death.
 *
 *   killed SEED BOARD      BOARD: a file of 64 zeros, through which the dead one says when it died
 */
#define _GNU_SOURCE
#include "../drawn.h"
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { LONGEST = 200000 };
static struct { volatile double at; } *board;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void die(int signal)
{
    (void)signal;
    board->at = now();
    kill(getpid(), SIGKILL);
}

static int call_one(int which, int n, int root)
{
    static int s[LONGEST], r[LONGEST];
    switch (which) {
    case 0: return MPI_Barrier(MPI_COMM_WORLD);
    case 1: return MPI_Allreduce(s, r, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    case 2: return MPI_Bcast(r, n, MPI_INT, root, MPI_COMM_WORLD);
    case 3: return MPI_Allgather(s, n / 8, MPI_INT, r, n / 8, MPI_INT, MPI_COMM_WORLD);
    default: return MPI_Alltoall(s, n / 8, MPI_INT, r, n / 8, MPI_INT, MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    int rank, ranks;
    char text[MPI_MAX_ERROR_STRING], named[32];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 3) return 2;
    state = strtoull(argv[1], NULL, 10);
    const int file = open(argv[2], O_RDWR);
    board = mmap(NULL, 64, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    const int victim = (int)draw((uint64_t)ranks), which = (int)draw(5);
    const int n = draw(2) ? 10 : LONGEST, root = (victim + 1) % ranks;
    for (int i = 0; i < 10; i++)
        if (call_one(i % 5, i * 1000, i % ranks)) MPI_Abort(MPI_COMM_WORLD, 1);
    if (rank == victim) {
        /* The others come when it has waited for a while, and it does not get out. */
        const struct itimerval soon = {{0, 0}, {0, 50000}};
        signal(SIGALRM, die);
        setitimer(ITIMER_REAL, &soon, NULL);
        call_one(which, n, root);
        return 1;
    }
    /* One of them waits with it. */
    if (rank == root && which != 2) usleep(1000);
    else usleep(300000);
    int code = 0;
    const double begun = now();
    while (!code && now() < begun + 20) code = call_one(which, n, root);
    const double late = now() - board->at;
    int length = 0;
    text[0] = 0;
    if (code) MPI_Error_string(code, text, &length);
    snprintf(named, sizeof named, "rank %d", victim);
    if (board->at > 0 && code && late < 2 && strstr(text, named)) {
        printf("noticed: %.3f s: %s\n", late, text);
    } else {
        printf("rank %d: code %d, %.3f s after the death of rank %d in %d of %d: %s\n", rank, code,
               late, victim, which, n, text);
    }
    fflush(stdout);
    /* MPI itself cannot end well any more. */
    sleep(1);
    _exit(0);
}
