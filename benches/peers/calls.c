/* Times the collectives of one library; the same source is compiled for each MPI, and with -DKOLO
 * for kolo.
 *
 *   calls BOARD private|mapped pinned|free MILLISECONDS FEWEST COLLECTIVE BYTES... [COLLECTIVE ...]
 *
 * Each size has as many calls as fit into MILLISECONDS, and FEWEST at least. BOARD is a file in
 * memory that does not exist yet, for this run alone. `pinned` gives each rank a core.
 *
 * A size is that of the larger buffer of a rank: all blocks that one rank receives (all_gather,
 * gather) or sends (all_to_all, reduce_scatter, scatter), else the one vector. A block has one
 * float at least. The blocks of all_gather_v, gather_v, scatter_v and all_to_all_v differ in size.
 * Sources are written anew before each call, outside of what is timed; the first
 * calls and the last are checked on all ranks, element by element, and a wrong result ends the
 * program.
 */
#define _GNU_SOURCE
#include "library.h"
#include "measure.h"

struct work {
    struct measure measure;
    const char *collective;
    float *send, *recv;
    /* Elements of the two, and of a block. */
    size_t sent, received, block;
    /* Where the blocks of calls whose blocks differ begin, and how long they are. */
    amount send_counts[MOST_RANKS], send_places[MOST_RANKS];
    amount recv_counts[MOST_RANKS], recv_places[MOST_RANKS];
};

static int is(const struct work *w, const char *name) { return !strcmp(w->collective, name); }

/* ---- One function a collective ---- */

static void all_reduce(void *of, int call) {
    struct work *w = of;
    (void)call;
    ALL_REDUCE(w->send, w->recv, w->block);
}
static void all_gather(void *of, int call) {
    struct work *w = of;
    (void)call;
    ALL_GATHER(w->send, w->recv, w->block);
}
static void all_to_all(void *of, int call) {
    struct work *w = of;
    (void)call;
    ALL_TO_ALL(w->send, w->recv, w->block);
}
static void broadcast(void *of, int call) {
    struct work *w = of;
    (void)call;
    BROADCAST(w->recv, w->block);
}
static void reduce_scatter(void *of, int call) {
    struct work *w = of;
    (void)call;
    REDUCE_SCATTER(w->send, w->recv, w->block);
}
static void reduce(void *of, int call) {
    struct work *w = of;
    (void)call;
    REDUCE(w->send, w->recv, w->block);
}
static void gather(void *of, int call) {
    struct work *w = of;
    (void)call;
    GATHER(w->send, w->recv, w->block);
}
static void scatter(void *of, int call) {
    struct work *w = of;
    (void)call;
    SCATTER(w->send, w->recv, w->block);
}
static void all_gather_v(void *of, int call) {
    struct work *w = of;
    (void)call;
    ALL_GATHER_V(w->send, w->sent, w->recv, w->recv_counts, w->recv_places);
}
static void gather_v(void *of, int call) {
    struct work *w = of;
    (void)call;
    GATHER_V(w->send, w->sent, w->recv, w->recv_counts, w->recv_places);
}
static void scatter_v(void *of, int call) {
    struct work *w = of;
    (void)call;
    SCATTER_V(w->send, w->send_counts, w->send_places, w->recv, w->received);
}
static void all_to_all_v(void *of, int call) {
    struct work *w = of;
    (void)call;
    ALL_TO_ALL_V(w->send, w->send_counts, w->send_places, w->recv, w->recv_counts,
                 w->recv_places);
}
static void barrier(void *of, int call) {
    (void)of;
    (void)call;
    BARRIER();
}
static void sendrecv(void *of, int call) {
    struct work *w = of;
    int me = w->measure.me, ranks = w->measure.ranks;
    (void)call;
    SEND_RECV(w->send, (me + 1) % ranks, w->recv, (me + ranks - 1) % ranks, w->block);
}

static const struct {
    const char *name;
    step *call;
} COLLECTIVES[] = {
    {"all_reduce", all_reduce}, {"all_gather", all_gather},
    {"all_to_all", all_to_all}, {"broadcast", broadcast},
    {"reduce_scatter", reduce_scatter}, {"reduce", reduce},
    {"gather", gather}, {"scatter", scatter},
    {"all_gather_v", all_gather_v}, {"gather_v", gather_v},
    {"scatter_v", scatter_v}, {"all_to_all_v", all_to_all_v},
    {"barrier", barrier}, {"sendrecv", sendrecv},
};

static step *function_of(const char *name) {
    if (!name) fail("a size before any collective");
    for (size_t i = 0; i < sizeof COLLECTIVES / sizeof *COLLECTIVES; i++)
        if (!strcmp(COLLECTIVES[i].name, name)) return COLLECTIVES[i].call;
    fail("no such collective");
    return NULL;
}

/* ---- Data ---- */

/* Elements of block number `block` of `ranks` that have `whole` elements together. */
static size_t part(size_t whole, int block, int ranks) {
    static const size_t WEIGHTS[] = {5, 1, 3};
    size_t all = 0, others = 0;
    for (int b = 0; b < ranks; b++) all += WEIGHTS[b % 3];
    for (int b = 1; b < ranks; b++) others += whole * WEIGHTS[b % 3] / all;
    return block == 0 ? whole - others : whole * WEIGHTS[block % 3] / all;
}

/* Elements of the block that goes from one rank to another, where all send to all: sizes follow
 * the distance, so that each rank sends and receives as much. */
static size_t part_to(size_t whole, int from, int to, int ranks) {
    return part(whole, (to - from + ranks) % ranks, ranks);
}

/* Blocks of different sizes, one behind the other. */
static void shape_v(struct work *w, size_t whole) {
    int me = w->measure.me, ranks = w->measure.ranks, root = me == 0;
    int exchange = is(w, "all_to_all_v");
    amount sent = 0, received = 0;
    for (int r = 0; r < ranks; r++) {
        w->send_counts[r] = exchange ? part_to(whole, me, r, ranks) : part(whole, r, ranks);
        w->recv_counts[r] = exchange ? part_to(whole, r, me, ranks) : part(whole, r, ranks);
        w->send_places[r] = sent;
        w->recv_places[r] = received;
        sent += w->send_counts[r];
        received += w->recv_counts[r];
    }
    w->block = 0;
    w->sent = is(w, "scatter_v") && !root ? 0 : whole;
    w->received = is(w, "gather_v") && !root ? 0 : whole;
    if (is(w, "all_gather_v") || is(w, "gather_v")) w->sent = part(whole, me, ranks);
    if (is(w, "scatter_v")) w->received = part(whole, me, ranks);
}

static int has_v(const struct work *w) {
    size_t length = strlen(w->collective);
    return length > 2 && !strcmp(w->collective + length - 2, "_v");
}

/* Elements of each buffer on this rank, for the size of the larger one. */
static void shape(struct work *w, size_t bytes) {
    size_t whole = bytes / sizeof(float), ranks = w->measure.ranks;
    int root = w->measure.me == 0;
    size_t block = whole / ranks > 0 ? whole / ranks : 1;
    w->sent = w->received = w->block = whole > 0 ? whole : 1;
    if (has_v(w)) {
        shape_v(w, w->block);
        return;
    }
    if (is(w, "all_gather") || is(w, "gather")) {
        w->sent = w->block = block;
        w->received = is(w, "gather") && !root ? 0 : block * ranks;
    } else if (is(w, "reduce_scatter") || is(w, "scatter")) {
        w->received = w->block = block;
        w->sent = is(w, "scatter") && !root ? 0 : block * ranks;
    } else if (is(w, "all_to_all")) {
        w->block = block;
        w->sent = w->received = block * ranks;
    } else if (is(w, "reduce") && !root) {
        w->received = 0;
    } else if (is(w, "broadcast")) {
        w->sent = 0;
    } else if (is(w, "barrier")) {
        w->sent = w->received = 0;
    }
}

static void prepare(void *of, int call) {
    struct work *w = of;
    int me = w->measure.me;
    if (is(w, "broadcast")) {
        if (me == 0) fill(w->recv, w->received, 0, call);
        return;
    }
    fill(w->send, w->sent, me, call);
}

/* Ends the program if this rank has not got what the call `call` must give. */
static void check(struct work *w, int call) {
    int me = w->measure.me, ranks = w->measure.ranks;
    size_t wrong = 0;
    if (is(w, "all_reduce") || is(w, "reduce")) {
        wrong = wrong_sums(w->recv, w->received, ranks, 0, call);
    } else if (is(w, "reduce_scatter")) {
        wrong = wrong_sums(w->recv, w->received, ranks, me * w->block, call);
    } else if (is(w, "broadcast")) {
        wrong = wrong_copies(w->recv, w->received, 0, 0, call);
    } else if (is(w, "scatter")) {
        wrong = wrong_copies(w->recv, w->received, 0, me * w->block, call);
    } else if (is(w, "scatter_v")) {
        wrong = wrong_copies(w->recv, w->received, 0, w->send_places[me], call);
    } else if (has_v(w) && w->received > 0) {
        for (int r = 0; r < ranks; r++) {
            size_t first = 0;
            for (int to = 0; is(w, "all_to_all_v") && to < me; to++)
                first += part_to(w->received, r, to, ranks);
            wrong += wrong_copies(w->recv + w->recv_places[r], w->recv_counts[r], r, first, call);
        }
    } else if (is(w, "sendrecv")) {
        wrong = wrong_copies(w->recv, w->received, (me + ranks - 1) % ranks, 0, call);
    } else if (w->received > 0) {
        size_t first = is(w, "all_to_all") ? me * w->block : 0;
        for (int r = 0; r < ranks; r++)
            wrong += wrong_copies(w->recv + r * w->block, w->block, r, first, call);
    }
    if (wrong == 0) return;
    fprintf(stderr, "wrong: rank %d of %d, %s of %zu floats a block, call %d: %zu elements\n", me,
            ranks, w->collective, w->block, call, wrong);
    fail("the results are wrong");
}

/* One call whose results are looked at. */
static void checked(struct work *w, step *function, int call) {
    struct measure *m = &w->measure;
    prepare(w, call);
    /* The buffer of a broadcast is the source on the root. */
    if (!(is(w, "broadcast") && m->me == 0)) poison(w->recv, w->received);
    gate(m);
    if (is(w, "barrier")) usleep(1000 * (m->me % 2));
    atomic_store(&m->board->came[m->me].value, call + 1);
    function(w, call);
    for (int r = 0; is(w, "barrier") && r < m->ranks; r++)
        if (atomic_load(&m->board->came[r].value) < (uint64_t)call + 1)
            fail("wrong: a barrier let a rank pass before another had come");
    check(w, call);
    gate(m);
}

static void one_size(struct work *w, size_t bytes, int mapped, double milliseconds, int fewest) {
    step *function = function_of(w->collective);
    int calls, next;
    shape(w, bytes);
    /* No buffer is empty, so that none is NULL. */
    w->send = library_memory((w->sent + 1) * sizeof(float), mapped);
    w->recv = library_memory((w->received + 1) * sizeof(float), mapped);
    if (!w->send || !w->recv) fail("no memory");
    atomic_store(&w->measure.board->came[w->measure.me].value, 0);
    gate(&w->measure);
    checked(w, function, 0);
    next = measured(&w->measure, 1, milliseconds, fewest, prepare, function, w, &calls);
    check(w, next - 1);
    checked(w, function, next);
    report(&w->measure, w->collective, bytes, calls);
    library_free(w->send, mapped);
    library_free(w->recv, mapped);
}

/* The place of this process among those of the machine, before the library says so. */
static int local_rank(void) {
    static const char *const NAMES[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                                        "PMI_RANK"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (getenv(NAMES[i])) return atoi(getenv(NAMES[i]));
    fail("the launcher does not say which rank this is");
    return 0;
}

int main(int argc, char **argv) {
    static struct work w;
    struct board *board;
    int me, ranks, mapped, pinned;
    if (argc < 8) return 2;
    mapped = !strcmp(argv[2], "mapped");
    pinned = !strcmp(argv[3], "pinned");
    /* Before the library begins, so that it sees what it has, and its threads have it too. */
    if (pinned) pin(local_rank());
    library_begin(&argc, &argv, &me, &ranks);
    board = board_of(argv[1]);
    measure_begin(&w.measure, board, me, ranks, !pinned);
    for (int i = 6; i < argc; i++) {
        if (argv[i][0] < '0' || argv[i][0] > '9')
            w.collective = argv[i];
        else
            one_size(&w, strtoull(argv[i], NULL, 10), mapped, atof(argv[4]), atoi(argv[5]));
    }
    library_end();
    return 0;
}
