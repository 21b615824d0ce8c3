/* The calls of a round: read from a file, performed, checked. Every element is a small integer that
   follows from rank, place, call and loop, so that all results are exact in all types. */
#ifndef SCRIPT_H
#define SCRIPT_H
#include "elements.h"
#include <kolo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CALLS = 16, GUARD = 64, MOST_MEMBERS = 16 };

/* A line of the script: NAME TYPE OP COUNT ROOT FLAGS, where the flags are letters: i in place,
   s on a stream, r as a request, m in memory of koloMemAlloc, p on the part, - none. */
struct call {
    char name[32], flags[16];
    int type, op, root, number, on_part;
    size_t count;
};

struct script {
    int count, colors;
    struct call calls[MOST_CALLS];
};

struct group {
    koloComm_t comm;
    int n, me, members[MOST_MEMBERS];
};

/* Room for the largest call, in memory of the program and of kolo; the last bytes on each side are
   never a call's. */
struct buffers {
    size_t bytes;
    unsigned char *send[2], *recv[2];
    koloStream_t stream;
};

static int has(const struct call *call, char flag) { return strchr(call->flags, flag) != NULL; }

static int read_script(struct script *script, const char *folder) {
    char path[1200], line[256];
    snprintf(path, sizeof path, "%s/script", folder);
    FILE *f = fopen(path, "r");
    if (!f || !fgets(line, sizeof line, f) || sscanf(line, "split %d", &script->colors) != 1)
        return 0;
    while (script->count < MOST_CALLS && fgets(line, sizeof line, f)) {
        struct call *call = &script->calls[script->count];
        if (sscanf(line, "%31s %d %d %zu %d %15s", call->name, &call->type, &call->op,
                   &call->count, &call->root, call->flags) != 6)
            return 0;
        call->on_part = has(call, 'p');
        call->number = script->count++;
    }
    fclose(f);
    return script->count > 0;
}

static int make_buffers(struct buffers *b, const struct script *script, int n) {
    size_t most = 0;
    for (int i = 0; i < script->count; i++) {
        size_t bytes = script->calls[i].count * width(script->calls[i].type);
        most = bytes > most ? bytes : most;
    }
    b->bytes = 2 * GUARD + most * (size_t)(n + 2);
    for (int kind = 0; kind < 2; kind++) {
        unsigned char **both[] = {&b->send[kind], &b->recv[kind]};
        for (int i = 0; i < 2; i++) {
            void *at = malloc(b->bytes);
            if (kind) {
                free(at);
                if (koloMemAlloc(&at, b->bytes) != koloSuccess) return 0;
            }
            if (!at) return 0;
            *both[i] = at;
        }
    }
    return koloStreamCreate(&b->stream) == koloSuccess;
}

static void free_buffers(struct buffers *b) {
    KOLO_IGNORE(koloStreamDestroy(b->stream));
    for (int kind = 0; kind < 2; kind++) {
        unsigned char *both[] = {b->send[kind], b->recv[kind]};
        for (int i = 0; i < 2; i++) {
            if (kind) koloMemFree(both[i]);
            else free(both[i]);
        }
    }
}

/* How many elements rank `from` has for rank `to` in calls whose sizes differ: up to `count`. */
static size_t part_of(size_t count, int from, int to) {
    return count - count * (size_t)((from * 5 + to * 3) % 4) / 4;
}

#include "perform.h"
#endif
