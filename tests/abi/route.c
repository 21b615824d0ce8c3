/* koloCommGetRoute: what would run, asked by one rank alone, and what is refused. */
#include "check.h"

enum { RANKS = 3, COUNT = 300 };

static void first(const void *in, void *inout, size_t count, koloDataType_t datatype,
                  void *context) {
    (void)context;
    CHECK(datatype == koloInt64);
    memcpy(inout, in, count * sizeof(int64_t));
}

static void refused(koloComm_t comm) {
    koloRoute_t route = KOLO_ROUTE_INITIALIZER;
    const koloResult_t bad = koloInvalidArgument;
    const koloDataType_t none = (koloDataType_t)99;
    const koloRedOp_t no_op = (koloRedOp_t)77;
    FAILS(bad, "call", koloCommGetRoute(NULL, 1, koloInt64, koloSum, comm, &route));
    FAILS(bad, "route", koloCommGetRoute("Reduce", 1, koloInt64, koloSum, comm, NULL));
    FAILS(bad, "there is no call", koloCommGetRoute("Redu", 1, koloInt64, koloSum, comm, &route));
    FAILS(bad, "there is no call", koloCommGetRoute("", 1, koloInt64, koloSum, comm, &route));
    FAILS(bad, "scan has no average",
          koloCommGetRoute("Scan", 1, koloDouble, koloAvg, comm, &route));
    FAILS(bad, "data type", koloCommGetRoute("Reduce", 1, none, koloSum, comm, &route));
    FAILS(bad, "operation", koloCommGetRoute("Reduce", 1, koloInt64, no_op, comm, &route));
    CHECK(route.algorithm[0] == 0 && route.words[0] == 0);
    route.size = 8;
    FAILS(bad, "has no room", koloCommGetRoute("Reduce", 1, koloInt64, koloSum, comm, &route));
}

static void asked(koloComm_t comm) {
    koloRoute_t route = KOLO_ROUTE_INITIALIZER;
    koloRedOp_t op, scaled;
    static const int64_t factor = 3;
    OK(koloCommGetRoute("AllReduce", 1, koloInt64, koloSum, comm, &route));
    CHECK(strcmp(route.algorithm, "oneshot") == 0 && route.channels == 1);
    CHECK(route.protocol[0] != 0 && route.mayBeDirect == 0);
    CHECK(strncmp(route.words, "oneshot, protocol ", 18) == 0);
    CHECK(route.size == sizeof route);
    OK(koloCommGetRoute("AllReduce", 1 << 20, koloInt64, koloSum, comm, &route));
    CHECK(route.mayBeDirect == 1 && route.microseconds > 0 && strstr(route.words, "twoshot"));
    OK(koloCommGetRoute("AllReduce", 9, koloDouble, koloSumExact, comm, &route));
    CHECK(strncmp(route.words, "exact sum", 9) == 0 && route.algorithm[0] == 0);
    CHECK(route.channels == 0 && route.microseconds < 0 && route.protocol[0] == 0);
    OK(koloCommGetRoute("Bcast", 9, koloDouble, koloSum, comm, &route));
    CHECK(strcmp(route.algorithm, "oneshot") == 0);
    OK(koloCommGetRoute("SendRecv", 9, koloDouble, koloSum, comm, &route));
    CHECK(strcmp(route.words, "one message, protocol simple, form exchange") == 0);
    OK(koloRedOpCreateUser(&op, first, NULL, 0, comm));
    OK(koloCommGetRoute("Reduce", 1 << 20, koloInt64, op, comm, &route));
    CHECK(strcmp(route.algorithm, "ordered") == 0);
    OK(koloRedOpDestroy(op, comm));
    OK(koloRedOpCreatePreMulSum(&scaled, &factor, koloInt64, koloScalarDevice, comm));
    OK(koloCommGetRoute("AllReduce", 1 << 20, koloInt64, scaled, comm, &route));
    CHECK(route.mayBeDirect == 0 && route.algorithm[0] != 0);
    FAILS(koloInvalidArgument, "operation",
          koloCommGetRoute("Reduce", 1, koloDouble, scaled, comm, &route));
    OK(koloRedOpDestroy(scaled, comm));
}

/* The way is that of all ranks; the form is this one's, whose calls are counted or are not. */
static void on_each(int rank, koloComm_t comm) {
    static const char *const counted[] = {"report=1", NULL};
    koloRoute_t route = KOLO_ROUTE_INITIALIZER;
    koloConfig_t config = KOLO_CONFIG_INITIALIZER;
    koloComm_t same = NULL;
    if (rank == 1) config.settings = counted;
    OK(koloCommSplit(comm, 0, rank, &same, &config));
    OK(koloCommGetRoute("SendRecv", 9, koloDouble, koloSum, same, &route));
    CHECK(strncmp(route.words, "one message, protocol simple, form ", 35) == 0);
    CHECK(strcmp(route.words + 35, rank == 1 ? "bundle" : "exchange") == 0);
    OK(koloCommDestroy(same));
}

static void body(int rank, int nranks, koloComm_t comm) {
    for (int call = 0; call < 4; call++) {
        int64_t input[COUNT], output[COUNT];
        /* The others neither ask nor hear of it. */
        if (rank == call % RANKS) asked(comm);
        if (rank == (call + 1) % RANKS) refused(comm);
        for (int i = 0; i < COUNT; i++) {
            input[i] = rank * 1000 + i + call;
            output[i] = -1;
        }
        OK(koloAllReduce(input, output, COUNT, koloInt64, koloSum, comm, NULL));
        for (int i = 0; i < COUNT; i++)
            CHECK(output[i] == nranks * (nranks - 1) / 2 * 1000 + nranks * (i + call));
    }
    on_each(rank, comm);
}

/* A rank alone has nobody to wait for: its message goes to itself, with its other half. */
static void alone(int rank, int nranks, koloComm_t comm) {
    koloRoute_t route = KOLO_ROUTE_INITIALIZER;
    double sent[9], got[9];
    CHECK(rank == 0 && nranks == 1);
    for (int i = 0; i < 9; i++) {
        sent[i] = 2.5 * i + 1;
        got[i] = -1;
    }
    OK(koloCommGetRoute("Send", 9, koloDouble, koloSum, comm, &route));
    CHECK(strstr(route.words, "form interpreted"));
    OK(koloCommGetRoute("SendRecv", 9, koloDouble, koloSum, comm, &route));
    CHECK(strstr(route.words, "form interpreted"));
    OK(koloSendRecv(sent, 9, 0, got, 9, 0, koloDouble, comm, NULL));
    CHECK(memcmp(sent, got, sizeof sent) == 0);
}

int main(void) {
    on_ranks(RANKS, body);
    on_ranks(1, alone);
    puts("route: ok");
    return 0;
}
