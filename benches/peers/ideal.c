/* An all-reduce of float sums between two processes, written by hand for nothing else: what a library
 * could reach on this machine if it cost nothing itself.
 *
 *   ideal BOARD MILLISECONDS FEWEST WAY PAGES BYTES...
 *
 * Both processes map all buffers. WAY is one of
 *
 *   line    the vector passes through cache lines, each with a number that says it is there; no wait
 *           at the end, because the next call uses other lines (up to 4 KiB)
 *   read    each rank sums the whole vector from both sources into its own buffer
 *   push    the owner of a half loads it from both sources and stores the sum into both results
 *   past    the same, all stores past the cache
 *   mixed   the same, only stores into the other's result past the cache
 *   best    what was the fastest for the size on two cores that share a cache of 32 MiB
 *
 * but for `line` with a flag each way before, which says that the source is written, and one after,
 * which says that it is read and the result complete. PAGES is small or huge.
 */
#define _GNU_SOURCE
#include "measure.h"

#include <immintrin.h>
#include <sys/wait.h>

#ifndef __AVX512F__
#error "this program wants AVX-512"
#endif

enum { LANES = 16, LINES = 74, SETS = 4 };

/* One line: 14 floats and the number of the call. */
struct line {
    _Alignas(64) float data[14];
    _Atomic uint64_t number;
};
_Static_assert(sizeof(struct line) == 64, "a line of the cache");

struct shared {
    struct line lines[2][SETS][LINES];
    struct flag ready[2], done[2];
};

struct work {
    struct measure measure;
    struct shared *shared;
    float *send[2], *recv[2];
    size_t count;
    uint64_t calls;
    const char *way;
};

static void await(struct flag *flag, uint64_t value) {
    for (int looks = 0; atomic_load_explicit(&flag->value, memory_order_acquire) < value; looks++) {
        pause_core();
        if (looks > LOOKS) sched_yield();
    }
}

/* All lines are written before any is read, so that they travel side by side. */
static void by_lines(struct work *w) {
    int me = w->measure.me;
    struct line *mine = w->shared->lines[me][w->calls % SETS];
    struct line *theirs = w->shared->lines[!me][w->calls % SETS];
    const float *send = w->send[me];
    float *recv = w->recv[me];
    for (size_t at = 0, l = 0; at < w->count; at += 14, l++) {
        size_t n = w->count - at < 14 ? w->count - at : 14;
        __mmask16 mask = (__mmask16)((1u << n) - 1);
        /* One store for data and number: a line is never seen half. */
        __m512 whole = _mm512_maskz_loadu_ps(mask, send + at);
        __m512i number = _mm512_maskz_set1_epi64(0x80, (long long)w->calls);
        _mm512_store_si512(&mine[l], _mm512_or_si512(_mm512_castps_si512(whole), number));
    }
    for (size_t at = 0, l = 0; at < w->count; at += 14, l++) {
        size_t n = w->count - at < 14 ? w->count - at : 14;
        __mmask16 mask = (__mmask16)((1u << n) - 1);
        __m512i seen;
        for (int looks = 0;; looks++) {
            seen = _mm512_load_si512(&theirs[l]);
            if ((uint64_t)_mm_extract_epi64(_mm512_extracti64x2_epi64(seen, 3), 1) == w->calls) break;
            pause_core();
            if (looks > LOOKS) sched_yield();
        }
        __m512 own = _mm512_maskz_loadu_ps(mask, send + at);
        _mm512_mask_storeu_ps(recv + at, mask, _mm512_add_ps(own, _mm512_castsi512_ps(seen)));
    }
}

enum { ORDINARY, PAST, MIXED };

#define SUM(i) _mm512_add_ps(_mm512_load_ps(a + at + (i) * LANES), _mm512_load_ps(b + at + (i) * LANES))
#define EACH(what) what(0) what(1) what(2) what(3)

/* Elements [from, to) of a + b into one result, or into two. */
static void sum(const float *a, const float *b, float *own, float *other, size_t from, size_t to,
                int stores, size_t ahead) {
    for (size_t at = from; at < to; at += 4 * LANES) {
#define AHEAD(i) \
    _mm_prefetch((const char *)(a + at + ahead + (i) * LANES), _MM_HINT_T0); \
    _mm_prefetch((const char *)(b + at + ahead + (i) * LANES), _MM_HINT_T0);
        if (ahead) { EACH(AHEAD) }
        __m512 s[4] = {SUM(0), SUM(1), SUM(2), SUM(3)};
#define OWN(i) _mm512_store_ps(own + at + (i) * LANES, s[i]);
#define OWN_PAST(i) _mm512_stream_ps(own + at + (i) * LANES, s[i]);
#define OTHER(i) _mm512_store_ps(other + at + (i) * LANES, s[i]);
#define OTHER_PAST(i) _mm512_stream_ps(other + at + (i) * LANES, s[i]);
        if (stores == PAST) { EACH(OWN_PAST) } else { EACH(OWN) }
        if (!other) continue;
        if (stores != ORDINARY) { EACH(OTHER_PAST) } else { EACH(OTHER) }
    }
    _mm_sfence();
}

static size_t ahead_of(void) {
    static size_t ahead = (size_t)-1;
    if (ahead == (size_t)-1) ahead = getenv("AHEAD") ? strtoul(getenv("AHEAD"), 0, 10) / 4 : 0;
    return ahead;
}

static void by_halves(struct work *w, int whole, int stores) {
    int me = w->measure.me;
    struct shared *s = w->shared;
    /* Halves of whole lines. */
    size_t middle = w->count / 2 / 64 * 64, from = me ? middle : 0, to = me ? w->count : middle;
    atomic_store_explicit(&s->ready[me].value, w->calls, memory_order_release);
    await(&s->ready[!me], w->calls);
    if (whole)
        sum(w->send[me], w->send[!me], w->recv[me], NULL, 0, w->count, stores, ahead_of());
    else
        sum(w->send[me], w->send[!me], w->recv[me], w->recv[!me], from, to, stores, ahead_of());
    atomic_store_explicit(&s->done[me].value, w->calls, memory_order_release);
    await(&s->done[!me], w->calls);
}

static void all_reduce(void *of, int call) {
    struct work *w = of;
    (void)call;
    w->calls++;
    if (!strcmp(w->way, "line"))
        by_lines(w);
    else if (!strcmp(w->way, "read"))
        by_halves(w, 1, ORDINARY);
    else if (!strcmp(w->way, "push"))
        by_halves(w, 0, ORDINARY);
    else if (!strcmp(w->way, "past"))
        by_halves(w, 0, PAST);
    else if (!strcmp(w->way, "mixed"))
        by_halves(w, 0, MIXED);
}

static void prepare(void *of, int call) {
    struct work *w = of;
    fill(w->send[w->measure.me], w->count, w->measure.me, call);
}

static void check(struct work *w, int call) {
    if (wrong_sums(w->recv[w->measure.me], w->count, 2, 0, call)) fail("the results are wrong");
}

static void one_size(struct work *w, size_t bytes, double milliseconds, int fewest) {
    int calls, next;
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

static void *shared_memory(size_t bytes, int huge) {
    char *memory = mmap(NULL, bytes + (4 << 20), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) fail("no memory");
    memory = (char *)(((uintptr_t)memory + (2 << 20) - 1) & ~(uintptr_t)((2 << 20) - 1));
    if (huge && madvise(memory, bytes + 4096, MADV_HUGEPAGE)) fail("no huge pages");
    return memory;
}

int main(int argc, char **argv) {
    static struct work w;
    size_t most = 0;
    int me, huge, status = 0;
    pid_t child;
    if (argc < 7) return 2;
    huge = !strcmp(argv[5], "huge");
    w.way = argv[4];
    for (int i = 6; i < argc; i++)
        if (strtoull(argv[i], NULL, 10) > most) most = strtoull(argv[i], NULL, 10);
    w.shared = shared_memory(sizeof *w.shared, 0);
    for (int r = 0; r < 2; r++) {
        w.send[r] = shared_memory(most + 256, huge);
        w.recv[r] = shared_memory(most + 256, huge);
    }
    struct board *board = board_of(argv[1]);
    child = fork();
    if (child < 0) fail("fork");
    me = child == 0;
    pin(me);
    measure_begin(&w.measure, board, me, 2, 0);
    for (int i = 6; i < argc; i++)
        one_size(&w, strtoull(argv[i], NULL, 10), atof(argv[2]), atoi(argv[3]));
    if (me == 0 && (waitpid(child, &status, 0) < 0 || status)) return 1;
    return 0;
}
