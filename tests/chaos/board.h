/* What the driver and the ranks of a round see of each other: a file that all map. board.py has the
   same layout. Plain words, one writer each; the driver looks every millisecond. */
#ifndef BOARD_H
#define BOARD_H
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MOST_RANKS = 16 };
enum state { NOT_YET, TOGETHER, RIGHT, FAILED, WRONG, ACTED };
enum { ACT_NONE, ACT_ABORT, ACT_EXIT, ACT_QUIT, ACT_LEAVE };
enum { NO_MPI, MPI_THAT_ENDS, MPI_THAT_MAY_NOT_END };

struct place {
    volatile uint64_t calls;        /* begun so far */
    volatile uint32_t pid, state, line, loops;
    char rest[40];
};

struct board {
    volatile uint32_t finish;       /* enough: end after this loop */
    volatile uint32_t bye;          /* all have told what became of them */
    volatile uint32_t mpi;          /* whether mpirun has started the ranks, and which one */
    volatile uint32_t aborts;       /* after an error: CommAbort, not CommDestroy */
    volatile int32_t actor;         /* the rank that plays a part */
    volatile uint32_t act;
    volatile uint64_t actor_call;   /* before which call, or the next that it comes to */
    char rest[32];
    struct place places[MOST_RANKS];
};

_Static_assert(sizeof(struct place) == 64, "board.py knows this size");
_Static_assert(sizeof(struct board) == 64 + 64 * MOST_RANKS, "board.py knows this size");

static struct board *open_board(const char *folder) {
    char path[1200];
    snprintf(path, sizeof path, "%s/board", folder);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return NULL;
    void *at = mmap(NULL, sizeof(struct board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return at == MAP_FAILED ? NULL : at;
}

#endif
