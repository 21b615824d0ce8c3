/* What the ABI tests share: expectations that name the line, and ranks as threads. */
#ifndef KOLO_TEST_CHECK_H
#define KOLO_TEST_CHECK_H

#include <kolo.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void fail_at(const char *file, int line, const char *text, const char *more) {
    fprintf(stderr, "%s:%d: %s\n  %s\n", file, line, text, more);
    fflush(stderr);
    _Exit(1);
}

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) fail_at(__FILE__, __LINE__, #condition, "does not hold");                \
    } while (0)

/* The call succeeds. */
#define OK(call)                                                                                   \
    do {                                                                                           \
        koloResult_t ok_code = (call);                                                             \
        if (ok_code != koloSuccess)                                                                \
            fail_at(__FILE__, __LINE__, #call, koloGetLastError(NULL));                            \
    } while (0)

/* The call fails with this code, and the sentence names the call, a remedy and `word`. */
#define FAILS(code, word, call) fails_at(__FILE__, __LINE__, #call, code, word, (call))

static inline void fails_at(const char *file, int line, const char *call, koloResult_t expected,
                            const char *word, koloResult_t code) {
    const char *text = koloGetLastError(NULL);
    char name[9] = "";
    if (code != expected) {
        char more[2048];
        snprintf(more, sizeof more, "gave %d (%s), not %d; last error: %s", (int)code,
                 koloGetErrorString(code), (int)expected, text);
        fail_at(file, line, call, more);
    }
    /* The first letters are enough: libkolo says CommInit for all ways to initialise, and
     * Broadcast for Bcast. */
    sscanf(call, "kolo%8[A-Za-z]", name);
    if (strcmp(name, "Bcast") == 0) strcpy(name, "cast");
    if (strncmp(text, "kolo: ", 6) != 0 || strstr(text, name) == NULL ||
        strstr(text, "Remedy: ") == NULL || strstr(text, word) == NULL) {
        char more[2048];
        snprintf(more, sizeof more, "wants '%s', '%s' and a remedy in: %s", name, word, text);
        fail_at(file, line, call, more);
    }
}

/* One rank of a test. */
typedef struct {
    int rank, nranks;
    koloUniqueId id;
    void (*body)(int rank, int nranks, koloComm_t comm);
} rank_arguments;

static inline void *rank_main(void *pointer) {
    rank_arguments *my = pointer;
    koloComm_t comm = NULL;
    int rank = -1, count = -1;
    OK(koloCommInitRank(&comm, my->nranks, my->id, my->rank));
    OK(koloCommUserRank(comm, &rank));
    OK(koloCommCount(comm, &count));
    CHECK(rank == my->rank && count == my->nranks);
    my->body(rank, count, comm);
    OK(koloCommFinalize(comm));
    OK(koloCommDestroy(comm));
    return NULL;
}

/* Runs `body` on `nranks` ranks, each a thread with a communicator made by CommInitRank. */
static inline void on_ranks(int nranks, void (*body)(int, int, koloComm_t)) {
    pthread_t threads[16];
    rank_arguments arguments[16];
    koloUniqueId id;
    CHECK(nranks <= 16);
    OK(koloGetUniqueId(&id));
    for (int rank = 0; rank < nranks; rank++) {
        arguments[rank] = (rank_arguments){rank, nranks, id, body};
        CHECK(pthread_create(&threads[rank], NULL, rank_main, &arguments[rank]) == 0);
    }
    for (int rank = 0; rank < nranks; rank++) CHECK(pthread_join(threads[rank], NULL) == 0);
}

#endif
