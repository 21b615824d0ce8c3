/* sendrecv between two nodes: kolo and the simplest program that could do the same, by turns.

   wire OWN_ADDRESS OTHER_ADDRESS PORT COUNT BYTES...    on each of two nodes

   Starts as kolo's ranks do (KOLO_RANK, KOLO_NRANKS, KOLO_COMM_ID). The simple program has one
   thread and one socket each direction: non-blocking send and recv of at most PART bytes, and poll
   where neither moved anything. Both use the same two buffers, which every rank writes anew before
   each call, and compare what has come. COUNT calls of the one and of the other, ROUNDS times.
   Rank 0 prints a line a size: bytes, then medians of the time of a call in microseconds, kolo's
   and the simple program's, round by round. */
#include <arpa/inet.h>
#include <errno.h>
#include <kolo.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 5
#define MOST_CALLS 1000
#define PART ((size_t)128 << 10)

static int out, in;

static void must(int good, const char *what) {
    if (!good) {
        perror(what);
        exit(1);
    }
}

static void kolo(koloResult_t code, const char *call) {
    if (code != koloSuccess) {
        fprintf(stderr, "%s: %s: %s\n", call, koloGetErrorString(code), koloGetLastError(NULL));
        exit(1);
    }
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static struct sockaddr_in place(const char *address, int port) {
    struct sockaddr_in it = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
    must(inet_pton(AF_INET, address, &it.sin_addr) == 1, address);
    return it;
}

/* One socket to the other node, and one from it. */
static void join(const char *own, const char *other, int port) {
    struct sockaddr_in here = place(own, port), there = place(other, port);
    int on = 1, door = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(door, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    must(bind(door, (struct sockaddr *)&here, sizeof here) == 0, "bind");
    must(listen(door, 1) == 0, "listen");
    for (int tries = 0;; tries++) {
        out = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(out, (struct sockaddr *)&there, sizeof there) == 0) break;
        must(tries < 1000, "connect");
        close(out);
        usleep(10000);
    }
    in = accept(door, NULL, NULL);
    must(in >= 0, "accept");
    setsockopt(out, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    close(door);
}

/* Bytes that went; 0 for none at the moment. */
static size_t went(ssize_t result, const char *what) {
    if (result > 0) return (size_t)result;
    must(result < 0 && (errno == EAGAIN || errno == EINTR), what);
    return 0;
}

static void simple(const char *send_from, char *recv_to, size_t bytes) {
    size_t sent = 0, got = 0;
    while (sent < bytes || got < bytes) {
        size_t moved = 0, part;
        if (sent < bytes) {
            part = bytes - sent < PART ? bytes - sent : PART;
            part = went(send(out, send_from + sent, part, MSG_DONTWAIT | MSG_NOSIGNAL), "send");
            sent += part;
            moved += part;
        }
        if (got < bytes) {
            part = bytes - got < PART ? bytes - got : PART;
            part = went(recv(in, recv_to + got, part, MSG_DONTWAIT), "recv");
            got += part;
            moved += part;
        }
        if (moved == 0) {
            struct pollfd set[2] = {{.fd = in, .events = got < bytes ? POLLIN : 0},
                                    {.fd = out, .events = sent < bytes ? POLLOUT : 0}};
            must(poll(set, 2, 5000) > 0, "poll");
        }
    }
}

static void write_anew(uint64_t *data, size_t bytes, uint64_t seed) {
    for (size_t i = 0; i < bytes / 8; i++)
        data[i] = (i + seed) * UINT64_C(0x9e3779b97f4a7c15);
}

static void compare(const uint64_t *data, size_t bytes, uint64_t seed) {
    for (size_t i = 0; i < bytes / 8; i++)
        if (data[i] != (i + seed) * UINT64_C(0x9e3779b97f4a7c15)) {
            fprintf(stderr, "word %zu of %zu bytes is wrong\n", i, bytes);
            exit(1);
        }
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median time of a call, of the rank that took longer each time. */
static double measure(koloComm_t comm, int rank, int count, size_t bytes, uint64_t *mine,
                      uint64_t *theirs) {
    static double times[MOST_CALLS];
    static uint64_t call;
    for (int i = 0; i < count; i++) {
        call++;
        write_anew(mine, bytes, call * 2 + (uint64_t)rank);
        char word = 0;
        simple(&word, &word, 1);
        double start = now();
        if (comm)
            kolo(koloSendRecv(mine, bytes, 1 - rank, theirs, bytes, 1 - rank, koloUint8, comm,
                              NULL), "koloSendRecv");
        else
            simple((char *)mine, (char *)theirs, bytes);
        double took = now() - start, other;
        compare(theirs, bytes, call * 2 + (uint64_t)(1 - rank));
        simple((char *)&took, (char *)&other, sizeof took);
        times[i] = took > other ? took : other;
    }
    qsort(times, (size_t)count, sizeof *times, by_value);
    return times[count / 2];
}

int main(int argc, char **argv) {
    must(argc >= 6, "wire OWN_ADDRESS OTHER_ADDRESS PORT COUNT BYTES...");
    int count = atoi(argv[4]), rank;
    must(count > 0 && count <= MOST_CALLS, "COUNT");
    koloComm_t comm;
    kolo(koloCommInitEnv(&comm), "koloCommInitEnv");
    kolo(koloCommUserRank(comm, &rank), "koloCommUserRank");
    join(argv[1], argv[2], atoi(argv[3]));
    for (int arg = 5; arg < argc; arg++) {
        size_t bytes = strtoull(argv[arg], NULL, 0);
        uint64_t *mine = aligned_alloc(4096, bytes), *theirs = aligned_alloc(4096, bytes);
        must(bytes % 4096 == 0 && mine && theirs, "a multiple of 4096 bytes");
        memset(theirs, 0xa5, bytes);
        measure(comm, rank, 2, bytes, mine, theirs);
        measure(NULL, rank, 2, bytes, mine, theirs);
        double times[ROUNDS][2];
        for (int round = 0; round < ROUNDS; round++) {
            times[round][0] = measure(comm, rank, count, bytes, mine, theirs);
            times[round][1] = measure(NULL, rank, count, bytes, mine, theirs);
        }
        if (rank == 0) {
            printf("%zu", bytes);
            for (int round = 0; round < ROUNDS; round++)
                printf(" %.1f %.1f", times[round][0], times[round][1]);
            printf("\n");
            fflush(stdout);
        }
        free(mine);
        free(theirs);
    }
    kolo(koloCommDestroy(comm), "koloCommDestroy");
    return 0;
}
