/* One rank of a chaos run: `chaos-rank FOLDER RANK`, where RANK is "mpi" under mpirun. It runs the
   calls of FOLDER/script over and over until FOLDER/board says that it is enough, and checks every
   element. What became of it is the first word of FOLDER/rank.N: right, error (with the sentence),
   or wrong. script.h has the calls, board.h what the driver sees meanwhile. */
#include "board.h"
#include "script.h"
#include <errno.h>
#include <unistd.h>
#ifdef CHAOS_MPI
#include <kolo_mpi.h>
#endif

static char folder[1024];
static struct board *board;
static struct place *place;      /* this rank's on the board */
static int rank;
static struct group world, part;

/* What became of this rank. Only the first word counts: later ones are consequences. */
static void tell(enum state state, const char *word, const char *what) {
    char path[1200];
    if (place->state >= RIGHT) return;
    snprintf(path, sizeof path, "%s/rank.%d", folder, rank);
    FILE *f = fopen(path, "w");
    if (f) {
        fprintf(f, "%s %s\n", word, what);
        fclose(f);
    }
    place->state = state;
}

/* An MPI may end the whole job when one process has left: so none leaves before all have told. */
static void wait_for_the_others(void) {
    for (int tenth = 0; tenth < 300 && board->mpi && !board->bye; tenth++) usleep(100000);
}

static void go(int status) {
    wait_for_the_others();
    if (!board->mpi) exit(status);
    fflush(NULL);
    _exit(status);      /* MPI_Finalize might wait for the dead */
}

/* The communicator beside this one, or NULL. */
static koloComm_t other(koloComm_t comm) { return comm == part.comm ? world.comm : part.comm; }

/* Ends the communicator that has failed, and then the other one. */
static void end_all_of(koloComm_t failed) {
    koloComm_t both[] = {failed, other(failed)};
    for (int i = 0; i < 2; i++) {
        if (both[i] && board->aborts) koloCommAbort(both[i]);
        if (both[i] && !board->aborts) koloCommDestroy(both[i]);
    }
}

/* `where`: "part" if the sentence counts the ranks of the part, "world" otherwise. */
static void failed(koloComm_t comm, koloResult_t code, const char *call, const char *where) {
    char text[4096];
    snprintf(text, sizeof text, "%s %d in %s, call %lu: %s", where, code, call,
             (unsigned long)place->calls, koloGetLastError(comm));
    tell(FAILED, "error", text);
    end_all_of(comm);
    go(1);
}

static void wrong(const char *what) {
    char text[600];
    snprintf(text, sizeof text, "in call %lu: %s", (unsigned long)place->calls, what);
    tell(WRONG, "wrong", text);
    go(4);
}

/* What the round wants of this rank at this call, if anything: ways to leave that only the program
   itself can take. */
static void play_part(koloComm_t comm) {
    if (board->actor != rank || place->calls < board->actor_call) return;
    switch (board->act) {
    case ACT_ABORT:
        tell(ACTED, "acted", "abort");
        koloCommAbort(comm);
        /* A process that MPI keeps does not end its other communicator by ending. */
        if (board->mpi && other(comm)) koloCommAbort(other(comm));
        go(0);
        break;
    case ACT_EXIT:
        tell(ACTED, "acted", "exit");
        exit(3);
    case ACT_QUIT:
        tell(ACTED, "acted", "quit");
        _exit(3);
    case ACT_LEAVE:
        tell(ACTED, "acted", "leave");
        koloCommDestroy(comm);
        if (board->mpi && other(comm)) koloCommDestroy(other(comm));
        go(0);
        break;
    default:
        break;
    }
}

static void must(koloComm_t comm, koloResult_t code, const char *call) {
    if (code != koloSuccess) failed(comm, code, call, "world");
}

static koloComm_t start(const char *number) {
    koloComm_t comm = NULL;
#ifdef CHAOS_MPI
    (void)number;
    int given;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &given);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    place = &board->places[rank];
    place->pid = getpid();
    must(NULL, koloCommInitMPI(&comm, MPI_COMM_WORLD), "koloCommInitMPI");
#else
    rank = atoi(number);
    place = &board->places[rank];
    place->pid = getpid();
    must(NULL, koloCommInitEnv(&comm), "koloCommInitEnv");
#endif
    int given_rank = -1;
    must(comm, koloCommUserRank(comm, &given_rank), "koloCommUserRank");
    if (given_rank != rank) wrong("kolo has given this process another rank");
    return comm;
}

/* The ranks of the world with this rank's color: a communicator of its own, if the script wants. */
static void split(int colors) {
    int color = world.me % colors;
    must(world.comm, koloCommSplit(world.comm, color, world.me, &part.comm, NULL),
         "koloCommSplit");
    for (int r = color; r < world.n; r += colors) {
        if (r == world.me) part.me = part.n;
        part.members[part.n++] = r;
    }
}

/* Whether all have seen that it is enough. Everybody waits for everybody here, so that nobody goes
   on without a rank that is gone. */
static int enough(koloComm_t comm) {
    int mine = (int)board->finish, all = 77;
    place->calls++;
    play_part(comm);
    must(comm, koloAllReduce(&mine, &all, 1, koloInt32, koloMax, comm, NULL), "koloAllReduce");
    if (all != 0 && all != 1) wrong("the sum that ends a loop is neither 0 nor 1");
    return all;
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    snprintf(folder, sizeof folder, "%s", argv[1]);
    static struct script script;
    if (!(board = open_board(folder)) || !read_script(&script, folder)) return 2;
    world.comm = start(argv[2]);
    must(world.comm, koloCommCount(world.comm, &world.n), "koloCommCount");
    world.me = rank;
    for (int r = 0; r < world.n; r++) world.members[r] = r;
    if (script.colors) split(script.colors);
    struct buffers buffers;
    if (!make_buffers(&buffers, &script, world.n)) return 2;
    must(world.comm, koloBarrier(world.comm, NULL), "koloBarrier");
    place->state = TOGETHER;
    do {
        for (int i = 0; i < script.count; i++) {
            const struct call *call = &script.calls[i];
            struct group *group = call->on_part ? &part : &world;
            place->line = (unsigned)i;
            place->calls++;
            play_part(world.comm);
            const char *bad = NULL;
            koloResult_t code = perform(call, group, &buffers, place->loops, &bad);
            if (code != koloSuccess)
                failed(group->comm, code, call->name, call->on_part ? "part" : "world");
            if (bad) wrong(bad);
        }
        place->loops++;
    } while (!enough(world.comm));
    if (part.comm) must(part.comm, koloCommDestroy(part.comm), "koloCommDestroy");
    koloResult_t code = koloCommDestroy(world.comm);
    must(NULL, code, "koloCommDestroy");
    tell(RIGHT, "right", "");
    free_buffers(&buffers);
    wait_for_the_others();
#ifdef CHAOS_MPI
    /* Debian's MPICH does not always return from it (docs/launch.md). */
    if (board->mpi == MPI_THAT_ENDS) MPI_Finalize();
#endif
    go(0);
}
