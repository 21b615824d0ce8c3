/*
 * A double of libkolo.so.0: it takes a table as the real library does, exercises every function
 * of it with contents that show a wrong rank, root, order or length, and keeps the table until
 * koloCommDestroy.
 */
#include "kolo.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct koloComm {
    koloMpiTable table;
};

static char last_error[512] = "no error";
static int held;
static int refuse;

static koloResult_t fail(koloResult_t code, const char *words)
{
    snprintf(last_error, sizeof last_error, "%s", words);
    return code;
}

static unsigned char expected(int rank, size_t at)
{
    return (unsigned char)((size_t)rank * 31 + at * 7 + 1);
}

/* Broadcast from every root, all-gather, of lengths that are no multiple of anything. */
static int exercise(const koloMpiTable *t)
{
    static const size_t lengths[] = {1, 8, 129, 70001};
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
        size_t bytes = lengths[k];
        unsigned char *mine = malloc(bytes), *all = malloc(bytes * (size_t)t->nranks);
        for (int root = 0; root < t->nranks; root++) {
            for (size_t i = 0; i < bytes; i++)
                mine[i] = expected(t->rank, i);
            if (t->bcast(t->ctx, mine, bytes, root) != 0)
                return 1;
            for (size_t i = 0; i < bytes; i++)
                if (mine[i] != expected(root, i))
                    return 2;
        }
        for (size_t i = 0; i < bytes; i++)
            mine[i] = expected(t->rank, i);
        if (t->allgather(t->ctx, mine, bytes, all) != 0)
            return 3;
        for (int rank = 0; rank < t->nranks; rank++)
            for (size_t i = 0; i < bytes; i++)
                if (all[(size_t)rank * bytes + i] != expected(rank, i))
                    return 4;
        free(mine);
        free(all);
    }
    if (t->bcast(t->ctx, NULL, 0, 0) != 0 || t->idle(t->ctx) != 0)
        return 5;
    return 0;
}

koloResult_t koloCommInitTable(koloComm_t *newcomm, const koloMpiTable *table)
{
    if (newcomm == NULL || table == NULL)
        return fail(koloInvalidArgument, "null pointer");
    if (table->problem != NULL)
        return fail((koloResult_t)table->problemCode, table->problem);
    if (table->noRank >= 0)
        return fail(koloInvalidArgument, "MPI_PROC_NULL");
    if (table->size != sizeof *table || table->version != 1)
        return fail(koloInvalidArgument, "size or version");
    if (refuse) {
        refuse = 0;
        return fail(koloSystemError, "refused for a test");
    }
    int wrong = exercise(table);
    if (wrong != 0) {
        char words[64];
        snprintf(words, sizeof words, "exercise %d failed", wrong);
        return fail(koloInternalError, words);
    }
    *newcomm = malloc(sizeof **newcomm);
    (*newcomm)->table = *table;
    held++;
    return koloSuccess;
}

koloResult_t koloCommDestroy(koloComm_t comm)
{
    if (comm->table.free(comm->table.ctx) != 0)
        return fail(koloInternalError, "free failed");
    free(comm);
    held--;
    return koloSuccess;
}

const char *koloGetLastError(koloComm_t comm)
{
    (void)comm;
    return last_error;
}

const koloMpiTable *double_table(koloComm_t comm) { return &comm->table; }
int double_held(void) { return held; }
void double_refuse(void) { refuse = 1; }
