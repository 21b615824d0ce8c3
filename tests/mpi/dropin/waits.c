/*
 * What goes on while a rank waits in a collective that kolo runs. At the end rank 0 says "right".
 *
 *   waits cores      rank 0 works with two threads, and so do the others before they wait: a rank
 *                    that waits leaves them the cores
 *   waits messages   large messages and accesses to its memory reach the rank that waits
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { LARGE = 1 << 19, MESSAGES = 5, ACCESSES = 20 };

static int rank, ranks;

static void must(int good, const char *what, double found, double bound)
{
    if (good) return;
    fprintf(stderr, "waits: rank %d: %s: %g, bound %g\n", rank, what, found, bound);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Seconds of the processor that this process has used, all its threads. */
static double busy(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec)
           + 1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

/* How often this thread has slept. (A yield is no sleep.) */
static long naps(void)
{
    struct rusage used;
    getrusage(RUSAGE_THREAD, &used);
    return used.ru_nvcsw;
}

/* What the process used while it was watched. Virtual machines lose their cores for 100 ms now and
 * then, and the system counts that as time of whoever has run: so a thread looks at the clocks each
 * 5 ms. Of such a piece no more is counted than two cores can give, and a piece in which the thread
 * itself came late by much is left out. */
static struct {
    pthread_t thread;
    atomic_int ends;
    double used, watched;
} watch;

static void *watches(void *nothing)
{
    const double piece = 0.005;
    double seen = MPI_Wtime(), used = busy();
    while (!atomic_load(&watch.ends)) {
        usleep((useconds_t)(1e6 * piece));
        const double now = MPI_Wtime(), more = busy() - used;
        const double passed = now - seen;
        seen = now;
        used += more;
        if (passed > 4 * piece) continue;
        watch.used += more < 2 * passed ? more : 2 * passed;
        watch.watched += passed;
    }
    return nothing;
}

static void watch_begins(void)
{
    atomic_store(&watch.ends, 0);
    watch.used = watch.watched = 0;
    must(!pthread_create(&watch.thread, NULL, watches, NULL), "a thread", 0, 0);
}

/* The part of a core that the process has used since. */
static double watch_ends(void)
{
    atomic_store(&watch.ends, 1);
    must(!pthread_join(watch.thread, NULL), "the end of a thread", 0, 0);
    must(watch.watched > 0.1, "seconds that were watched", watch.watched, 0.1);
    return watch.used / watch.watched;
}

/* Two threads, for so many seconds of the clock. How much of the processor that is, others decide
 * who want it too: a rank that does not leave them the cores has as much as one of the threads. */
static double work(double seconds)
{
    double sum = 0;
#pragma omp parallel num_threads(2) reduction(+ : sum)
    {
        const double begun = MPI_Wtime();
        while (MPI_Wtime() - begun < seconds)
            for (int i = 1; i < 1000; i++) sum += 1.0 / i;
    }
    return sum;
}

static void cores(void)
{
    double mine = rank, sum;
    for (int round = 0; round < 3; round++) {
        must(work(0.05) > 0, "work", 0, 0);
        MPI_Barrier(MPI_COMM_WORLD);
        const double used = busy(), begun = MPI_Wtime();
        const long slept = naps();
        if (rank != 0) watch_begins();
        else must(work(0.7) > 0, "work", 0, 0);
        double thread = (busy() - used) / 2;
        if (round == 0) MPI_Barrier(MPI_COMM_WORLD);
        else if (round == 1) MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        else MPI_Bcast(&mine, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        const double waited = MPI_Wtime() - begun;
        const long times = naps() - slept;
        const double spent = rank != 0 ? watch_ends() * waited : 0;
        MPI_Bcast(&thread, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        if (rank == 0) continue;
        must(thread > 0.01, "so much a thread that works has had", thread, 0.01);
        /* Counted by naps: a nap and a look at MPI take 0.03 to 0.15 ms of a processor, by the
         * machine, and how many there are is up to those who want the core as well. A rank that
         * spins or yields hardly sleeps. */
        const double most = 0.05 + 0.0003 * (double)times;
        must(spent < most, "a rank that waited took the cores", spent, most);
        if (rank == 1)
            fprintf(stderr, "busy %.3f s of %.3f, %ld naps, a thread that worked %.3f s\n", spent,
                    waited, times, thread);
    }
}

static void messages(void)
{
    static double data[MESSAGES][LARGE];
    MPI_Request requests[MESSAGES];
    MPI_Status statuses[MESSAGES];
    MPI_Win window;
    long *memory;
    int done = 0;
    MPI_Win_allocate(ACCESSES * sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD,
                     &memory, &window);
    memset(memory, 0, ACCESSES * sizeof *memory);
    MPI_Barrier(MPI_COMM_WORLD);
    const int last = ranks - 1;
    for (int i = 0; i < MESSAGES; i++)
        if (rank == last)
            MPI_Irecv(data[i], LARGE, MPI_DOUBLE, 0, i, MPI_COMM_WORLD, &requests[i]);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        for (int i = 0; i < MESSAGES; i++) {
            for (int k = 0; k < LARGE; k++) data[i][k] = i * 1000 + k % 1000;
            MPI_Ssend(data[i], LARGE, MPI_DOUBLE, last, i, MPI_COMM_WORLD);
            done++;
        }
        for (int i = 0; i < ACCESSES; i++) {
            long value = 100 + i, before = -1;
            MPI_Win_lock(i % 2 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, last, 0, window);
            MPI_Put(&value, 1, MPI_LONG, last, i, 1, MPI_LONG, window);
            MPI_Win_flush(last, window);
            MPI_Fetch_and_op(&value, &before, MPI_LONG, last, i, MPI_SUM, window);
            MPI_Win_unlock(last, window);
            must(before == 100 + i, "an access", (double)before, 100 + i);
            done++;
        }
        /* All of that while the others have waited here. */
        must(done == MESSAGES + ACCESSES, "so many are done", done, MESSAGES + ACCESSES);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == last) {
        MPI_Waitall(MESSAGES, requests, statuses);
        for (int i = 0; i < MESSAGES; i++)
            for (int k = 0; k < LARGE; k++)
                must(data[i][k] == i * 1000 + k % 1000, "a message", data[i][k], i);
        MPI_Win_lock(MPI_LOCK_SHARED, last, 0, window);
        for (int i = 0; i < ACCESSES; i++)
            must(memory[i] == 2 * (100 + i), "its memory", (double)memory[i], 2 * (100 + i));
        MPI_Win_unlock(last, window);
    }
    MPI_Win_free(&window);
}

int main(int argc, char **argv)
{
    int given;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &given);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 2) return 2;
    if (!strcmp(argv[1], "cores")) cores();
    else messages();
    MPI_Finalize();
    if (rank == 0) fputs("right\n", stdout);
    return 0;
}
