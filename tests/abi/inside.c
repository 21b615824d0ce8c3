/* What a program does wrong, or in despair, inside an operation of its own. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include <pthread.h>

static const koloDataType_t type = koloFloat64;
enum { RANKS = 3, COUNT = 4096 };

typedef struct {
    koloComm_t comm;
    koloResult_t code;
    char text[512];
} operating;

/* Calls kolo from inside a call of kolo. */
static void calls_kolo(const void *in, void *inout, size_t count, koloDataType_t datatype,
                       void *context) {
    const operating *my = context;
    double *out = inout, one = 1;
    (void)datatype;
    /* The first one is told the cause; those that come later, what stopped it. */
    const koloResult_t code = koloAllReduce(&one, &one, 1, type, koloSum, my->comm, NULL);
    CHECK(code == koloInvalidUsage || code == koloRemoteError);
    CHECK(strstr(koloGetLastError(NULL), "has called kolo on a communicator") != NULL);
    for (size_t i = 0; i < count; i++) out[i] += ((const double *)in)[i];
}

static void *reduce_so(void *pointer) {
    operating *my = pointer;
    static double input[COUNT];
    double output[COUNT];
    koloRedOp_t op;
    OK(koloRedOpCreateUser(&op, calls_kolo, my, 1, my->comm));
    my->code = koloAllReduce(input, output, COUNT, type, op, my->comm, NULL);
    if (my->code == koloSuccess) my->code = koloBarrier(my->comm, NULL);
    snprintf(my->text, sizeof my->text, "%s", koloGetLastError(my->comm));
    return NULL;
}

/* The cause is named, and no rank waits for one that cannot go on. */
static void operation_calls_kolo(void) {
    koloComm_t comms[RANKS];
    operating each[RANKS];
    pthread_t threads[RANKS];
    OK(koloCommInitAll(comms, RANKS, NULL));
    for (int i = 0; i < RANKS; i++) {
        each[i].comm = comms[i];
        CHECK(pthread_create(&threads[i], NULL, reduce_so, &each[i]) == 0);
    }
    for (int i = 0; i < RANKS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    for (int i = 0; i < RANKS; i++) {
        CHECK(each[i].code != koloSuccess);
        CHECK(strstr(each[i].text, "has called kolo on a communicator") != NULL);
        koloCommAbort(comms[i]);
    }
}

/* What rank, element and call give, a whole number. */
static double value(int rank, size_t i, int call) {
    return (rank + 1) * (double)(i % 97 + 1) + call;
}

typedef struct {
    koloComm_t comm;
    int rank;
    koloRequest_t request, before;
    koloStream_t stream;
    int calls;
    double input[COUNT], output[COUNT];
} waiting;

/* Each wait is refused, and what it would have ended lives on. */
static void waits(const void *in, void *inout, size_t count, koloDataType_t datatype,
                  void *context) {
    waiting *my = context;
    double *out = inout;
    int done = 5;
    (void)datatype;
    FAILS(koloInvalidUsage, "destroys a communicator", koloCommDestroy(my->comm));
    FAILS(koloInvalidUsage, "finalizes a communicator", koloCommFinalize(my->comm));
    FAILS(koloInvalidUsage, "waits for a stream", koloStreamSynchronize(my->stream));
    FAILS(koloInvalidUsage, "destroys a stream", koloStreamDestroy(my->stream));
    FAILS(koloInvalidUsage, "waits for a request", koloWait(&my->before));
    FAILS(koloInvalidUsage, "waits for a request", koloWaitAll(1, &my->before));
    FAILS(koloInvalidUsage, "waits for a request", koloTest(&my->before, &done));
    CHECK(my->before != NULL && done == 5);
    my->calls++;
    for (size_t i = 0; i < count; i++) out[i] += ((const double *)in)[i];
}

static void *wait_so(void *pointer) {
    waiting *my = pointer;
    koloRedOp_t op;
    OK(koloStreamCreate(&my->stream));
    OK(koloRedOpCreateUser(&op, waits, my, 1, my->comm));
    for (int call = 0; call < 5; call++) {
        for (size_t i = 0; i < COUNT; i++) {
            my->input[i] = value(my->rank, i, call);
            my->output[i] = -7;
        }
        OK(koloIBarrier(my->comm, &my->before));
        OK(koloIAllReduce(my->input, my->output, COUNT, type, op, my->comm, &my->request));
        OK(koloWait(&my->request));
        OK(koloWait(&my->before));
        for (size_t i = 0; i < COUNT; i++) {
            double sum = 0;
            for (int rank = 0; rank < RANKS; rank++) sum += value(rank, i, call);
            CHECK(my->output[i] == sum);
        }
    }
    OK(koloStreamDestroy(my->stream));
    OK(koloCommDestroy(my->comm));
    return NULL;
}

static void operation_waits(void) {
    static waiting each[RANKS];
    koloComm_t comms[RANKS];
    pthread_t threads[RANKS];
    int calls = 0;
    OK(koloCommInitAll(comms, RANKS, NULL));
    for (int i = 0; i < RANKS; i++) {
        each[i].comm = comms[i];
        each[i].rank = i;
        CHECK(pthread_create(&threads[i], NULL, wait_so, &each[i]) == 0);
    }
    for (int i = 0; i < RANKS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    for (int i = 0; i < RANKS; i++) calls += each[i].calls;
    CHECK(calls > 0);
}

/* The one thing that an operation may do about elements it cannot combine. */
static void aborts(const void *in, void *inout, size_t count, koloDataType_t datatype,
                   void *context) {
    (void)in, (void)inout, (void)count, (void)datatype;
    waiting *my = context;
    if (my->calls++ == 0) OK(koloCommAbort(my->comm));
}

static void *abort_so(void *pointer) {
    waiting *my = pointer;
    koloRedOp_t op;
    OK(koloRedOpCreateUser(&op, aborts, my, 1, my->comm));
    /* With a request it is the driver who runs the operation. */
    koloResult_t code = koloIAllReduce(my->input, my->output, COUNT, type, op, my->comm,
                                       &my->request);
    if (code == koloSuccess) code = koloWait(&my->request);
    if (code == koloSuccess) code = koloBarrier(my->comm, NULL);
    CHECK(code != koloSuccess);
    KOLO_IGNORE(koloCommAbort(my->comm));
    return NULL;
}

static void operation_aborts(void) {
    static waiting each[RANKS];
    koloComm_t comms[RANKS];
    pthread_t threads[RANKS];
    OK(koloCommInitAll(comms, RANKS, NULL));
    for (int i = 0; i < RANKS; i++) {
        each[i].comm = comms[i];
        CHECK(pthread_create(&threads[i], NULL, abort_so, &each[i]) == 0);
    }
    for (int i = 0; i < RANKS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

int main(void) {
    operation_calls_kolo();
    operation_waits();
    operation_aborts();
    puts("inside: ok");
    return 0;
}
