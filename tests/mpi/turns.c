/*
 * How often MPI gets a turn while rank 0 waits inside kolo, for every kind of wait and every
 * policy; and how long MPI takes to fetch something from it.
 *
 *   turns          on one node
 *   turns nodes    as if each rank had a node of its own
 *   turns moving   compares receives and one-sided reads with those from a rank that waits in MPI
 *   turns moving no-finalize   the same, and leaves without MPI_Finalize
 *
 * Two things are asked of a wait.
 *
 * Naps: between two turns rank 0 asks the system for no more than a millisecond of sleep. A sleep
 * counts as long as was asked for, or as it lasted where somebody woke it. What the machine adds is
 * in neither, and after a sleep that lasted as long as was asked, kolo's own clock says that a turn
 * is due. So no load can make this fail. (A sleep without a limit does not count: it may be one for
 * a lock, whose holder may have lost its core.)
 *
 * Shares: the time without a turn for more than a millisecond, of the time in which rank 0 had a
 * core or slept, is less than half. That finds also those who wait without a sleep that is seen
 * here, or spin. A wait without turns has a share of 1 in each of three tries.
 *
 * Rank 1 is late until rank 0 says, at a turn, that it has waited for long. So rank 0 waits also
 * where the machine keeps it from its core.
 */
#define _GNU_SOURCE
#include <kolo_mpi.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LATE_US 60000
/* For how long rank 0 waits, and after which time rank 1 comes without a word. */
#define WAIT_US 30000
#define MOST_LATE_US 3000000
#define LARGE (1 << 14)
#define HUGE (1 << 20)
#define BYTES (16 << 20)
#define ROUNDS 5
#define TRIES 3
/* A millisecond, and the pause within which no other turn is due. */
#define MOST_NAPS_US 1100
#define WITHOUT_LIMIT 1e18

static int me;
/* In microseconds: when the last turn was, and the gaps of more than a millisecond. */
static double last, begun, gaps;
/* Sleep that this thread has asked for since the last turn, and the most of it. */
static double naps, most_naps;
static long turns;
/* In memory of both ranks: for how long rank 0 has waited. */
static volatile double *waited_us;
/* This thread waits inside of kolo, and not in MPI. */
static __thread int is_watched;

static double at(const struct timespec *time)
{
    return time->tv_sec * 1e6 + time->tv_nsec * 1e-3;
}

static double clock_of(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return at(&now);
}

/* The time of this thread without what it waited for a core: the same on a loaded machine. */
static double own_time(void)
{
    static int file = -1;
    char text[100] = "";
    double ran = 0, waited = 0;
    if (file < 0) file = open("/proc/thread-self/schedstat", O_RDONLY);
    double now = clock_of(CLOCK_MONOTONIC);
    if (pread(file, text, sizeof text - 1, 0) > 0) sscanf(text, "%lf %lf", &ran, &waited);
    return now - waited * 1e-3;
}

static void note_gap(void)
{
    double now = own_time();
    if (now - last > 1000) gaps += now - last;
    last = now;
    naps = 0;
    *waited_us = now - begun;
}

/* kolo's turns, which go on to MPI. */
int PMPI_Iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
{
    static int (*real)(int, int, MPI_Comm, int *, MPI_Status *);
    int was_watched = is_watched;
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "PMPI_Iprobe");
    is_watched = 0;
    int code = real(source, tag, comm, flag, status);
    is_watched = was_watched;
    if (is_watched) {
        note_gap();
        turns++;
    }
    return code;
}

/* A sleep that began `from`, for which `asked` was asked. */
static void slept(double asked, double from)
{
    if (!is_watched || asked >= WITHOUT_LIMIT) return;
    double took = clock_of(CLOCK_MONOTONIC) - from;
    naps += took < asked ? took : asked;
    if (naps > most_naps) most_naps = naps;
}

/* Calls the function `name` of the C library, a sleep for which `asked` is asked. */
#define SLEEP(asked, name, call)                                                                   \
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, name);                                           \
    double from = clock_of(CLOCK_MONOTONIC);                                                       \
    long code = call;                                                                              \
    slept(asked, from);                                                                            \
    return code

int nanosleep(const struct timespec *time, struct timespec *left)
{
    static int (*real)(const struct timespec *, struct timespec *);
    SLEEP(at(time), "nanosleep", real(time, left));
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left)
{
    static int (*real)(clockid_t, int, const struct timespec *, struct timespec *);
    double asked = at(time) - (flags & TIMER_ABSTIME ? clock_of(clock) : 0);
    SLEEP(asked, "clock_nanosleep", real(clock, flags, time, left));
}

int poll(struct pollfd *set, nfds_t count, int limit)
{
    static int (*real)(struct pollfd *, nfds_t, int);
    SLEEP(limit < 0 ? WITHOUT_LIMIT : limit * 1e3, "poll", real(set, count, limit));
}

int ppoll(struct pollfd *set, nfds_t count, const struct timespec *limit, const sigset_t *mask)
{
    static int (*real)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *);
    SLEEP(limit ? at(limit) : WITHOUT_LIMIT, "ppoll", real(set, count, limit, mask));
}

/* A sleep where it is one on a futex. */
long syscall(long number, ...)
{
    static long (*real)(long, ...);
    long word[6];
    double asked = 0;
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++) word[i] = va_arg(list, long);
    va_end(list);
    int what = word[1] & FUTEX_CMD_MASK;
    if (number == SYS_futex && (what == FUTEX_WAIT || what == FUTEX_WAIT_BITSET)) {
        const struct timespec *limit = (const struct timespec *)word[3];
        int by_wall = word[1] & FUTEX_CLOCK_REALTIME;
        asked = limit ? at(limit) : WITHOUT_LIMIT;
        if (limit && what == FUTEX_WAIT_BITSET)
            asked -= clock_of(by_wall ? CLOCK_REALTIME : CLOCK_MONOTONIC);
    }
    SLEEP(asked, "syscall",
          real(number, word[0], word[1], word[2], word[3], word[4], word[5]));
}

static void need(int good, const char *what)
{
    if (good) return;
    printf("rank %d: %s: %s\n", me, what, koloGetLastError(NULL));
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

#define CALL(call) need((call) == koloSuccess, #call)

static double from[HUGE], to[HUGE];
/* What is made before the wait, for the kinds that need it. */
static koloComm_t other;
static koloUniqueId id;

static void barrier(koloComm_t comm)
{
    CALL(koloBarrier(comm, 0));
}

static void all_reduce(long count, koloComm_t comm, koloStream_t stream)
{
    CALL(koloAllReduce(from, to, count, koloFloat64, koloSum, comm, stream));
}

static void small(koloComm_t comm)
{
    all_reduce(1, comm, 0);
}

static void large(koloComm_t comm)
{
    all_reduce(LARGE, comm, 0);
}

static void huge(koloComm_t comm)
{
    all_reduce(HUGE, comm, 0);
}

static void message(koloComm_t comm)
{
    if (me) CALL(koloSend(from, 100, koloFloat64, 0, comm, 0));
    else CALL(koloRecv(to, 100, koloFloat64, 1, comm, 0));
}

static void request(koloComm_t comm)
{
    koloRequest_t request;
    CALL(koloIAllReduce(from, to, LARGE, koloFloat64, koloSum, comm, &request));
    CALL(koloWait(&request));
}

static void stream(koloComm_t comm)
{
    koloStream_t stream;
    CALL(koloStreamCreate(&stream));
    all_reduce(LARGE, comm, stream);
    CALL(koloStreamSynchronize(stream));
    CALL(koloStreamDestroy(stream));
}

static void group(koloComm_t comm)
{
    CALL(koloGroupStart());
    all_reduce(10, comm, 0);
    CALL(koloBroadcast(to, to, 10, koloFloat64, 1, comm, 0));
    CALL(koloGroupEnd());
}

static void exchange(koloComm_t comm)
{
    CALL(koloGroupStart());
    CALL(koloSend(from, LARGE, koloFloat64, !me, comm, 0));
    CALL(koloRecv(to, LARGE, koloFloat64, !me, comm, 0));
    CALL(koloGroupEnd());
}

static void split(koloComm_t comm)
{
    koloComm_t part;
    CALL(koloCommSplit(comm, 0, me, &part, NULL));
    CALL(koloCommDestroy(part));
}

static void make_other(koloComm_t comm)
{
    CALL(koloCommSplit(comm, 0, me, &other, NULL));
    exchange(other);
}

static void end(koloComm_t comm)
{
    (void)comm;
    if (!me) CALL(koloSend(from, 1, koloFloat64, 1, other, 0));
    else CALL(koloRecv(to, 1, koloFloat64, 0, other, 0));
    CALL(koloCommDestroy(other));
}

static void make_id(koloComm_t comm)
{
    (void)comm;
    if (!me) CALL(koloGetUniqueId(&id));
    MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
}

static void start(koloComm_t comm)
{
    (void)comm;
    CALL(koloCommInitRank(&other, 2, id, me));
    CALL(koloCommDestroy(other));
}

static void start_in_group(koloComm_t comm)
{
    (void)comm;
    CALL(koloGroupStart());
    CALL(koloCommInitRank(&other, 2, id, me));
    CALL(koloGroupEnd());
    CALL(koloCommDestroy(other));
}

static void start_threads(koloComm_t comm)
{
    koloComm_t all[8];
    (void)comm;
    CALL(koloCommInitAll(all, 8, NULL));
    for (int i = 0; i < 8; i++) CALL(koloCommDestroy(all[i]));
}

/* Kinds of calls in which rank 0 waits, mostly for rank 1. */
static const struct {
    const char *name;
    void (*call)(koloComm_t);
    /* What precedes it, and is no wait of this kind. */
    void (*before)(koloComm_t);
    /* Rank 0 may not wait for rank 1. */
    int is_alone;
} kinds[] = {
    {"a barrier", barrier, barrier, 0},
    {"8 bytes", small, small, 0},
    {"128 KiB", large, large, 0},
    {"8 MiB", huge, huge, 0},
    {"a message", message, message, 0},
    {"a request", request, request, 0},
    {"a stream", stream, stream, 0},
    {"a group", group, group, 0},
    {"an exchange", exchange, exchange, 0},
    {"a split", split, split, 0},
    {"the end", end, make_other, 1},
    {"a start", start, make_id, 0},
    {"a start in a group", start_in_group, make_id, 0},
    {"a start of threads", start_threads, 0, 1},
};

static void be_late(int is_alone)
{
    double start = clock_of(CLOCK_MONOTONIC);
    double most = is_alone ? LATE_US : MOST_LATE_US;
    while ((is_alone || *waited_us < WAIT_US) && clock_of(CLOCK_MONOTONIC) - start < most)
        usleep(1000);
}

/* Memory that both ranks see. */
static void share(void)
{
    char name[64];
    snprintf(name, sizeof name, "/kolo-turns-%d", (int)getpid());
    MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
    int file = shm_open(name, O_RDWR | O_CREAT, 0600);
    need(file >= 0 && ftruncate(file, sizeof(double)) == 0, "shared memory");
    waited_us = mmap(NULL, sizeof(double), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    need(waited_us != MAP_FAILED, "shared memory");
    MPI_Barrier(MPI_COMM_WORLD);
    shm_unlink(name);
    close(file);
}

/* Whether rank 0 gave MPI its turns in a wait of this kind; `policy` for what is said of it. */
static int has_turns(int kind, const char *policy, koloComm_t comm, int is_last)
{
    if (kinds[kind].before) kinds[kind].before(comm);
    *waited_us = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    if (me) be_late(kinds[kind].is_alone);
    begun = last = own_time();
    gaps = naps = most_naps = 0, turns = 0;
    is_watched = !me;
    kinds[kind].call(comm);
    is_watched = 0;
    note_gap();
    double time = last - begun;
    int good[2] = {most_naps <= MOST_NAPS_US, gaps <= time / 2};
    if (!me && (getenv("VERBOSE") || !good[0] || (!good[1] && is_last)))
        printf("%s, %s: %ld turns, slept for at most %.0f us between two, without one for %.0f of "
               "%.0f ms\n", policy, kinds[kind].name, turns, most_naps, gaps / 1e3, time / 1e3);
    MPI_Bcast(good, 2, MPI_INT, 0, MPI_COMM_WORLD);
    need(good[0], "so long a sleep without a turn");
    return good[1];
}

static int count_turns(const char *policy)
{
    koloComm_t comm;
    int wrong = 0, count = sizeof kinds / sizeof *kinds;
    setenv("KOLO_WAIT", policy, 1);
    need(koloCommInitMPI(&comm, MPI_COMM_WORLD) == koloSuccess, "init");
    for (int kind = 0; kind < count; kind++) {
        int good = wrong;
        for (int left = TRIES; left > 0 && !good; left--)
            good = has_turns(kind, policy, comm, left == 1);
        wrong |= !good;
    }
    CALL(koloCommDestroy(comm));
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
    share();
    if (argc > 1 && !strcmp(argv[1], "moving")) {
        koloComm_t comm;
        need(koloCommInitMPI(&comm, MPI_COMM_WORLD) == koloSuccess, "init");
        wrong = compare(0, comm) | compare(1, comm);
        CALL(koloCommDestroy(comm));
    } else {
        if (argc > 1) {
            setenv("KOLO_HOSTID", me ? "one" : "zero", 1);
            setenv("KOLO_SOCKET_IFNAME", "=lo", 1);
        }
        const char *policies[] = {"auto", "spin", "yield", "sleep"};
        for (int i = 0; i < 4; i++) wrong |= count_turns(policies[i]);
    }
    if (!wrong && me == 0) fputs("all right\n", stdout);
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    /* MPICH 4.0 over TCP hangs in it now and then, without kolo as well. */
    if (argc > 2) _exit(wrong);
    MPI_Finalize();
    return wrong;
}
