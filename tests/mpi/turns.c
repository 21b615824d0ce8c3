/*
 * How often MPI gets a turn while rank 0 waits inside kolo, for every kind of wait and every
 * policy; and how long MPI takes to fetch something from it.
 *
 *   turns          asks for one in each millisecond in which rank 0 has a core or sleeps
 *   turns moving   compares receives and one-sided reads with those from a rank that waits in MPI
 *   turns moving no-finalize   the same, and leaves without MPI_Finalize
 */
#define _GNU_SOURCE
#include <kolo_mpi.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LATE_US 60000
#define LARGE (1 << 14)
#define BYTES (16 << 20)
#define ROUNDS 5

static int me;
/* In microseconds: when the last turn was, and the gaps of more than a millisecond. */
static double last, begun, gaps;
static long turns;

/* The time of this thread without what it waited for a core: the same on a loaded machine. */
static double own_time(void)
{
    static int file = -1;
    char text[100] = "";
    struct timespec now;
    double ran = 0, waited = 0;
    if (file < 0) file = open("/proc/thread-self/schedstat", O_RDONLY);
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (pread(file, text, sizeof text - 1, 0) > 0) sscanf(text, "%lf %lf", &ran, &waited);
    return now.tv_sec * 1e6 + now.tv_nsec * 1e-3 - waited * 1e-3;
}

static void note_gap(void)
{
    double now = own_time();
    if (now - last > 1000) gaps += now - last;
    last = now;
}

/* kolo's turns, which go on to MPI. */
int PMPI_Iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
{
    static int (*real)(int, int, MPI_Comm, int *, MPI_Status *);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "PMPI_Iprobe");
    if (!me) note_gap();
    turns++;
    return real(source, tag, comm, flag, status);
}

static void need(int good, const char *what)
{
    if (good) return;
    printf("rank %d: %s: %s\n", me, what, koloGetLastError(NULL));
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

#define CALL(call) need((call) == koloSuccess, #call)

static double from[LARGE], to[LARGE];

/* One kind of call in which rank 0 waits for rank 1; false when there are no more. */
static int one(int kind, koloComm_t comm, const char **name)
{
    koloRequest_t request;
    koloStream_t stream;
    koloComm_t part;
    switch (kind) {
    case 0: *name = "a barrier"; CALL(koloBarrier(comm, 0)); return 1;
    case 1:
        *name = "8 bytes";
        CALL(koloAllReduce(from, to, 1, koloFloat64, koloSum, comm, 0));
        return 1;
    case 2:
        *name = "128 KiB";
        CALL(koloAllReduce(from, to, LARGE, koloFloat64, koloSum, comm, 0));
        return 1;
    case 3:
        *name = "a message";
        if (me) CALL(koloSend(from, 100, koloFloat64, 0, comm, 0));
        else CALL(koloRecv(to, 100, koloFloat64, 1, comm, 0));
        return 1;
    case 4:
        *name = "a request";
        CALL(koloIAllReduce(from, to, LARGE, koloFloat64, koloSum, comm, &request));
        CALL(koloWait(&request));
        return 1;
    case 5:
        *name = "a stream";
        CALL(koloStreamCreate(&stream));
        CALL(koloAllReduce(from, to, LARGE, koloFloat64, koloSum, comm, stream));
        CALL(koloStreamSynchronize(stream));
        CALL(koloStreamDestroy(stream));
        return 1;
    case 6:
        *name = "a group";
        CALL(koloGroupStart());
        CALL(koloAllReduce(from, to, 10, koloFloat64, koloSum, comm, 0));
        CALL(koloBroadcast(to, to, 10, koloFloat64, 1, comm, 0));
        CALL(koloGroupEnd());
        return 1;
    case 7:
        *name = "a split";
        CALL(koloCommSplit(comm, 0, me, &part, NULL));
        CALL(koloCommDestroy(part));
        return 1;
    case 8:
        *name = "the end";
        if (!me) CALL(koloSend(from, 1, koloFloat64, 1, comm, 0));
        else CALL(koloRecv(to, 1, koloFloat64, 0, comm, 0));
        CALL(koloCommDestroy(comm));
        return 1;
    }
    return 0;
}

static int count_turns(const char *policy)
{
    koloComm_t comm;
    const char *name = "";
    int wrong = 0;
    setenv("KOLO_WAIT", policy, 1);
    need(koloCommInitMPI(&comm, MPI_COMM_WORLD) == koloSuccess, "init");
    for (int kind = 0; kind <= 8; kind++) {
        /* What is made once for all calls of a kind is made before. */
        if (kind < 8) one(kind, comm, &name);
        MPI_Barrier(MPI_COMM_WORLD);
        if (me) usleep(LATE_US);
        begun = last = own_time();
        gaps = 0, turns = 0;
        one(kind, comm, &name);
        if (me) continue;
        note_gap();
        if (getenv("VERBOSE")) printf("# %s, %s: %ld turns\n", policy, name, turns);
        if (gaps <= 0.2 * (last - begun) + 4000) continue;
        printf("%s, %s: %ld turns, without one %.0f of %.0f ms\n", policy, name, turns,
               gaps / 1e3, (last - begun) / 1e3);
        wrong = 1;
    }
    return wrong;
}

static int ascending(const void *a, const void *b)
{
    return *(const double *)a < *(const double *)b ? -1 : 1;
}

/* Receives 16 MiB from rank 0, or reads them there, while it waits. */
static double fetch(int by_get, koloComm_t comm, char *data, MPI_Win window)
{
    MPI_Request request = MPI_REQUEST_NULL;
    double start = 0, end = 0;
    if (!me) {
        if (!by_get) MPI_Isend(data, BYTES, MPI_CHAR, 1, 7, MPI_COMM_WORLD, &request);
    } else {
        usleep(LATE_US);
        start = MPI_Wtime();
        if (by_get) {
            MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
            MPI_Get(data, BYTES / 16, MPI_CHAR, 0, 0, BYTES / 16, MPI_CHAR, window);
            MPI_Win_unlock(0, window);
        } else {
            MPI_Recv(data, BYTES, MPI_CHAR, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        end = MPI_Wtime();
        need(data[BYTES / 16 - 1] == 5, "the data");
        memset(data, 0, BYTES);
    }
    if (comm) CALL(koloBarrier(comm, 0));
    else MPI_Barrier(MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return end - start;
}

static int compare(int by_get, koloComm_t comm)
{
    double plain[ROUNDS], beside[ROUNDS];
    char *data = malloc(BYTES);
    MPI_Win window;
    memset(data, me ? 0 : 5, BYTES);
    MPI_Win_create(data, BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    for (int i = 0; i < ROUNDS; i++) {
        plain[i] = fetch(by_get, 0, data, window);
        beside[i] = fetch(by_get, comm, data, window);
    }
    MPI_Win_free(&window);
    free(data);
    qsort(plain, ROUNDS, sizeof(double), ascending);
    qsort(beside, ROUNDS, sizeof(double), ascending);
    double usual = plain[ROUNDS / 2] * 1e3, found = beside[ROUNDS / 2] * 1e3;
    if (getenv("VERBOSE") && me) printf("# %d: %.1f ms, MPI's %.1f ms\n", by_get, found, usual);
    if (found <= 2.5 * usual + 20) return 0;
    printf("%s: %.1f ms beside kolo, %.1f ms in MPI\n", by_get ? "read" : "receive", found, usual);
    return 1;
}

int main(int argc, char **argv)
{
    int wrong = 0, level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    if (argc > 1 && !strcmp(argv[1], "moving")) {
        koloComm_t comm;
        need(koloCommInitMPI(&comm, MPI_COMM_WORLD) == koloSuccess, "init");
        wrong = compare(0, comm) | compare(1, comm);
        CALL(koloCommDestroy(comm));
    } else {
        const char *policies[] = {"auto", "spin", "yield", "sleep"};
        for (int i = 0; i < 4; i++) wrong |= count_turns(policies[i]);
    }
    if (!wrong && me == 0) printf("all right\n");
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    /* MPICH 4.0 over TCP hangs in it now and then, without kolo as well. */
    if (argc > 2) _exit(wrong);
    MPI_Finalize();
    return wrong;
}
