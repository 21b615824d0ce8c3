/*
 * Preloaded behind libkolo_pmpi.so, spoils results of kolo on one rank: SPOIL_RANK of the world, in
 * the function SPOIL. By SPOIL_BY the first float of a sum is changed by so much of itself; without
 * it all bits of the first element change. At the end the rank tells how many calls it has spoiled.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void *comm;
static int spoiled;

static void *real(const char *name)
{
    void *library = dlopen("libkolo.so.0", RTLD_LAZY | RTLD_NOLOAD);
    void *found = library ? dlsym(library, name) : NULL;
    if (!found) abort();
    return found;
}

static int wanted(const char *name)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    if (!rank) rank = getenv("PMI_RANK");
    return !strcmp(getenv("SPOIL"), name) && rank && !strcmp(getenv("SPOIL_RANK"), rank);
}

static __attribute__((destructor)) void end(void)
{
    if (spoiled) fprintf(stderr, "spoiled %d\n", spoiled);
}

static void spoil(void *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) ((unsigned char *)at)[i] ^= 0x41;
    spoiled++;
}

/* Bytes of an element, by koloDataType_t. */
static size_t element(int type)
{
    switch (type) {
    case 0: case 1: return 1;
    case 6: return 2;
    case 2: case 3: case 7: return 4;
    case 17: case 33: case 35: case 37: return 16;
    default: return 8;
    }
}

int koloAllReduce(const void *send, void *recv, size_t count, int type, int op, comm c, void *s)
{
    int (*call)(const void *, void *, size_t, int, int, comm, void *);
    *(void **)&call = real("koloAllReduce");
    const int code = call(send, recv, count, type, op, c, s);
    if (!wanted("koloAllReduce") || !count) return code;
    const char *by = getenv("SPOIL_BY");
    if (!by) spoil(recv, element(type));
    else if (op == 0 && type == 8) *(double *)recv *= 1 + atof(by), spoiled++;
    else if (op == 0 && type == 7) *(float *)recv *= (float)(1 + atof(by)), spoiled++;
    return code;
}

int koloAllGather(const void *send, void *recv, size_t count, int type, comm c, void *s)
{
    int (*call)(const void *, void *, size_t, int, comm, void *);
    *(void **)&call = real("koloAllGather");
    const int code = call(send, recv, count, type, c, s);
    if (wanted("koloAllGather") && count) spoil(recv, 1);
    return code;
}

int koloBcast(void *buffer, size_t count, int type, int root, comm c, void *s)
{
    int (*call)(void *, size_t, int, int, comm, void *), (*rank_of)(comm, int *), rank;
    *(void **)&call = real("koloBcast");
    *(void **)&rank_of = real("koloCommUserRank");
    const int code = call(buffer, count, type, root, c, s);
    rank_of(c, &rank);
    /* What the root has packed is nobody's result. */
    if (wanted("koloBcast") && count && rank != root) spoil(buffer, 1);
    return code;
}

int koloAllToAllV(const void *send, const size_t *send_bytes, const size_t *from, void *recv,
                  const size_t *bytes, const size_t *to, int type, comm c, void *s)
{
    int (*call)(const void *, const size_t *, const size_t *, void *, const size_t *,
                const size_t *, int, comm, void *), (*count_of)(comm, int *), count;
    *(void **)&call = real("koloAllToAllV");
    *(void **)&count_of = real("koloCommCount");
    const int code = call(send, send_bytes, from, recv, bytes, to, type, c, s);
    count_of(c, &count);
    if (!wanted("koloAllToAllV")) return code;
    for (int i = 0; i < count; i++) {
        if (!bytes[i]) continue;
        spoil((char *)recv + to[i], 1);
        break;
    }
    return code;
}
