/* Round trips of 8 bytes over one TCP connection with blocking calls: what the system itself takes.
   pingpong listen PORT | pingpong ADDRESS PORT COUNT
   prints the median round trip in microseconds. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static void must(int good, const char *what) {
    if (!good) {
        perror(what);
        exit(1);
    }
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int pass(int fd, char word[8]) {
    return recv(fd, word, 8, MSG_WAITALL) == 8;
}

int main(int argc, char **argv) {
    struct sockaddr_in place = {.sin_family = AF_INET};
    int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    char word[8] = "ping";
    must(argc >= 3 && fd >= 0, "pingpong listen PORT | pingpong ADDRESS PORT COUNT");
    place.sin_port = htons((unsigned short)atoi(argv[2]));
    if (!strcmp(argv[1], "listen")) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        must(bind(fd, (struct sockaddr *)&place, sizeof place) == 0, "bind");
        must(listen(fd, 1) == 0, "listen");
        printf("listening\n");
        fflush(stdout);
        int peer = accept(fd, NULL, NULL);
        must(peer >= 0, "accept");
        setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        while (pass(peer, word)) {
            must(send(peer, word, 8, 0) == 8, "send");
        }
        return 0;
    }
    must(argc == 4 && inet_pton(AF_INET, argv[1], &place.sin_addr) == 1, "ADDRESS PORT COUNT");
    must(connect(fd, (struct sockaddr *)&place, sizeof place) == 0, "connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    int count = atoi(argv[3]);
    double *times = calloc((size_t)count, sizeof *times);
    must(times != NULL && count > 0, "COUNT");
    for (int i = -1000; i < count; i++) {
        double start = now();
        must(send(fd, word, 8, 0) == 8 && pass(fd, word), "round trip");
        if (i >= 0) {
            times[i] = now() - start;
        }
    }
    qsort(times, (size_t)count, sizeof *times, by_value);
    printf("%.2f\n", times[count / 2]);
    return 0;
}
