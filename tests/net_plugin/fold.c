/*
 * A small network that folds, for tests: the ranks of a group are threads of one process, and meet
 * in its memory. VERSION is 8, 9 or 10.
 *
 * It is as strict as a switch: groups of those whose handles agree, operations that all ranks of a
 * group begin in the same order with the same arguments, memory that was registered on the group.
 * It folds sums and maxima of int32, int64 and double; every third operation says "not now" first.
 *
 *   kolo_test_folds()       operations that all ranks of their group have taken the result of
 *   kolo_test_fold_bytes()  bytes of their contributions
 *   kolo_test_fold_open()   groups and listeners that are open
 *   kolo_test_fold_flying() operations of a member that were begun and have not ended for it
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "interface.h"

#define MAGIC 0x464f4c4453574954
enum { SUM = 0, MAX = 2, INT32 = 2, INT64 = 4, DOUBLE = 8 };

typedef struct {
    const char *name;
    int (*init)(log_fn log);
    int (*devices)(int *ndev);
    int (*getProperties)(int dev, properties *props);
    int (*listen)(int dev, void *handle, void **listenComm);
    int (*connect)(void *handles[], int nranks, int rank, void *listenComm, void **collComm);
    int (*reduceSupport)(int dataType, int redOp, int *supported);
    int (*regMr)(void *collComm, void *data, size_t size, int type, void **mhandle);
    int (*regMrDmaBuf)(void *collComm, void *data, size_t size, int type, uint64_t offset, int fd,
                       void **mhandle);
    int (*deregMr)(void *collComm, void *mhandle);
    int (*iallreduce)(void *collComm, void *sendData, void *recvData, size_type count,
                      int dataType, int redOp, void *sendMhandle, void *recvMhandle,
                      void **request);
    void (*iallgather)(void);
    void (*ireducescatter)(void);
    int (*iflush)(void *collComm, void *data, int size, void *mhandle, void **request);
    int (*test)(void *request, int *done, int *size);
    int (*closeColl)(void *collComm);
    int (*closeListen)(void *listenComm);
#if VERSION >= 9
    int (*makeVDevice)(int *d, devices_of *props);
#endif
} fold_table;

typedef struct {
    uint64_t magic, number;
} handle;

typedef struct {
    uint64_t magic, number;
} door;

/* An operation of a group, from its first contribution until all have the result. */
typedef struct op {
    struct op *next;
    uint64_t number;
    size_t count, bytes;
    int type, how, given, taken;
    char *sum;
} op;

typedef struct group {
    struct group *next;
    uint64_t key;
    int ranks, joined, open;
    op *ops;
} group;

typedef struct {
    uint64_t magic, begun;
    group *of;
    int registered, calls, flying;
} member;

typedef struct {
    member *of;
    op *op;
    void *to;
} request;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t came = PTHREAD_COND_INITIALIZER;
static group *groups;
static uint64_t doors;
static long folds, fold_bytes, open_objects, all_flying;
static log_fn say;

long kolo_test_folds(void) { return __atomic_load_n(&folds, __ATOMIC_SEQ_CST); }
long kolo_test_fold_bytes(void) { return __atomic_load_n(&fold_bytes, __ATOMIC_SEQ_CST); }
long kolo_test_fold_open(void) { return __atomic_load_n(&open_objects, __ATOMIC_SEQ_CST); }
long kolo_test_fold_flying(void) { return __atomic_load_n(&all_flying, __ATOMIC_SEQ_CST); }

#define REFUSE(...) return say(LOG_WARN, 16, __FILE__, __LINE__, __VA_ARGS__), INTERNAL

static int init(log_fn log) {
    say = log;
    return OK;
}

static int devices(int *count) {
    *count = 1;
    return OK;
}

static int get_properties(int device, properties *p) {
    static char name[] = "adder0";
    if (device != 0) return INTERNAL;
    memset(p, 0, sizeof *p);
    p->name = name;
    p->ptrSupport = POINTER_HOST;
    p->speed = 100000;
    p->port = 1;
    p->maxComms = 1000;
    p->maxRecvs = 1;
#if VERSION >= 9
    p->maxCollBytes = (size_t)1 << 30;
#endif
    return OK;
}

static int lay(int device, void *bytes, void **out) {
    door *d = calloc(1, sizeof *d);
    if (device != 0) return INTERNAL;
    pthread_mutex_lock(&lock);
    d->magic = MAGIC;
    d->number = ++doors;
    open_objects++;
    pthread_mutex_unlock(&lock);
    *(handle *)bytes = (handle){MAGIC, d->number};
    *out = d;
    return OK;
}

/* Waits until all are there. */
static int join(void *handles[], int ranks, int rank, void *listen, void **out) {
    door *d = listen;
    handle *first = handles[0], *own = handles[rank];
    member *m = calloc(1, sizeof *m);
    group *g;
    if (d->magic != MAGIC || own->magic != MAGIC || own->number != d->number)
        REFUSE("connect with the handle of somebody else as number %d", rank);
    pthread_mutex_lock(&lock);
    for (g = groups; g && g->key != first->number; g = g->next) {}
    if (g == NULL) {
        g = calloc(1, sizeof *g);
        *g = (group){.next = groups, .key = first->number, .ranks = ranks};
        groups = g;
    }
    if (g->ranks != ranks || g->joined == ranks) {
        pthread_mutex_unlock(&lock);
        REFUSE("connect to a group of %d as one of %d", g->ranks, ranks);
    }
    g->joined++;
    g->open++;
    open_objects++;
    pthread_cond_broadcast(&came);
    while (g->joined < ranks) pthread_cond_wait(&came, &lock);
    pthread_mutex_unlock(&lock);
    m->magic = MAGIC;
    m->of = g;
    *out = m;
    return OK;
}

static int support(int type, int how, int *supported) {
    *supported = (type == INT32 || type == INT64 || type == DOUBLE) && (how == SUM || how == MAX);
    return OK;
}

static int reg(void *object, void *data, size_t size, int type, void **out) {
    member *m = object;
    (void)data, (void)size;
    if (m->magic != MAGIC || type != POINTER_HOST) REFUSE("regMr of the wrong kind");
    m->registered++;
    *out = (char *)m + 1;
    return OK;
}

static int dereg(void *object, void *registration) {
    member *m = object;
    if (m->flying > 0) REFUSE("deregMr under an operation");
    if (registration != (char *)m + 1 || m->registered-- <= 0) REFUSE("deregMr of nothing");
    return OK;
}

#define FOLD(type)                                                        \
    for (size_t i = 0; i < o->count; i++) {                               \
        type a = ((type *)o->sum)[i], b = ((const type *)data)[i];        \
        ((type *)o->sum)[i] = o->how == SUM ? a + b : a > b ? a : b;      \
    }

static void fold(op *o, const void *data) {
    if (o->given++ == 0)
        memcpy(o->sum, data, o->bytes);
    else if (o->type == INT32)
        FOLD(int32_t)
    else if (o->type == INT64)
        FOLD(int64_t)
    else
        FOLD(double)
}

static int all_reduce(void *object, void *data, void *to, size_type count, int type, int how,
                      void *of_data, void *of_to, void **out) {
    member *m = object;
    group *g = m->of;
    size_t size = type == INT32 ? 4 : 8;
    int supported;
    request *r;
    op *o;
    *out = NULL;
    support(type, how, &supported);
    if (m->magic != MAGIC || !supported || count <= 0) REFUSE("iallreduce of type %d", type);
    if (of_data != (char *)m + 1 || of_to != (char *)m + 1) REFUSE("iallreduce, not registered");
    if (++m->calls % 3 == 0) return OK;
    pthread_mutex_lock(&lock);
    for (o = g->ops; o && o->number != m->begun; o = o->next) {}
    if (o == NULL) {
        o = calloc(1, sizeof *o);
        *o = (op){.next = g->ops,
                  .number = m->begun,
                  .count = (size_t)count,
                  .bytes = size * (size_t)count,
                  .type = type,
                  .how = how,
                  .sum = malloc(size * (size_t)count)};
        g->ops = o;
    }
    if (o->count != (size_t)count || o->type != type || o->how != how) {
        pthread_mutex_unlock(&lock);
        REFUSE("operation %d differs between the ranks of a group", (int)m->begun);
    }
    m->begun++;
    fold(o, data);
    m->flying++;
    all_flying++;
    pthread_mutex_unlock(&lock);
    r = calloc(1, sizeof *r);
    *r = (request){m, o, to};
    *out = r;
    return OK;
}

static int test(void *object, int *done, int *size) {
    request *r = object;
    op *o = r->op, **at;
    group *g = r->of->of;
    *done = 0;
    pthread_mutex_lock(&lock);
    if (o->given == g->ranks) {
        *done = 1;
        r->of->flying--;
        all_flying--;
        if (size) *size = (int)o->bytes;
        memcpy(r->to, o->sum, o->bytes);
        if (++o->taken == g->ranks) {
            for (at = &g->ops; *at != o; at = &(*at)->next) {}
            *at = o->next;
            folds++;
            fold_bytes += (long)o->bytes * g->ranks;
            free(o->sum);
            free(o);
        }
    }
    pthread_mutex_unlock(&lock);
    if (*done) free(r);
    return OK;
}

static int flush(void *c, void *data, int size, void *mhandle, void **out) {
    (void)c, (void)data, (void)size, (void)mhandle, (void)out;
    REFUSE("iflush of host memory");
}

static int close_member(void *object) {
    member *m = object;
    if (m->magic != MAGIC || (m->registered && !m->flying))
        REFUSE("%d registrations are left", m->registered);
    m->magic = 0;
    pthread_mutex_lock(&lock);
    all_flying -= m->flying;
    m->of->open--;
    open_objects--;
    pthread_mutex_unlock(&lock);
    free(m);
    return OK;
}

static int close_door(void *object) {
    door *d = object;
    if (d->magic != MAGIC) return INTERNAL;
    pthread_mutex_lock(&lock);
    open_objects--;
    pthread_mutex_unlock(&lock);
    free(d);
    return OK;
}

#define JOIN_NAMES(a, b) a##b
#define TABLE(version) JOIN_NAMES(ncclCollNetPlugin_v, version)

const fold_table TABLE(VERSION) = {
    .name = "adder",
    .init = init,
    .devices = devices,
    .getProperties = get_properties,
    .listen = lay,
    .connect = join,
    .reduceSupport = support,
    .regMr = reg,
    .deregMr = dereg,
    .iallreduce = all_reduce,
    .iflush = flush,
    .test = test,
    .closeColl = close_member,
    .closeListen = close_door,
};
