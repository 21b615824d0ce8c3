// An operation in C++ that throws, on one of three ranks, in every kind of call that runs it:
//   throws RANK WAY COUNT [quietly]
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <kolo.h>
#include <pthread.h>
#include <stdexcept>
#include <vector>

static const int ranks = 3;
static int thrower;
static const char *way;
static size_t count;
static bool ends_thread;

struct member {
    koloComm_t comm;
    int rank;
};

#define OK(call) \
    if ((call) != koloSuccess) std::fprintf(stderr, "failed: %s\n", #call), std::exit(2)

static void add(const void *in, void *inout, size_t n, koloDataType_t, void *context) {
    if (static_cast<member *>(context)->rank == thrower) {
        if (ends_thread) pthread_exit(nullptr);
        throw std::runtime_error("a negative density");
    }
    for (size_t i = 0; i < n; i++)
        static_cast<double *>(inout)[i] += static_cast<const double *>(in)[i];
}

static void *reduce(void *pointer) {
    member *my = static_cast<member *>(pointer);
    std::vector<double> x(count, 1.0), y(count * ranks);
    koloRedOp_t op;
    OK(koloRedOpCreateUser(&op, add, my, 1, my->comm));
    if (std::strcmp(way, "group") == 0) {
        OK(koloGroupStart());
        OK(koloAllReduce(x.data(), y.data(), count, koloDouble, op, my->comm, nullptr));
        OK(koloGroupEnd());
    } else if (std::strcmp(way, "stream") == 0) {
        koloStream_t stream;
        OK(koloStreamCreate(&stream));
        OK(koloAllReduce(x.data(), y.data(), count, koloDouble, op, my->comm, stream));
        OK(koloStreamSynchronize(stream));
    } else if (std::strcmp(way, "request") == 0) {
        koloRequest_t request;
        OK(koloIAllReduce(x.data(), y.data(), count, koloDouble, op, my->comm, &request));
        OK(koloWait(&request));
    } else {
        OK(koloAllReduce(x.data(), y.data(), count, koloDouble, op, my->comm, nullptr));
    }
    OK(koloBarrier(my->comm, nullptr));
    return nullptr;
}

int main(int, char **argv) {
    koloComm_t comms[ranks];
    member each[ranks];
    pthread_t threads[ranks];
    thrower = std::atoi(argv[1]);
    way = argv[2];
    count = std::strtoul(argv[3], nullptr, 10);
    ends_thread = argv[4] != nullptr;
    std::puts("printed before");
    OK(koloCommInitAll(comms, ranks, nullptr));
    for (int i = 0; i < ranks; i++) {
        each[i] = {comms[i], i};
        pthread_create(&threads[i], nullptr, reduce, &each[i]);
    }
    for (int i = 0; i < ranks; i++) pthread_join(threads[i], nullptr);
    std::puts("went on");
    return 0;
}
