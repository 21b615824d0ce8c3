/* An all-reduce of float sums between two processes, written by hand for nothing else: what a
 * library could reach on this machine if it cost nothing itself.
 *
 *   ideal BOARD MILLISECONDS FEWEST WAY BYTES...
 *
 * Both processes map all buffers. WAY is one of
 *
 *   line    up to 4 KiB: the vector passes through cache lines, each with a number that says that
 *           it is there. Nobody waits at the end, as the next calls use other lines
 *   read    each rank sums the whole vector from both sources into its own buffer
 *   push    the owner of a half loads it from both sources and stores the sum into both results
 *   past    the same, with stores past the cache
 *   mixed   the same, with stores past the cache into the other's result only
 *
 * All but `line` have a flag each way before, which says that the source is written, and one after,
 * which says that it is read and that its half is complete.
 */
#define _GNU_SOURCE
#include "measure.h"

#include <immintrin.h>
#include <sys/wait.h>

/* The widest vectors of the machine that it is compiled on. */
#if defined __AVX512F__
typedef __m512 vector;
#define LOAD _mm512_load_ps
#define ADD _mm512_add_ps
#define STORE _mm512_store_ps
#define STREAM _mm512_stream_ps
#elif defined __AVX2__
typedef __m256 vector;
#define LOAD _mm256_load_ps
#define ADD _mm256_add_ps
#define STORE _mm256_store_ps
#define STREAM _mm256_stream_ps
#else
#error "the ideal program is written for AVX2 or AVX-512"
#endif

enum { LANES = sizeof(vector) / sizeof(float), STEP = 64, FLOATS = 14, SETS = 4 };
/* Bytes that pass by lines at most, and the lines for them. */
enum { LINED = 4096, LINES = LINED / 4 / FLOATS + 1 };

/* One line: floats and the number of the call. */
struct line {
    _Alignas(64) float data[FLOATS];
    _Atomic uint64_t number;
};
_Static_assert(sizeof(struct line) == 64, "a line of the cache");

struct shared {
    struct line lines[2][SETS][LINES];
    struct flag ready[2], done[2];
};

enum way { LINE_WAY, READ, PUSH, PAST, MIXED, WAYS };
static const char *const NAMES[WAYS] = {"line", "read", "push", "past", "mixed"};

struct work {
    struct measure measure;
    struct shared *shared;
    float *send[2], *recv[2];
    size_t count;
    uint64_t calls;
    enum way way;
};

/* ---- Small: by lines ---- */

/* All lines are written before any is read, so that they travel side by side. The data of a line
 * are stored before its number, and loaded after it: these processors keep either order. A set is
 * used again after SETS calls, when the other has answered the last of them, and so has read this
 * one. */
static void by_lines(struct work *w) {
    int me = w->measure.me;
    size_t whole = w->count / FLOATS, rest = w->count % FLOATS;
    const float *own = w->send[me];
    float *to = w->recv[me];
    struct line *mine = w->shared->lines[me][w->calls % SETS];
    struct line *theirs = w->shared->lines[!me][w->calls % SETS];
    for (size_t l = 0; l < whole + !!rest; l++) {
        if (l < whole)
            memcpy(mine[l].data, own + l * FLOATS, sizeof mine->data);
        else
            memcpy(mine[l].data, own + l * FLOATS, rest * sizeof(float));
        atomic_store_explicit(&mine[l].number, w->calls, memory_order_release);
    }
    for (size_t l = 0; l < whole + !!rest; l++) {
        size_t at = l * FLOATS;
        for (int looks = 0;; looks++) {
            if (atomic_load_explicit(&theirs[l].number, memory_order_acquire) == w->calls) break;
            if (looks > LOOKS) sched_yield();
        }
        if (l < whole)
            for (size_t e = 0; e < FLOATS; e++) to[at + e] = own[at + e] + theirs[l].data[e];
        else
            for (size_t e = 0; e < rest; e++) to[at + e] = own[at + e] + theirs[l].data[e];
    }
}

/* ---- Large: the buffers themselves ---- */

static void await(struct flag *flag, uint64_t value) {
    for (int looks = 0; atomic_load_explicit(&flag->value, memory_order_acquire) < value; looks++) {
        pause_core();
        if (looks > LOOKS) sched_yield();
    }
}

static inline void store(float *to, const vector *sums, int past) {
    for (int i = 0; i < STEP / LANES; i++) {
        if (past)
            STREAM(to + i * LANES, sums[i]);
        else
            STORE(to + i * LANES, sums[i]);
    }
}

/* Elements [from, to) of a + b into one result, or into two. Inlined once for each way. */
static inline __attribute__((always_inline)) void sum(const float *a, const float *b, float *own,
                                                      float *other, size_t from, size_t to,
                                                      int own_past, int other_past) {
    for (size_t at = from; at < to; at += STEP) {
        vector sums[STEP / LANES];
        for (int i = 0; i < STEP / LANES; i++)
            sums[i] = ADD(LOAD(a + at + i * LANES), LOAD(b + at + i * LANES));
        store(own + at, sums, own_past);
        if (other) store(other + at, sums, other_past);
    }
    if (own_past || other_past) _mm_sfence();
}

static void by_buffers(struct work *w) {
    int me = w->measure.me;
    struct shared *s = w->shared;
    const float *a = w->send[me], *b = w->send[!me];
    float *own = w->recv[me], *other = w->recv[!me];
    /* Halves of whole steps; buffers have room for a last step that is not whole. */
    size_t middle = w->count / 2 / STEP * STEP;
    size_t from = me ? middle : 0, to = me ? w->count : middle;
    atomic_store_explicit(&s->ready[me].value, w->calls, memory_order_release);
    await(&s->ready[!me], w->calls);
    switch (w->way) {
    case READ: sum(a, b, own, NULL, 0, w->count, 0, 0); break;
    case PUSH: sum(a, b, own, other, from, to, 0, 0); break;
    case PAST: sum(a, b, own, other, from, to, 1, 1); break;
    default: sum(a, b, own, other, from, to, 0, 1);
    }
    atomic_store_explicit(&s->done[me].value, w->calls, memory_order_release);
    await(&s->done[!me], w->calls);
}

/* ---- As calls.c measures ---- */

static void all_reduce(void *of, int call) {
    struct work *w = of;
    (void)call;
    w->calls++;
    if (w->way == LINE_WAY)
        by_lines(w);
    else
        by_buffers(w);
}

static void prepare(void *of, int call) {
    struct work *w = of;
    fill(w->send[w->measure.me], w->count, w->measure.me, call);
}

static void check(struct work *w, int call) {
    if (wrong_sums(w->recv[w->measure.me], w->count, 2, 0, call)) fail("wrong: the ideal program");
}

static void one_size(struct work *w, size_t bytes, double milliseconds, int fewest) {
    int calls, next;
    if (w->way == LINE_WAY && bytes > LINED) fail("too much for lines");
    w->count = bytes / sizeof(float);
    gate(&w->measure);
    poison(w->recv[w->measure.me], w->count);
    prepare(w, 0);
    gate(&w->measure);
    all_reduce(w, 0);
    check(w, 0);
    next = measured(&w->measure, 1, milliseconds, fewest, prepare, all_reduce, w, &calls);
    check(w, next - 1);
    report(&w->measure, "all_reduce", bytes, calls);
}

static void *shared_memory(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) fail("no memory");
    return memory;
}

int main(int argc, char **argv) {
    static struct work w;
    struct board *board;
    size_t most = 0;
    int me, status = 0;
    pid_t child;
    if (argc < 6) return 2;
    while (w.way < WAYS && strcmp(argv[4], NAMES[w.way])) w.way++;
    if (w.way == WAYS) fail("no such way");
    for (int i = 5; i < argc; i++)
        if (strtoull(argv[i], NULL, 10) > most) most = strtoull(argv[i], NULL, 10);
    w.shared = shared_memory(sizeof *w.shared);
    for (int r = 0; r < 2; r++) {
        w.send[r] = shared_memory(most + STEP * sizeof(float));
        w.recv[r] = shared_memory(most + STEP * sizeof(float));
    }
    board = board_of(argv[1]);
    child = fork();
    if (child < 0) fail("fork");
    me = child == 0;
    pin(me);
    measure_begin(&w.measure, board, me, 2, 0);
    for (int i = 5; i < argc; i++)
        one_size(&w, strtoull(argv[i], NULL, 10), atof(argv[2]), atoi(argv[3]));
    if (me == 0 && (waitpid(child, &status, 0) < 0 || status)) return 1;
    return 0;
}
