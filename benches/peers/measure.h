/* What a program needs to time calls of a library between processes of one machine, and must not
 * take from that library: a clock, a gate at which ranks meet, data, and statistics.
 *
 * The processes share a file, the board. At the gate rank 0 waits for all others and names a moment
 * a little ahead; every rank then waits for it, so that all begin together. Where ranks outnumber
 * cores nobody can promise that: they go on when they hear of it, and yield while they wait.
 */
#ifndef PEERS_MEASURE_H
#define PEERS_MEASURE_H

#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { MOST_RANKS = 64, MOST_CALLS = 4096, LINE = 128 };

/* How far ahead the moment is, in nanoseconds: more than a cache line and a flag need to arrive. */
static const double LEAD = 600;
/* Milliseconds of a call that is not tried twice. */
static const double LONG = 20;
/* Looks at a flag before a rank that waits gives its core away. */
enum { LOOKS = 4000 };

struct flag {
    _Alignas(LINE) _Atomic uint64_t value;
};

struct board {
    /* Gates that a rank has come to. */
    struct flag arrived[MOST_RANKS];
    /* Gates that are open, and the moment at which ranks go on. */
    struct flag open;
    uint64_t moment;
    /* Calls that rank 0 has chosen for what is measured now. */
    _Alignas(LINE) int calls;
    int is_long;
    /* For barriers: the call that a rank has come to. */
    struct flag came[MOST_RANKS];
    _Alignas(LINE) uint64_t begin[MOST_RANKS][MOST_CALLS];
    uint64_t end[MOST_RANKS][MOST_CALLS];
};

struct measure {
    struct board *board;
    int me, ranks, crowded;
    uint64_t gates;
    /* Of the clock: ticks and nanoseconds when the program began. */
    uint64_t tick;
    double nanosecond;
    uint64_t lead;
    uint64_t begin[MOST_CALLS], end[MOST_CALLS];
};

static inline void fail(const char *what) {
    fprintf(stderr, "%s\n", what);
    fflush(stderr);
    /* Not exit(): the library's own end could wait for ranks that go on. */
    _exit(1);
}

static inline double nanoseconds(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1e9 + at.tv_nsec;
}

/* A counter that all cores share, cheaper than a call of the system's clock where there is one. */
static inline uint64_t ticks(void) {
#ifdef __x86_64__
    unsigned low, high, core;
    __asm__ volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(core)::"memory");
    return (uint64_t)high << 32 | low;
#else
    return (uint64_t)nanoseconds();
#endif
}

static inline void pause_core(void) {
#ifdef __x86_64__
    __builtin_ia32_pause();
#endif
}

/* Ticks of a microsecond, from the whole time that the program has run. */
static inline double ticks_of_microsecond(const struct measure *m) {
    return (ticks() - m->tick) / ((nanoseconds() - m->nanosecond) * 1e-3);
}

static inline void measure_begin(struct measure *m, struct board *board, int me, int ranks,
                                 int crowded) {
    double until;
    m->board = board;
    m->me = me;
    m->ranks = ranks;
    m->crowded = crowded;
    m->gates = 0;
    m->tick = ticks();
    m->nanosecond = nanoseconds();
    if (ranks > MOST_RANKS) fail("too many ranks");
    until = m->nanosecond + 20e6;
    while (nanoseconds() < until) pause_core();
    m->lead = LEAD * 1e-3 * ticks_of_microsecond(m);
}

static inline void wait_for(const struct measure *m, struct flag *flag, uint64_t value) {
    for (int looks = 0; atomic_load_explicit(&flag->value, memory_order_acquire) < value; looks++) {
        pause_core();
        if (m->crowded || looks > LOOKS) {
            sched_yield();
            looks = 0;
        }
    }
}

/* Returns when all ranks have come, on all of them at the same moment. */
static inline void gate(struct measure *m) {
    struct board *b = m->board;
    m->gates++;
    if (m->me == 0) {
        for (int r = 1; r < m->ranks; r++) wait_for(m, &b->arrived[r], m->gates);
        b->moment = m->crowded ? 0 : ticks() + m->lead;
        atomic_store_explicit(&b->open.value, m->gates, memory_order_release);
    } else {
        atomic_store_explicit(&b->arrived[m->me].value, m->gates, memory_order_release);
        wait_for(m, &b->open, m->gates);
    }
    while (ticks() < b->moment) pause_core();
}

/* What rank `of` contributes at an element: small integers, so that float sums are exact. */
static inline float value_of(int of, uint32_t element, int call) {
    return (float)(int)((element * 31 + (uint32_t)of * 7 + (uint32_t)call * 3) & 1023);
}

static inline void fill(float *to, size_t count, int of, int call) {
    for (uint32_t e = 0; e < count; e++) to[e] = value_of(of, e, call);
}

static inline void poison(float *to, size_t count) {
    for (size_t e = 0; e < count; e++) to[e] = -1;
}

/* Elements that are not what rank `of` has contributed from element `first` on. */
static inline size_t wrong_copies(const float *got, size_t count, int of, uint32_t first,
                                  int call) {
    size_t wrong = 0;
    for (uint32_t e = 0; e < count; e++) wrong += got[e] != value_of(of, first + e, call);
    return wrong;
}

/* Elements that are not the sums over all ranks from element `first` on. */
static inline size_t wrong_sums(const float *got, size_t count, int ranks, uint32_t first,
                                int call) {
    size_t wrong = 0;
    for (uint32_t e = 0; e < count; e++) {
        float sum = 0;
        for (int r = 0; r < ranks; r++) sum += value_of(r, first + e, call);
        wrong += got[e] != sum;
    }
    return wrong;
}

static inline int by_size(const void *one, const void *other) {
    double difference = *(const double *)one - *(const double *)other;
    return (difference > 0) - (difference < 0);
}

/* Rank 0 prints a line: the slowest rank's time of each call, least and median; the median of the
 * time from when the last rank began to when the last had ended; all in microseconds. */
static inline void report(struct measure *m, const char *collective, size_t bytes, int calls) {
    static double slowest[MOST_CALLS], late[MOST_CALLS];
    struct board *b = m->board;
    memcpy(b->begin[m->me], m->begin, calls * sizeof(uint64_t));
    memcpy(b->end[m->me], m->end, calls * sizeof(uint64_t));
    gate(m);
    if (m->me == 0) {
        double scale = 1 / ticks_of_microsecond(m);
        for (int i = 0; i < calls; i++) {
            uint64_t last_begin = 0, last_end = 0, longest = 0;
            for (int r = 0; r < m->ranks; r++) {
                uint64_t took = b->end[r][i] - b->begin[r][i];
                if (took > longest) longest = took;
                if (b->begin[r][i] > last_begin) last_begin = b->begin[r][i];
                if (b->end[r][i] > last_end) last_end = b->end[r][i];
            }
            slowest[i] = longest * scale;
            /* On a crowded machine the last may have begun after all others had ended. */
            late[i] = last_end > last_begin ? (last_end - last_begin) * scale : 0;
        }
        qsort(slowest, calls, sizeof(double), by_size);
        qsort(late, calls, sizeof(double), by_size);
        printf("result %s %zu %d %.4f %.4f %.4f\n", collective, bytes, calls, slowest[0],
               slowest[calls / 2], late[calls / 2]);
        fflush(stdout);
    }
    gate(m);
}

/* Runs `call` with the numbers from `first` on and keeps its times; `prepare` runs before each. */
typedef void step(void *of, int call);
static inline void timed(struct measure *m, int first, int calls, step *prepare, step *call,
                         void *of) {
    for (int i = 0; i < calls; i++) {
        prepare(of, first + i);
        gate(m);
        m->begin[i] = ticks();
        call(of, first + i);
        m->end[i] = ticks();
    }
}

/* As many calls as fit into `milliseconds`, but `fewest` at least, the same number on all ranks.
 * Some more run before, so that nothing counts that happens only at first. Gives the next call. */
static inline int measured(struct measure *m, int first, double milliseconds, int fewest,
                           step *prepare, step *call, void *of, int *calls) {
    int tried = 2, next = first;
    /* Pages and connections of the first trial are new; where calls are long it says enough. */
    for (int trial = 0; trial < 2; trial++) {
        double begin, each, fit;
        gate(m);
        begin = nanoseconds();
        timed(m, next, tried, prepare, call, of);
        gate(m);
        each = (nanoseconds() - begin) * 1e-6 / tried;
        next += tried;
        fit = milliseconds / each;
        if (fit > MOST_CALLS) fit = MOST_CALLS;
        if (m->me == 0) m->board->calls = fit < fewest ? fewest : fit;
        if (m->me == 0) m->board->is_long = each > LONG;
        gate(m);
        *calls = m->board->calls;
        if (m->board->is_long) break;
        tried = *calls / 10 > 3 ? *calls / 10 : 3;
    }
    timed(m, next, *calls, prepare, call, of);
    return next + *calls;
}

/* The board in the file that the driver has made; a new file is all zeros. */
static inline struct board *board_of(const char *path) {
    int file = open(path, O_RDWR | O_CREAT, 0600);
    struct board *board;
    if (file < 0 || ftruncate(file, sizeof(struct board))) fail("the board cannot be opened");
    board = mmap(NULL, sizeof(struct board), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (board == MAP_FAILED) fail("the board cannot be mapped");
    close(file);
    return board;
}

/* One core for this process, the `which`th of those that it may use. */
static inline void pin(int which) {
    cpu_set_t all, one;
    if (sched_getaffinity(0, sizeof all, &all)) fail("sched_getaffinity");
    CPU_ZERO(&one);
    for (int core = 0; core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, &all) && which-- == 0) CPU_SET(core, &one);
    if (CPU_COUNT(&one) != 1 || sched_setaffinity(0, sizeof one, &one))
        fail("there is no core for this rank");
}

#endif
