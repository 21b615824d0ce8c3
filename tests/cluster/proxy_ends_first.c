/* Two nodes of two ranks, of which rank 0 sends for rank 1 (pxn=always) and leaves long before it:
   `proxy_ends_first WAY`. Then rank 1 sends to rank 3 ("sends", where all is checked), or aborts
   ("aborts"); or rank 0 has ended with a failure ("fails"), and rank 1 tries to send. In
   the other ways rank 0 sends for nobody, and rank 1 or 2 waits for the other one, with which it
   never had a connection: rank 1 is killed ("dies") or leaves, too ("leaves"), or somebody else
   kills node 2 ("waits"), while the process of rank 0 lives on. */
#include "check.h"
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { COUNT = 1 << 20, MESSAGES = 3 };

static uint32_t value(size_t i, int message) {
    return (uint32_t)i * 2654435761u + (uint32_t)message * 40503u;
}

static void rest(int tenths) {
    struct timespec pause = {tenths / 10, tenths % 10 * 100000000L};
    nanosleep(&pause, NULL);
}

/* A child that the program makes for its own ends waits for nobody. */
static void have_a_child(void) {
    pid_t child = fork();
    if (child == 0) exit(0);
    for (int tenths = 0; tenths < 50; tenths++) {
        int status;
        if (waitpid(child, &status, WNOHANG) == child) {
            if (status == 0) return;
            break;
        }
        rest(1);
    }
    fprintf(stderr, "the child did not end\n");
    exit(6);
}

static void send_all(koloComm_t comm, uint32_t *data) {
    for (int message = 0; message < MESSAGES; message++) {
        for (size_t i = 0; i < COUNT; i++) data[i] = value(i, message);
        must(koloSend(data, COUNT, koloUint32, 3, comm, NULL), "koloSend");
    }
}

static void receive_all(koloComm_t comm, uint32_t *data, int from) {
    for (int message = 0; message < MESSAGES; message++) {
        memset(data, 0xa5, COUNT * sizeof *data);
        must(koloRecv(data, COUNT, koloUint32, from, comm, NULL), "koloRecv");
        for (size_t i = 0; i < COUNT; i++)
            if (data[i] != value(i, message)) {
                fprintf(stderr, "message %d: element %zu is wrong\n", message, i);
                exit(4);
            }
    }
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    koloComm_t comm;
    must(koloCommInitEnv(&comm), "koloCommInitEnv");
    const char *way = argv[1];
    int rank;
    must(koloCommUserRank(comm, &rank), "koloCommUserRank");
    uint32_t *data = malloc(COUNT * sizeof *data);
    tell(comm);
    if (rank == 1) {
        rest(5);
        fputs("soon\n", stdout);
        fflush(stdout);
        if (!strcmp(way, "waits")) receive_all(comm, data, 2);
        rest(strcmp(way, "fails") ? 10 : 30);
        if (!strcmp(way, "aborts")) {
            must(koloCommAbort(comm), "koloCommAbort");
            return 0;
        }
        if (!strcmp(way, "dies")) raise(SIGKILL);
        if (strcmp(way, "leaves")) send_all(comm, data);
    }
    if (rank > 1 && !strcmp(way, "waits")) pause();
    /* By then rank 2, which sends for it, has heard of the abort and ended. */
    if (rank == 3 && !strcmp(way, "aborts")) rest(25);
    if (rank == 3 && strchr("saf", *way)) receive_all(comm, data, 1);
    if (rank == 2 && strchr("dl", *way)) receive_all(comm, data, 1);
    if (rank == 0) have_a_child();
    must(koloCommDestroy(comm), "koloCommDestroy");
    fputs("right\n", stdout);
    if (rank == 0 && strchr("dlw", *way)) rest(30);
    if (rank == 0 && !strcmp(way, "fails")) exit(3);
    return 0;
}
