/* Communicators that are begun without blocking: used when they are ready, ended in every phase
 * before. The setting fault_hold keeps one rank in a phase, so that the others wait there. */
#include "check.h"
#include <dirent.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ELEMENTS = 700, MANY = 200, READY = 60, PROCESSES = 3 };

static const char *const PHASES[] = {"meeting",  "comparing",  "agreeing", "sharing",
                                     "reaching", "connecting", "binding",  "ending"};
enum { PHASE_COUNT = sizeof PHASES / sizeof *PHASES, MEETING = 0, NONE = -1 };

static void rest(void) { usleep(500); }

/* Begins a rank, which stays in the phase `held` if there is one. */
static koloResult_t begin(koloComm_t *comm, int nranks, koloUniqueId id, int rank, int held) {
    char hold[64];
    const char *settings[] = {hold, NULL};
    koloConfig_t config = KOLO_CONFIG_INITIALIZER;
    config.blocking = 0;
    snprintf(hold, sizeof hold, "fault_hold=%s", held == NONE ? "none" : PHASES[held]);
    config.settings = settings;
    *comm = (koloComm_t)8;
    return koloCommInitRankConfig(comm, nranks, id, rank, &config);
}

static koloComm_t begun(int nranks, koloUniqueId id, int rank, int held) {
    koloComm_t comm;
    CHECK(begin(&comm, nranks, id, rank, held) == koloInProgress && comm != NULL);
    return comm;
}

static koloResult_t state(koloComm_t comm) {
    koloResult_t state = koloTimeout;
    OK(koloCommGetAsyncError(comm, &state));
    return state;
}

/* What the start of `comm` comes to. */
static koloResult_t outcome(koloComm_t comm) {
    koloResult_t now;
    while ((now = state(comm)) == koloInProgress) rest();
    return now;
}

/* The phase of the start of `comm`, as the sentence of a call that came too early tells. */
static int phase_of(koloComm_t comm) {
    char words[64];
    CHECK(koloBarrier(comm, NULL) == koloInvalidUsage);
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        snprintf(words, sizeof words, "phase `%s`", PHASES[phase]);
        if (strstr(koloGetLastError(comm), words)) return phase;
    }
    fail_at(__FILE__, __LINE__, "no phase", koloGetLastError(comm));
    return -1;
}

/* Waits until the start of `comm` has come to this phase. A rank that is not held may go on to the
 * next one that has something to wait for. */
static void until_in(koloComm_t comm, int phase) {
    while (phase_of(comm) < phase) rest();
}

/* The sentence of `comm` has these words. */
static void says(koloComm_t comm, const char *words) {
    const char *sentence = koloGetLastError(comm);
    if (!strstr(sentence, words)) fail_at(__FILE__, __LINE__, words, sentence);
}

static int64_t value(int rank, int element, int round) {
    return 1000003 * (int64_t)(rank + 1) + 7 * element + 11 * round;
}

static int64_t sum_of(int nranks, int element, int round) {
    int64_t sum = 0;
    for (int rank = 0; rank < nranks; rank++) sum += value(rank, element, round);
    return sum;
}

/* All ranks are of this thread. */
static void use(koloComm_t *comms, int nranks) {
    static int64_t in[4][ELEMENTS], out[4][ELEMENTS];
    for (int round = 0; round < 3; round++) {
        memset(out, 0xa5, sizeof out);
        OK(koloGroupStart());
        for (int rank = 0; rank < nranks; rank++) {
            for (int i = 0; i < ELEMENTS; i++) in[rank][i] = value(rank, i, round);
            OK(koloAllReduce(in[rank], out[rank], ELEMENTS, koloInt64, koloSum, comms[rank], NULL));
        }
        OK(koloGroupEnd());
        for (int rank = 0; rank < nranks; rank++)
            for (int i = 0; i < ELEMENTS; i++) CHECK(out[rank][i] == sum_of(nranks, i, round));
    }
}

/* One thread begins all ranks, the last one when the others have waited. */
static void begun_and_used(void) {
    koloComm_t comms[4];
    koloUniqueId id;
    int64_t mine = 1, sum = -7;
    int rank = -1, count = -1;
    OK(koloGetUniqueId(&id));
    for (int r = 0; r < 3; r++) comms[r] = begun(4, id, r, NONE);
    /* They wait, however often they are asked. */
    for (int i = 0; i < 100; i++) {
        usleep(2000);
        for (int r = 0; r < 3; r++) CHECK(state(comms[r]) == koloInProgress);
    }
    until_in(comms[1], MEETING);
    OK(koloCommUserRank(comms[1], &rank));
    OK(koloCommCount(comms[1], &count));
    CHECK(rank == 1 && count == 4);
    FAILS(koloInvalidUsage, "still being made",
          koloAllReduce(&mine, &sum, 1, koloInt64, koloSum, comms[1], NULL));
    FAILS(koloInvalidUsage, "koloCommGetAsyncError", koloCommFinalize(comms[1]));
    CHECK(sum == -7 && state(comms[1]) == koloInProgress);
    comms[3] = begun(4, id, 3, NONE);
    for (int r = 0; r < 4; r++) CHECK(outcome(comms[r]) == koloSuccess);
    use(comms, 4);
    for (int r = 0; r < 4; r++) OK(koloCommDestroy(comms[r]));
    FAILS(koloInvalidArgument, "", koloCommGetAsyncError(comms[0], &(koloResult_t){0}));
}

/* A group begins all of its communicators when it ends, beside one that blocks. */
static void begun_in_a_group(void) {
    koloComm_t comms[4];
    koloUniqueId id;
    OK(koloGetUniqueId(&id));
    OK(koloGroupStart());
    OK(begin(&comms[0], 4, id, 0, NONE));
    OK(koloGroupStart());
    OK(begin(&comms[1], 4, id, 1, NONE));
    OK(koloGroupEnd());
    OK(koloCommInitRank(&comms[2], 4, id, 2));
    OK(begin(&comms[3], 4, id, 3, NONE));
    for (int r = 0; r < 4; r++) CHECK(comms[r] == NULL);
    CHECK(koloGroupEnd() == koloInProgress);
    for (int r = 0; r < 4; r++) CHECK(comms[r] && outcome(comms[r]) == koloSuccess);
    use(comms, 4);
    for (int r = 0; r < 4; r++) OK(koloCommDestroy(comms[r]));
}

/* The end of a group fails, because of one that blocks: the others have begun, and are aborted. */
static void begun_in_a_group_that_fails(void) {
    const char *const settings[] = {"no_such_setting=1", NULL};
    koloConfig_t config = KOLO_CONFIG_INITIALIZER;
    koloComm_t waiting, bad;
    koloUniqueId ids[2];
    for (int i = 0; i < 2; i++) OK(koloGetUniqueId(&ids[i]));
    config.settings = settings;
    OK(koloGroupStart());
    OK(begin(&waiting, 2, ids[0], 0, NONE));
    OK(koloCommInitRankConfig(&bad, 1, ids[1], 0, &config));
    CHECK(koloGroupEnd() == koloInvalidArgument);
    CHECK(bad == NULL && waiting != NULL && state(waiting) == koloInProgress);
    OK(koloCommAbort(waiting));
}

/* A wrong argument is an error of the start, on all ranks. */
static void wrong_settings(void) {
    const char *const settings[] = {"no_such_setting=1", NULL};
    koloConfig_t config = KOLO_CONFIG_INITIALIZER;
    koloComm_t good, bad, parts;
    koloUniqueId id;
    OK(koloGetUniqueId(&id));
    config.blocking = 0;
    config.settings = settings;
    CHECK(koloCommInitRankConfig(&bad, 2, id, 1, &config) == koloInProgress);
    good = begun(2, id, 0, NONE);
    CHECK(outcome(good) == koloRemoteError);
    says(good, "rank 1 on ");
    says(good, "no_such_setting");
    says(good, "phase `comparing`");
    while (koloBarrier(bad, NULL) == koloInvalidUsage) rest();
    says(bad, "CommInitRank: the calling program: unknown option");
    CHECK(state(bad) == koloInvalidArgument);
    OK(koloCommDestroy(bad));
    OK(koloCommDestroy(good));
    /* One that asks for neither has not begun, and waits for nobody. */
    config.settings = NULL;
    config.blocking = 2;
    FAILS(koloInvalidArgument, "blocking = 2", koloCommInitRankConfig(&bad, 2, id, 1, &config));
    CHECK(bad == NULL);
    /* A split says that it blocks. */
    config.blocking = 0;
    OK(koloCommInitAll(&good, 1, NULL));
    FAILS(koloInvalidArgument, "blocks", koloCommSplit(good, 0, 0, &parts, &config));
    OK(koloCommDestroy(good));
}

/* Rank 1 of 3 is held in a phase. One is given up there: that one, or another that waits for it.
 * The others hear who it was. One that is given up before it was heard of is nobody's news. */
static void ended_in(int phase, int who, koloResult_t end(koloComm_t), const char *call) {
    koloComm_t comms[3];
    koloUniqueId id;
    char words[128];
    OK(koloGetUniqueId(&id));
    for (int r = 0; r < 3; r++) comms[r] = begun(3, id, r, r == 1 ? phase : NONE);
    until_in(comms[1], phase);
    if (who != 1) until_in(comms[who], phase);
    OK(end(comms[who]));
    FAILS(koloInvalidArgument, "", koloCommAbort(comms[who]));
    snprintf(words, sizeof words, "rank %d %s while it started, in phase `%s`", who, call,
             who == 1 ? PHASES[phase] : "");
    if (who != 1) words[strlen(words) - 1] = 0;
    for (int r = 0; r < 3; r++) {
        if (r == who) continue;
        if (phase != MEETING && r != 1) {
            CHECK(outcome(comms[r]) == koloRemoteError);
            says(comms[r], words);
        } else {
            koloResult_t now = state(comms[r]);
            CHECK(now == koloInProgress || now == koloRemoteError);
        }
        OK(end(comms[r]));
    }
}

static int entries(const char *folder) {
    DIR *open = opendir(folder);
    int count = 0;
    CHECK(open != NULL);
    while (readdir(open)) count++;
    closedir(open);
    return count;
}

/* Mappings, of kolo's files or of anything. */
static int mappings(const char *of) {
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    int count = 0;
    CHECK(maps != NULL);
    while (fgets(line, sizeof line, maps)) count += strstr(line, of) != NULL;
    fclose(maps);
    return count;
}

typedef struct {
    int threads, descriptors, files, mappings;
} held;

static held holds(void) {
    return (held){entries("/proc/self/task"), entries("/proc/self/fd"), mappings("memfd:kolo"),
                  mappings("")};
}

/* What is held when nothing has changed for a while. */
static held calm(void) {
    held before = holds(), now;
    for (int same = 0; same < 400; same++) {
        rest();
        now = holds();
        if (now.threads != before.threads || now.descriptors != before.descriptors) same = 0;
        before = now;
    }
    return before;
}

/* The thread that calls the roll lets go of its sockets a moment after the ranks: waits until no
 * more is left than `before`. */
static held settled(held before) {
    held now = holds();
    for (int look = 0; look < 20000; look++) {
        if (now.threads <= before.threads && now.descriptors <= before.descriptors) break;
        rest();
        now = holds();
    }
    return now;
}

/* Communicators of which one rank each is held, in all phases by turns, and the other waits. */
static void many_begun_and_ended(int count) {
    static koloComm_t comms[MANY][2];
    koloUniqueId id;
    for (int c = 0; c < count; c++) {
        OK(koloGetUniqueId(&id));
        comms[c][0] = begun(2, id, 0, NONE);
        comms[c][1] = begun(2, id, 1, c % PHASE_COUNT);
    }
    for (int c = 0; c < count; c++) until_in(comms[c][1], c % PHASE_COUNT);
    for (int c = 0; c < count; c++) {
        int first = c / PHASE_COUNT % 2;
        OK(koloCommAbort(comms[c][first]));
        (void)koloCommDestroy(comms[c][!first]);
    }
}

static void nothing_is_left(void) {
    held first, second;
    many_begun_and_ended(PHASE_COUNT);
    first = calm();
    for (int round = 0; round < 2; round++) {
        many_begun_and_ended(MANY);
        second = settled(first);
        if (second.threads > first.threads || second.descriptors > first.descriptors ||
            second.files > first.files) {
            char more[256];
            snprintf(more, sizeof more, "threads %d to %d, descriptors %d to %d, files %d to %d",
                     first.threads, second.threads, first.descriptors, second.descriptors,
                     first.files, second.files);
            fail_at(__FILE__, __LINE__, "nothing is left", more);
        }
        /* The C library keeps the stacks of some threads and its arenas: all of them are there
         * after the first round. */
        if (round == 1) CHECK(second.mappings < first.mappings + MANY / 2);
        first.mappings = second.mappings;
    }
}

/* Pairs of ranks of this thread, begun with blocking or without, and what is held when all of them
 * are ready. */
static held held_by_ready(int blocking) {
    static koloComm_t comms[READY][2];
    koloUniqueId id;
    held all;
    for (int c = 0; c < READY; c++) {
        OK(koloGetUniqueId(&id));
        OK(koloGroupStart());
        for (int r = 0; r < 2; r++) {
            if (blocking)
                OK(koloCommInitRank(&comms[c][r], 2, id, r));
            else
                OK(begin(&comms[c][r], 2, id, r, NONE));
        }
        CHECK(koloGroupEnd() == (blocking ? koloSuccess : koloInProgress));
        for (int r = 0; r < 2; r++) CHECK(outcome(comms[c][r]) == koloSuccess);
    }
    all = calm();
    for (int c = 0; c < READY; c++)
        for (int r = 0; r < 2; r++) OK(koloCommDestroy(comms[c][r]));
    (void)calm();
    return all;
}

/* A ready communicator holds what one holds that was waited for. */
static void ready_ones_hold_no_more(void) {
    held blocking, begun;
    char more[256];
    /* Memory that the C library keeps is there after the first ones. */
    (void)held_by_ready(0);
    blocking = held_by_ready(1);
    begun = held_by_ready(0);
    snprintf(more, sizeof more, "threads %d, then %d, descriptors %d, %d, mappings %d, %d",
             blocking.threads, begun.threads, blocking.descriptors, begun.descriptors,
             blocking.mappings, begun.mappings);
    if (begun.threads != blocking.threads || begun.descriptors != blocking.descriptors ||
        begun.mappings > blocking.mappings + READY)
        fail_at(__FILE__, __LINE__, "ready ones hold no more", more);
}

/* What the processes share. */
static struct {
    _Atomic int there;
    koloUniqueId ids[2 * PHASE_COUNT + 1];
} *board;

static void barrier(int step) {
    atomic_fetch_add(&board->there, 1);
    while (atomic_load(&board->there) < step * PROCESSES) rest();
}

/* The same where each rank is a process: memory is files, and deaths are told by sockets. */
static void process(int rank) {
    int step = 0;
    held before = {0};
    for (int round = 0; round < 2 * PHASE_COUNT + 1; round++) {
        int phase = round ? (round - 1) / 2 : NONE;
        int who = round % 2 ? 1 : 2;
        koloComm_t comm;
        if (rank == 0) OK(koloGetUniqueId(&board->ids[round]));
        barrier(++step);
        comm = begun(PROCESSES, board->ids[round], rank, rank == 1 ? phase : NONE);
        if (phase == NONE) {
            int64_t in[ELEMENTS], out[ELEMENTS];
            CHECK(outcome(comm) == koloSuccess);
            memset(out, 0xa5, sizeof out);
            for (int i = 0; i < ELEMENTS; i++) in[i] = value(rank, i, 5);
            OK(koloAllReduce(in, out, ELEMENTS, koloInt64, koloSum, comm, NULL));
            for (int i = 0; i < ELEMENTS; i++) CHECK(out[i] == sum_of(PROCESSES, i, 5));
        } else {
            if (rank == 1 || rank == who) until_in(comm, phase);
            barrier(++step);
            if (rank != who && rank != 1 && phase != MEETING) {
                barrier(++step);
                CHECK(outcome(comm) == koloRemoteError);
                says(comm, "while it started");
            } else {
                if (rank == who) {
                    OK(koloCommAbort(comm));
                    comm = NULL;
                }
                barrier(++step);
            }
        }
        if (phase == NONE) OK(koloCommDestroy(comm));
        /* One that nobody has asked may say that another one has failed. */
        else if (comm)
            (void)koloCommDestroy(comm);
        barrier(++step);
        if (round == 2) before = calm();
        if (round > 2) {
            held now = settled(before);
            CHECK(now.threads <= before.threads && now.descriptors <= before.descriptors);
            CHECK(now.files == 0);
        }
    }
}

static void processes(void) {
    pid_t children[PROCESSES];
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(board != MAP_FAILED);
    for (int rank = 0; rank < PROCESSES; rank++) {
        children[rank] = fork();
        CHECK(children[rank] >= 0);
        if (children[rank] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            process(rank);
            _Exit(0);
        }
    }
    for (int rank = 0; rank < PROCESSES; rank++) {
        int status = -1;
        CHECK(waitpid(children[rank], &status, 0) == children[rank] && status == 0);
    }
}

/* A forked child has the handle of a start that only its parent makes. */
static void forked(void) {
    koloUniqueId id;
    koloComm_t comm;
    int status = -1;
    pid_t child;
    OK(koloGetUniqueId(&id));
    comm = begun(2, id, 0, NONE);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        koloResult_t now;
        CHECK(koloCommGetAsyncError(comm, &now) == koloSuccess && now == koloInvalidUsage);
        CHECK(koloBarrier(comm, NULL) == koloInvalidUsage);
        CHECK(koloCommDestroy(comm) == koloSuccess);
        _Exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(state(comm) == koloInProgress);
    OK(koloCommAbort(comm));
}

int main(void) {
    /* What is expected to fail need not be told. */
    setenv("KOLO_DEBUG", "none", 1);
    processes();
    begun_and_used();
    begun_in_a_group();
    begun_in_a_group_that_fails();
    wrong_settings();
    ready_ones_hold_no_more();
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        ended_in(phase, 1, koloCommAbort, "called CommAbort");
        ended_in(phase, 2, koloCommDestroy, "called CommDestroy");
    }
    forked();
    nothing_is_left();
    puts("begun: ok");
    return 0;
}
