/* Every wrong argument is an error code and a sentence; nothing crashes or hangs. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include <limits.h>
#include <unistd.h>

static double a[64], b[64];
static const koloDataType_t type = koloFloat64;

/* All calls that take a communicator, on one that is not alive. */
static void every_call_refuses(koloComm_t comm) {
    const koloResult_t bad = koloInvalidArgument;
    int number = 0;
    koloResult_t state;
    koloRedOp_t op;
    koloComm_t other;
    const char *word = "communicator";
    FAILS(bad, word, koloCommCount(comm, &number));
    FAILS(bad, word, koloCommUserRank(comm, &number));
    FAILS(bad, word, koloCommGetAsyncError(comm, &state));
    FAILS(bad, word, koloCommSplit(comm, 0, 0, &other, NULL));
    FAILS(bad, word, koloCommFinalize(comm));
    FAILS(bad, word, koloCommDestroy(comm));
    FAILS(bad, word, koloCommAbort(comm));
    FAILS(bad, word, koloAllReduce(a, b, 1, type, koloSum, comm, NULL));
    FAILS(bad, word, koloBroadcast(a, b, 1, type, 0, comm, NULL));
    FAILS(bad, word, koloBcast(a, 1, type, 0, comm, NULL));
    FAILS(bad, word, koloReduce(a, b, 1, type, koloSum, 0, comm, NULL));
    FAILS(bad, word, koloSumExactDouble(a, 1, b, comm));
    FAILS(bad, word, koloAllGather(a, b, 1, type, comm, NULL));
    FAILS(bad, word, koloReduceScatter(a, b, 1, type, koloSum, comm, NULL));
    FAILS(bad, word, koloAllToAll(a, b, 1, type, comm, NULL));
    FAILS(bad, word, koloGather(a, b, 1, type, 0, comm, NULL));
    FAILS(bad, word, koloScatter(a, b, 1, type, 0, comm, NULL));
    FAILS(bad, word, koloBarrier(comm, NULL));
    FAILS(bad, word, koloSend(a, 1, type, 0, comm, NULL));
    FAILS(bad, word, koloRecv(b, 1, type, 0, comm, NULL));
    FAILS(bad, word, koloRedOpCreatePreMulSum(&op, a, type, koloScalarHostImmediate, comm));
    FAILS(bad, word, koloRedOpDestroy((koloRedOp_t)5, comm));
    CHECK(strcmp(koloGetLastError(comm), koloGetLastError(NULL)) == 0);
}

static void handles(void) {
    koloComm_t comm, again;
    koloStream_t stream;
    uintptr_t random = 88172645463325252u;
    OK(koloCommInitAll(&comm, 1, NULL));
    OK(koloStreamCreate(&stream));
    every_call_refuses(NULL);
    every_call_refuses((koloComm_t)(uintptr_t)0x1234);
    every_call_refuses((koloComm_t)(uintptr_t)-1);
    every_call_refuses((koloComm_t)(void *)a);
    every_call_refuses((koloComm_t)(void *)stream);
    for (int bit = 0; bit < 64; bit++)
        FAILS(koloInvalidArgument, "0x",
              koloBarrier((koloComm_t)((uintptr_t)comm ^ (uintptr_t)1 << bit), NULL));
    for (int turn = 0; turn < 10000; turn++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        FAILS(koloInvalidArgument, "0x", koloBarrier((koloComm_t)random, NULL));
    }
    OK(koloCommDestroy(comm));
    every_call_refuses(comm);
    OK(koloCommInitAll(&again, 1, NULL));
    CHECK(again != comm);
    every_call_refuses(comm);
    OK(koloCommAbort(again));
    every_call_refuses(again);
    FAILS(koloInvalidArgument, "stream", koloStreamSynchronize(NULL));
    FAILS(koloInvalidArgument, "stream", koloStreamQuery((koloStream_t)(void *)comm));
    OK(koloStreamQuery(stream));
    OK(koloStreamDestroy(stream));
    FAILS(koloInvalidArgument, "destroyed", koloStreamDestroy(stream));
    FAILS(koloInvalidArgument, "stream", koloStreamCreate(NULL));
}

static void initialisation(void) {
    koloComm_t comm = (koloComm_t)a;
    koloUniqueId id, zero;
    koloConfig_t config = KOLO_CONFIG_INITIALIZER;
    const char *unknown[] = {"KOLO_NO_SUCH_SETTING=1", NULL};
    const char *shapeless[] = {"KOLO_ALGO", NULL};
    const int devices[2] = {KOLO_DEVICE_HOST, -7};
    int version = 0;
    const koloResult_t bad = koloInvalidArgument;
    memset(&zero, 0, sizeof zero);
    FAILS(bad, "version", koloGetVersion(NULL));
    OK(koloGetVersion(&version));
    CHECK(version == KOLO_VERSION_CODE);
    char value[64];
    FAILS(bad, "key", koloGetSetting(NULL, value, sizeof value));
    FAILS(bad, "value", koloGetSetting("socket_family", NULL, sizeof value));
    FAILS(bad, "no_such_key", koloGetSetting("no_such_key", value, sizeof value));
    FAILS(bad, "bytes = 3", koloGetSetting("socket_family", value, 3));
    OK(koloGetSetting("socket_family", value, 4));
    CHECK(strcmp(value, "any") == 0);
    FAILS(bad, "translate", koloTranslateLog(NULL));
    FAILS(bad, "what", koloDescribeError(NULL, "step", NULL, "none", value, sizeof value));
    FAILS(bad, "text", koloDescribeError(NULL, "step", "it is cut", "none", value, 0));
    OK(koloDescribeError(NULL, "step", "it is cut", "none", value, 16));
    CHECK(strcmp(value, "kolo: step: it ") == 0);
    FAILS(bad, "uniqueId", koloGetUniqueId(NULL));
    OK(koloGetUniqueId(&id));
    FAILS(bad, "newcomm", koloCommInitRank(NULL, 1, id, 0));
    FAILS(bad, "rank 0 of 0", koloCommInitRank(&comm, 0, id, 0));
    FAILS(bad, "rank -1 of 2", koloCommInitRank(&comm, 2, id, -1));
    FAILS(bad, "rank 2 of 2", koloCommInitRank(&comm, 2, id, 2));
    FAILS(bad, "rank 0 of -5", koloCommInitRank(&comm, -5, id, 0));
    FAILS(bad, "", koloCommInitRank(&comm, 2, zero, 0));
    CHECK(comm == NULL);
    config.magic = 0;
    FAILS(bad, "magic", koloCommInitRankConfig(&comm, 1, id, 0, &config));
    config = (koloConfig_t)KOLO_CONFIG_INITIALIZER;
    config.size = 1;
    FAILS(bad, "size", koloCommInitRankConfig(&comm, 1, id, 0, &config));
    config = (koloConfig_t)KOLO_CONFIG_INITIALIZER;
    config.version = 70000;
    FAILS(bad, "7.0", koloCommInitRankConfig(&comm, 1, id, 0, &config));
    config = (koloConfig_t)KOLO_CONFIG_INITIALIZER;
    config.blocking = 2;
    FAILS(bad, "blocking = 2", koloCommInitRankConfig(&comm, 1, id, 0, &config));
    config = (koloConfig_t)KOLO_CONFIG_INITIALIZER;
    config.minChannels = -3;
    FAILS(bad, "minChannels", koloCommInitRankConfig(&comm, 1, id, 0, &config));
    config = (koloConfig_t)KOLO_CONFIG_INITIALIZER;
    config.settings = unknown;
    FAILS(bad, "NO_SUCH_SETTING", koloCommInitRankConfig(&comm, 1, id, 0, &config));
    config.settings = shapeless;
    FAILS(bad, "KEY=VALUE", koloCommInitRankConfig(&comm, 1, id, 0, &config));
    config = (koloConfig_t)KOLO_CONFIG_INITIALIZER;
    config.device = -2;
    FAILS(bad, "device = -2", koloCommInitRankConfig(&comm, 1, id, 0, &config));
    /* Of these there are fewer, on every machine; without a driver the sentence is about that. */
    config.device = 4000000;
    const koloResult_t refused = koloCommInitRankConfig(&comm, 1, id, 0, &config);
    CHECK(refused == koloInvalidUsage || refused == koloUnhandledCudaError);
    CHECK(strstr(koloGetLastError(NULL), "CUDA d") != NULL);
    FAILS(bad, "comms", koloCommInitAll(NULL, 2, NULL));
    FAILS(bad, "ndev", koloCommInitAll(&comm, 0, NULL));
    FAILS(bad, "ndev", koloCommInitAll(&comm, -1, NULL));
    FAILS(bad, "devlist[1]", koloCommInitAll(&comm, 2, devices));
    FAILS(bad, "newcomm", koloCommInitEnv(NULL));
    FAILS(bad, "newcomm", koloCommInitSlurm(NULL));
    FAILS(bad, "newcomm", koloCommInitTable(NULL, NULL));
    FAILS(bad, "table", koloCommInitTable(&comm, NULL));
}

static int table_fails(void *ctx, void *buffer, size_t bytes, int root) {
    (void)buffer, (void)bytes, (void)root;
    ++*(int *)ctx;
    return 77;
}
static int table_gather_fails(void *ctx, const void *send, size_t bytes, void *recv) {
    (void)send, (void)bytes, (void)recv;
    ++*(int *)ctx;
    return 78;
}
static int table_idle(void *ctx) { return (void)ctx, 0; }
static int table_free(void *ctx) { return *(int *)ctx += 1000, 0; }

static void tables(void) {
    koloComm_t comm;
    int calls = 0;
    koloMpiTable good = {.size = sizeof good, .version = KOLO_MPI_TABLE_VERSION, .nranks = 2};
    good.ctx = &calls, good.bcast = table_fails, good.allgather = table_gather_fails;
    good.idle = table_idle, good.free = table_free;
    koloMpiTable table = good;
    table.version = 9;
    FAILS(koloInvalidArgument, "9", koloCommInitTable(&comm, &table));
    table = good, table.size = 8;
    FAILS(koloInvalidArgument, "8 bytes", koloCommInitTable(&comm, &table));
    table = good, table.rank = 2;
    FAILS(koloInvalidArgument, "2", koloCommInitTable(&comm, &table));
    table = good, table.bcast = NULL;
    FAILS(koloInvalidArgument, "bcast", koloCommInitTable(&comm, &table));
    table = good, table.problem = "MPI is not running", table.problemCode = koloInvalidUsage;
    FAILS(koloInvalidUsage, "MPI is not running", koloCommInitTable(&comm, &table));
    CHECK(calls == 0);
    CHECK(koloCommInitTable(&comm, &good) == koloSystemError);
    CHECK(strstr(koloGetLastError(NULL), "failed with code 7") != NULL);
    CHECK(calls == 1001 && comm == NULL);
}

static void arguments(koloComm_t comm) {
    koloComm_t other;
    const koloResult_t bad = koloInvalidArgument;
    const int types[] = {-1, 12, 1000, INT_MAX, INT_MIN};
    const int ops[] = {-1, 5, 1 << 20, INT_MAX, INT_MIN};
    const int ranks[] = {-1, 1, 7, INT_MAX, INT_MIN};
    char *bytes = (char *)a;
    for (int i = 0; i < 5; i++) {
        koloDataType_t wrong = (koloDataType_t)types[i];
        koloRedOp_t op = (koloRedOp_t)ops[i];
        FAILS(bad, "data type", koloAllReduce(a, b, 1, wrong, koloSum, comm, NULL));
        FAILS(bad, "data type", koloSend(a, 1, wrong, 0, comm, NULL));
        FAILS(bad, "", koloAllReduce(a, b, 1, type, op, comm, NULL));
        FAILS(bad, "", koloReduce(a, b, 1, type, op, 0, comm, NULL));
        FAILS(bad, "", koloReduceScatter(a, b, 1, type, op, comm, NULL));
        FAILS(bad, "rank", koloBroadcast(a, b, 1, type, ranks[i], comm, NULL));
        FAILS(bad, "rank", koloBcast(a, 1, type, ranks[i], comm, NULL));
        FAILS(bad, "rank", koloReduce(a, b, 1, type, koloSum, ranks[i], comm, NULL));
        FAILS(bad, "rank", koloGather(a, b, 1, type, ranks[i], comm, NULL));
        FAILS(bad, "rank", koloScatter(a, b, 1, type, ranks[i], comm, NULL));
        /* KOLO_NO_RANK is a peer; the next negative number is none, nor is it a neighbour. */
        const int peer = ranks[i] == KOLO_NO_RANK ? -2 : ranks[i];
        FAILS(bad, "rank", koloSend(a, 1, type, peer, comm, NULL));
        FAILS(bad, "rank", koloRecv(a, 1, type, peer, comm, NULL));
        FAILS(bad, "rank", koloSendRecv(a, 1, peer, b, 1, 0, type, comm, NULL));
        FAILS(bad, "rank", koloSendRecv(a, 1, 0, b, 1, peer, type, comm, NULL));
    }
    FAILS(bad, "", koloAllReduce(NULL, b, 1, type, koloSum, comm, NULL));
    FAILS(bad, "", koloAllReduce(a, NULL, 1, type, koloSum, comm, NULL));
    FAILS(bad, "", koloBcast(NULL, 1, type, 0, comm, NULL));
    FAILS(bad, "", koloGather(a, NULL, 1, type, 0, comm, NULL));
    FAILS(bad, "", koloAllReduce(a, b, SIZE_MAX, type, koloSum, comm, NULL));
    FAILS(bad, "", koloAllGather(a, b, SIZE_MAX / 4, type, comm, NULL));
    FAILS(bad, "", koloBcast(a, SIZE_MAX / 2, type, 0, comm, NULL));
    FAILS(bad, "", koloAllReduce(bytes, bytes + 8, 4, type, koloSum, comm, NULL));
    FAILS(bad, "", koloAllReduce(bytes + 8, bytes, 4, type, koloSum, comm, NULL));
    FAILS(bad, "", koloAllToAll(a, a, 4, type, comm, NULL));
    OK(koloAllReduce(NULL, NULL, 0, type, koloSum, comm, NULL));
    koloRequest_t request;
    const char *no_stream = "is no stream of host memory";
    FAILS(bad, no_stream, koloAllReduce(a, b, 1, type, koloSum, comm, (koloStream_t)(void *)b));
    FAILS(bad, no_stream, koloSend(a, 1, type, 0, comm, (koloStream_t)(void *)1));
    FAILS(bad, "is a communicator", koloBarrier(comm, (koloStream_t)(void *)comm));
    OK(koloIAllReduce(a, b, 1, type, koloSum, comm, &request));
    FAILS(bad, "is a request", koloBarrier(comm, (koloStream_t)(void *)request));
    OK(koloWait(&request));
    FAILS(bad, "count", koloCommCount(comm, NULL));
    FAILS(bad, "rank", koloCommUserRank(comm, NULL));
    FAILS(bad, "asyncError", koloCommGetAsyncError(comm, NULL));
    FAILS(bad, "newcomm", koloCommSplit(comm, 0, 0, NULL, NULL));
    FAILS(bad, "color", koloCommSplit(comm, -2, 0, &other, NULL));
    CHECK(strstr(koloGetLastError(comm), "rank 0") != NULL);
}

static void operations(koloComm_t comm) {
    const koloResult_t bad = koloInvalidArgument;
    double scalar = 2.0;
    koloRedOp_t op;
    koloScalarResidence_t now = koloScalarHostImmediate;
    FAILS(bad, "op", koloRedOpCreatePreMulSum(NULL, &scalar, type, now, comm));
    FAILS(bad, "scalar", koloRedOpCreatePreMulSum(&op, NULL, type, now, comm));
    FAILS(bad, "data type", koloRedOpCreatePreMulSum(&op, a, (koloDataType_t)99, now, comm));
    FAILS(bad, "residence", koloRedOpCreatePreMulSum(&op, a, type, (koloScalarResidence_t)7, comm));
    FAILS(bad, "built in", koloRedOpDestroy(koloSum, comm));
    FAILS(bad, "give a function", koloRedOpCreateUser(&op, NULL, NULL, 1, comm));
    for (int residence = 0; residence < 2; residence++) {
        OK(koloRedOpCreatePreMulSum(&op, &scalar, type, (koloScalarResidence_t)residence, comm));
        CHECK(op > koloAvg);
        OK(koloRedOpDestroy(op, comm));
        FAILS(bad, "", koloRedOpDestroy(op, comm));
        FAILS(bad, "", koloAllReduce(a, b, 1, type, op, comm, NULL));
    }
}

static void exact(koloComm_t comm) {
    const koloResult_t bad = koloInvalidArgument;
    const size_t huge[2] = {SIZE_MAX / 4, 8}, few[1] = {3};
    double sum = -1;
    FAILS(bad, "exact sum of int32", koloAllReduce(a, b, 1, koloInt32, koloSumExact, comm, NULL));
    FAILS(bad, "ReduceScatter", koloReduceScatter(a, b, 1, type, koloSumExact, comm, NULL));
    FAILS(bad, "built in", koloRedOpDestroy(koloSumExact, comm));
    FAILS(bad, "result", koloSumExactDouble(a, 1, NULL, comm));
    FAILS(bad, "array", koloSumExactDouble(NULL, 1, &sum, comm));
    FAILS(bad, "address space", koloSumExactDouble(a, SIZE_MAX / 2, &sum, comm));
    FAILS(bad, "mask", koloSumExactDoubleMasked(a, NULL, 1, &sum, comm));
    FAILS(bad, "NULL", koloSumExactDouble(a, 1, &sum, NULL));
#define ARRAY(t, parts, rank, extents, mask, bytes) \
    koloSumExactArray(a, t, parts, rank, extents, NULL, mask, bytes, NULL, &sum, comm)
    FAILS(bad, "int64", ARRAY(koloInt64, 1, 1, few, NULL, 0));
    FAILS(bad, "data type", ARRAY((koloDataType_t)77, 1, 1, few, NULL, 0));
    FAILS(bad, "parts", (ARRAY(type, 0, 1, few, NULL, 0)));
    FAILS(bad, "dimensions", ARRAY(type, 1, 16, few, NULL, 0));
    FAILS(bad, "dimensions", ARRAY(type, 1, -1, few, NULL, 0));
    FAILS(bad, "extents", ARRAY(type, 1, 1, NULL, NULL, 0));
    FAILS(bad, "address space", ARRAY(type, 1, 2, huge, NULL, 0));
    FAILS(bad, "mask", ARRAY(type, 1, 1, few, a, 0));
    CHECK(sum == -1);
    OK(koloGroupStart());
    FAILS(koloInvalidUsage, "group", koloSumExactDouble(a, 1, &sum, comm));
    CHECK(koloGroupEnd() == koloInvalidUsage);
}

/* A group that was forgotten is told of by whatever would leave its calls behind. */
static void open_group(void) {
    koloComm_t comm;
    koloStream_t stream;
    const koloResult_t bad = koloInvalidUsage;
    OK(koloCommInitAll(&comm, 1, NULL));
    OK(koloStreamCreate(&stream));
    a[0] = 7.0, b[0] = b[1] = -1.0;
    OK(koloGroupStart());
    OK(koloAllReduce(a, b, 1, type, koloSum, comm, NULL));
    FAILS(bad, "1 call waits in a group", koloCommFinalize(comm));
    OK(koloAllReduce(a, b + 1, 1, type, koloSum, comm, stream));
    FAILS(bad, "2 calls wait in a group", koloCommDestroy(comm));
    FAILS(bad, "inside a group", koloStreamSynchronize(stream));
    FAILS(bad, "inside a group", koloStreamQuery(stream));
    CHECK(b[0] == -1.0 && b[1] == -1.0);
    OK(koloGroupEnd());
    OK(koloStreamSynchronize(stream));
    CHECK(b[0] == 7.0 && b[1] == 7.0);
    OK(koloStreamDestroy(stream));
    OK(koloCommDestroy(comm));
    /* The calls of a refused group never run, and that was told: it does not keep anybody. */
    OK(koloCommInitAll(&comm, 1, NULL));
    OK(koloGroupStart());
    OK(koloAllReduce(a, b, 1, type, koloSum, comm, NULL));
    FAILS(koloInvalidArgument, "rank", koloSend(a, 1, type, 5, comm, NULL));
    OK(koloCommDestroy(comm));
    CHECK(koloGroupEnd() == koloInvalidArgument);
}

/* Calls that fail before they know their communicator leave it their sentence all the same. */
static void unnamed(koloComm_t comm) {
    FAILS(koloInvalidArgument, "rank", koloSend(a, 1, type, 5, comm, NULL));
    FAILS(koloInvalidArgument, "request", koloIAllReduce(a, b, 1, type, koloSum, comm, NULL));
    CHECK(strstr(koloGetLastError(comm), "IAllReduce: the argument request") != NULL);
    FAILS(koloInvalidArgument, "rank", koloSend(a, 1, type, 5, comm, NULL));
    CHECK(strstr(koloGetLastError(comm), "peer 5") != NULL);
    FAILS(koloInvalidArgument, "stream", koloStreamCreate(NULL));
    CHECK(strstr(koloGetLastError(comm), "StreamCreate: the argument stream") != NULL);
}

static void memory(void) {
    void *pointer = a;
    FAILS(koloInvalidArgument, "ptr", koloMemAlloc(NULL, 8));
    FAILS(koloInvalidArgument, "address space", koloMemAlloc(&pointer, SIZE_MAX));
    CHECK(pointer == (void *)a);
    OK(koloMemAlloc(&pointer, 0));
    CHECK(pointer == NULL);
    OK(koloMemFree(NULL));
    OK(koloMemAlloc(&pointer, 10000));
    CHECK((uintptr_t)pointer % 4096 == 0 && ((char *)pointer)[9999] == 0);
    memset(pointer, 1, 10000);
    FAILS(koloInvalidArgument, "8 bytes inside", koloMemFree((char *)pointer + 8));
    FAILS(koloInvalidArgument, "no live allocation", koloMemFree(a));
    OK(koloMemFree(pointer));
    FAILS(koloInvalidArgument, "freed twice", koloMemFree(pointer));
}

static void sentences(koloComm_t comm) {
    koloComm_t fresh;
    const char *kept;
    char copy[512];
    OK(koloCommInitAll(&fresh, 1, NULL));
    CHECK(strcmp(koloGetLastError(fresh), "no error") == 0);
    FAILS(koloInvalidArgument, "count", koloCommCount(comm, NULL));
    kept = koloGetLastError(comm);
    snprintf(copy, sizeof copy, "%s", kept);
    FAILS(koloInvalidArgument, "ptr", koloMemAlloc(NULL, 8));
    FAILS(koloInvalidArgument, "rank", koloCommUserRank(fresh, NULL));
    CHECK(strcmp(copy, kept) == 0 && strcmp(copy, koloGetLastError(comm)) == 0);
    CHECK(strstr(koloGetLastError(fresh), "UserRank") != NULL);
    CHECK(strcmp(koloGetErrorString(koloSuccess), "no error") == 0);
    for (int code = 1; code <= 8; code++)
        CHECK(strcmp(koloGetErrorString((koloResult_t)code), "no error") != 0);
    CHECK(strcmp(koloGetErrorString((koloResult_t)9), "unknown result code") == 0);
    CHECK(strcmp(koloGetErrorString((koloResult_t)-1), "unknown result code") == 0);
    FAILS(koloInvalidUsage, "GroupStart", koloGroupEnd());
    CHECK(strstr(koloGetLastError(fresh), "GroupStart") != NULL);
    FAILS(koloInvalidArgument, "count", koloCommCount(comm, NULL));
    CHECK(strstr(koloGetLastError(fresh), "UserRank") != NULL);
    /* A wrong call in a group: the end reports it and runs nothing. */
    a[0] = 3.0, b[0] = -1.0;
    OK(koloGroupStart());
    OK(koloAllReduce(a, b, 1, type, koloSum, comm, NULL));
    FAILS(koloInvalidArgument, "data type", koloSend(a, 1, (koloDataType_t)44, 0, comm, NULL));
    CHECK(koloGroupEnd() == koloInvalidArgument && b[0] == -1.0);
    CHECK(strstr(koloGetLastError(comm), "data type") != NULL);
    OK(koloCommDestroy(fresh));
}

typedef struct {
    koloComm_t comm;
    int ended;
} waiting;

static void *wait_in_barrier(void *pointer) {
    waiting *my = pointer;
    koloResult_t code = koloBarrier(my->comm, NULL);
    if (code == koloInvalidUsage) CHECK(strstr(koloGetLastError(NULL), "another thread") != NULL);
    CHECK(write(my->ended, &code, sizeof code) == sizeof code);
    return NULL;
}

/* A second thread on a communicator that is in use gets an error, and may abort it. Of two threads
 * that call, the one that ends first was told of the other. */
static void two_threads(void) {
    koloComm_t comms[2];
    pthread_t threads[2];
    koloResult_t code;
    int ends[2];
    OK(koloCommInitAll(comms, 2, NULL));
    CHECK(pipe(ends) == 0);
    waiting shared = {comms[0], ends[1]};
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, wait_in_barrier, &shared) == 0);
    CHECK(read(ends[0], &code, sizeof code) == sizeof code && code == koloInvalidUsage);
    OK(koloCommAbort(comms[0]));
    CHECK(read(ends[0], &code, sizeof code) == sizeof code && code == koloRemoteError);
    for (int i = 0; i < 2; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    close(ends[0]), close(ends[1]);
    FAILS(koloInvalidArgument, "aborted", koloBarrier(comms[0], NULL));
    OK(koloCommAbort(comms[1]));
}

/* A stream names no communicator, yet what stopped its calls is told of each of theirs. */
static void streams(void) {
    koloComm_t comms[2];
    koloStream_t streams[2];
    OK(koloCommInitAll(comms, 2, NULL));
    for (int rank = 0; rank < 2; rank++) {
        double *mine = a + 32 * rank;
        OK(koloStreamCreate(&streams[rank]));
        OK(koloAllReduce(mine, mine, 3 + (size_t)rank, type, koloSum, comms[rank], streams[rank]));
    }
    /* Either rank may be the one that notices. */
    CHECK(koloStreamSynchronize(streams[0]) != koloSuccess);
    CHECK(strstr(koloGetLastError(NULL), "of 4 double") != NULL);
    CHECK(strstr(koloGetLastError(comms[0]), "of 4 double") != NULL);
    /* Not of a call that failed: what stopped it. */
    FAILS(koloInvalidArgument, "ptr", koloMemAlloc(NULL, 8));
    CHECK(strstr(koloGetLastError(comms[1]), "of 4 double") != NULL);
    for (int rank = 0; rank < 2; rank++) {
        KOLO_IGNORE(koloStreamDestroy(streams[rank]));
        koloCommAbort(comms[rank]);
    }
}

int main(void) {
    koloComm_t comm;
    handles();
    initialisation();
    tables();
    memory();
    OK(koloCommInitAll(&comm, 1, NULL));
    arguments(comm);
    operations(comm);
    sentences(comm);
    unnamed(comm);
    exact(comm);
    a[0] = 5.0;
    OK(koloAllReduce(a, b, 1, type, koloSum, comm, NULL));
    CHECK(b[0] == 5.0);
    OK(koloCommDestroy(comm));
    open_group();
    two_threads();
    streams();
    puts("misuse: ok");
    return 0;
}
