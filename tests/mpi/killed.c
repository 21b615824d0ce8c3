/* A rank is killed inside a call, at a random moment: every other rank has had right results until
 * then, and gets an error that names the dead one. The arguments are a seed, which draws all that
 * is random here, and a file through which the ranks say what they do. */
#define _GNU_SOURCE
#include <kolo_mpi.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define KINDS 4
#define LONGEST 300001
#define POISON (-77777)

static const int SIZES[] = {1, 6, 700, 5000, 70000, LONGEST};
#define NSIZES ((int)(sizeof SIZES / sizeof SIZES[0]))

/* Shared by all ranks: the call in which the dead one was, counted from 1; 0 is in none. */
struct board {
    volatile uint64_t died_in;
};

static struct board *board;
/* What the main thread is in: the number of the call, or 0; and which size it has. */
static volatile sig_atomic_t inside, inside_size;
static int deadly_size;

/* A generator for all ranks: the same seed draws the same. */
static uint64_t next(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static int64_t value(int rank, int element, int call) {
    return ((int64_t)rank * 31 + (int64_t)element * 7 + (int64_t)call * 13) % 101 - 50;
}

/* Kills this process if the main thread is in a call of the size that was drawn. */
static void strike(void) {
    int call = inside;
    if (call == 0 || inside_size != deadly_size) return;
    board->died_in = (uint64_t)call;
    kill(getpid(), SIGKILL);
}

static void on_timer(int signal) {
    (void)signal;
    strike();
}

static void *assassin(void *moment) {
    usleep(*(useconds_t *)moment);
    for (;;) strike();
    return NULL;
}

/* From a random moment on, the next call of the size is deadly: to a signal, or to a thread. */
static void arm(useconds_t moment, int by_signal) {
    static useconds_t kept;
    static pthread_t thread;
    kept = moment;
    if (!by_signal) {
        if (pthread_create(&thread, NULL, assassin, &kept)) exit(2);
        return;
    }
    struct sigaction action = {.sa_handler = on_timer};
    struct itimerval timer = {{0, 150}, {0, (suseconds_t)moment}};
    if (sigaction(SIGALRM, &action, NULL) || setitimer(ITIMER_REAL, &timer, NULL)) exit(2);
}

static int64_t *from, *to;

/* One call and, if it succeeds, how many elements of its result are wrong. */
static koloResult_t run(int call, int size, int kind, koloComm_t comm, int rank, int n, long *bad) {
    int count = SIZES[size], root = call % n, sent = count, got = count;
    koloResult_t code;
    if (kind == 1) sent = count / n + 1, got = sent * n;
    if (kind == 2) got = count / n + 1, sent = got * n;
    for (int i = 0; i < sent; i++) from[i] = value(rank, i, call);
    for (int i = 0; i < got + 1; i++) to[i] = POISON;
    inside_size = size;
    inside = call;
    switch (kind) {
    case 0: code = koloAllReduce(from, to, (size_t)count, koloInt64, koloSum, comm, NULL); break;
    case 1: code = koloAllGather(from, to, (size_t)sent, koloInt64, comm, NULL); break;
    case 2: code = koloReduceScatter(from, to, (size_t)got, koloInt64, koloSum, comm, NULL); break;
    default: code = koloBroadcast(from, to, (size_t)count, koloInt64, root, comm, NULL);
    }
    inside = 0;
    for (int i = 0; code == koloSuccess && i < got; i++) {
        int64_t sum = 0;
        int at = kind == 2 ? rank * got + i : i;
        for (int r = 0; r < n; r++) sum += value(r, at, call);
        if (kind == 1) sum = value(i / sent, i % sent, call);
        if (kind == 3) sum = value(root, i, call);
        *bad += to[i] != sum;
    }
    *bad += to[got] != POISON;
    return code;
}

static void share_board(const char *name) {
    int file = open(name, O_RDWR);
    if (file < 0) exit(2);
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (board == MAP_FAILED) exit(2);
}

int main(int argc, char **argv) {
    koloComm_t comm;
    koloResult_t code = koloSuccess, again;
    int rank, n, call, size = 0, kind = 0;
    long bad = 0;
    char peer[64], named[64], first[2048];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    if (argc != 3) return 2;
    uint64_t draws = strtoull(argv[1], NULL, 10);
    share_board(argv[2]);
    int victim = (int)(next(&draws) % (uint64_t)n), by_signal = (int)(next(&draws) % 2);
    useconds_t moment = (useconds_t)(1 + next(&draws) % 200000);
    deadly_size = (int)(next(&draws) % NSIZES);
    from = malloc(sizeof *from * (LONGEST + 64));
    to = malloc(sizeof *to * (LONGEST + 64));
    if (!from || !to) return 2;
    if (koloCommInitMPI(&comm, MPI_COMM_WORLD) != koloSuccess) {
        fprintf(stderr, "%s\n", koloGetLastError(NULL));
        return 1;
    }
    if (rank == victim) arm(moment, by_signal);
    for (call = 1; code == koloSuccess && bad == 0; call++) {
        size = (int)(next(&draws) % NSIZES);
        kind = (int)(next(&draws) % KINDS);
        code = run(call, size, kind, comm, rank, n, &bad);
    }
    call--;
    /* It died, or cannot be reached any more, or no data pass: all of it is said of this rank. */
    snprintf(peer, sizeof peer, "[peer %d]", victim);
    snprintf(named, sizeof named, "rank %d ", victim);
    snprintf(first, sizeof first, "%s", koloGetLastError(comm));
    again = koloBarrier(comm, NULL);
    const char *second = koloGetLastError(comm);
    int died_in = (int)board->died_in;
    int good = bad == 0 && died_in > 0 && code == koloRemoteError && again == koloRemoteError &&
               strstr(first, peer) && strstr(first, named) && strstr(first, "Remedy: ") &&
               strstr(second, peer) && strstr(second, named);
    printf("rank %d: kind %d of %d elements, call %d, %ld wrong elements, code %d, then %d: %s\n"
           "rank %d died in call %d by a %s\n%s\n",
           rank, kind, SIZES[size], call, bad, code, again, first, victim, died_in,
           by_signal ? "signal" : "thread", good ? "noticed" : "WRONG");
    fflush(stdout);
    koloCommAbort(comm);
    _exit(0);
}
