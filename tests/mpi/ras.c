/* A job that hangs for a reason that is known: after calls that are right one rank, the culprit,
 * does something that is not, and all others wait. `kolo ras` is to name the culprit.
 *
 *   ras KIND CULPRIT CALLS
 *
 * Each rank prints "RANK PID" when it has made its calls; the culprit is the last, and then errs.
 */
#define _GNU_SOURCE
#include <kolo_mpi.h>
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LONG = 300000 };
static double from[LONG], to[LONG];
static int rank, size, culprit;
static koloComm_t world, other;

static void check(koloResult_t code)
{
    if (code == koloSuccess) return;
    fprintf(stderr, "rank %d: %s\n", rank, koloGetLastError(NULL));
    MPI_Abort(MPI_COMM_WORLD, 3);
}

static void sum(koloComm_t comm, size_t count)
{
    for (size_t i = 0; i < count; i++) from[i] = rank + (double)i, to[i] = -1;
    check(koloAllReduce(from, to, count, koloDouble, koloSum, comm, NULL));
    for (size_t i = 0; i < count; i++) {
        const double wanted = size * (size - 1) / 2.0 + size * (double)i;
        if (to[i] != wanted) MPI_Abort(MPI_COMM_WORLD, 4);
    }
}

static void compute(void)
{
    for (volatile unsigned long i = 0;; i++) {}
}

static void endless(const void *in, void *inout, size_t count, koloDataType_t type, void *context)
{
    (void)in, (void)inout, (void)count, (void)type, (void)context;
    if (rank == culprit) compute();
}

/* Both ends are this process's, so that nobody else is to blame. */
static void pipe_that_is(int full)
{
    int ends[2];
    static char page[4096];
    if (pipe(ends) != 0) exit(5);
    for (;;) {
        const ssize_t moved = full ? write(ends[1], page, sizeof page) : read(ends[0], page, 1);
        if (moved <= 0) exit(5);
    }
}

static void lock_twice(void)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    pthread_mutex_lock(&lock);
}

static void lock_of_file(void)
{
    FILE *file = tmpfile();
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fileno(file));
    flock(fileno(file), LOCK_EX);
    flock(open(path, O_RDWR), LOCK_EX);
}

static void child(void)
{
    const pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) pause();
    }
    waitpid(pid, NULL, 0);
}

static void err(const char *kind)
{
    const int is_culprit = rank == culprit, next = (rank + 1) % size;
    const int before = (rank + size - 1) % size;
    koloRedOp_t op;
    if (strcmp(kind, "order") == 0) {
        sum(is_culprit ? other : world, 1);
        sum(is_culprit ? world : other, 1);
    } else if (strcmp(kind, "sends") == 0) {
        check(koloSend(from, LONG, koloDouble, next, world, NULL));
        check(koloRecv(to, LONG, koloDouble, before, world, NULL));
    } else if (strcmp(kind, "operation") == 0) {
        check(koloRedOpCreateUser(&op, endless, NULL, 1, world));
        check(koloAllReduce(from, to, LONG, koloDouble, op, world, NULL));
    } else if (strcmp(kind, "message") == 0) {
        if (is_culprit) compute();
        check(koloRecv(to, 8, koloDouble, culprit, world, NULL));
    } else if (strcmp(kind, "split") == 0) {
        if (is_culprit) pause();
        check(koloCommSplit(world, 0, rank, &other, NULL));
    } else if (strcmp(kind, "start") == 0) {
        if (is_culprit) pause();
        check(koloCommInitMPI(&other, MPI_COMM_WORLD));
    } else if (!is_culprit) {
        for (int i = 0; i < 3; i++) sum(i % 2 ? other : world, 1);
    } else if (strcmp(kind, "computes") == 0) {
        compute();
    } else if (strcmp(kind, "pauses") == 0) {
        pause();
    } else if (strcmp(kind, "mpi") == 0) {
        MPI_Recv(to, 1, MPI_DOUBLE, next, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (strcmp(kind, "stops") == 0) {
        raise(SIGSTOP);
    } else if (strcmp(kind, "writes") == 0) {
        pipe_that_is(1);
    } else if (strcmp(kind, "reads") == 0) {
        pipe_that_is(0);
    } else if (strcmp(kind, "locks") == 0) {
        lock_twice();
    } else if (strcmp(kind, "file") == 0) {
        lock_of_file();
    } else if (strcmp(kind, "child") == 0) {
        child();
    } else if (strcmp(kind, "later") == 0) {
        /* It misses one call and is waiting in the next one. */
        sum(other, 1);
    } else {
        exit(2);
    }
}

int main(int argc, char **argv)
{
    if (argc != 4) return 2;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    culprit = atoi(argv[2]) % size;
    check(koloCommInitMPI(&world, MPI_COMM_WORLD));
    check(koloCommSplit(world, 0, rank, &other, NULL));
    for (int i = 0; i < atoi(argv[3]); i++) sum(i % 3 ? world : other, i % 5 ? 1 : 5000);
    /* All are here before anybody errs. */
    MPI_Barrier(MPI_COMM_WORLD);
    printf("%d %d\n", rank, (int)getpid());
    fflush(stdout);
    err(argv[1]);
    MPI_Finalize();
    return 0;
}
