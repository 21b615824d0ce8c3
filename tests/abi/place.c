/* A call that fails, for the words about it: the communicator has a name, and the call stands in
 * a function of its own. Prints the line of the call and the sentence. */
#include "check.h"

static int line;

__attribute__((noinline)) static void faulty_step(koloComm_t comm) {
    const double one = 1;
    koloResult_t code;
    line = __LINE__, code = koloSend(&one, 1, koloDouble, 0, comm, NULL);
    CHECK(code == koloInvalidUsage);
}

/* Without a communicator there is a place, too. */
__attribute__((noinline)) static void faulty_start(void) {
    koloResult_t code;
    line = __LINE__, code = koloMemFree(&line);
    CHECK(code != koloSuccess);
}

int main(void) {
    koloConfig_t config = KOLO_CONFIG_INITIALIZER;
    koloUniqueId id;
    koloComm_t comm;
    config.name = "ocean";
    OK(koloGetUniqueId(&id));
    OK(koloCommInitRankConfig(&comm, 1, id, 0, &config));
    faulty_step(comm);
    printf("%d %s\n", line, koloGetLastError(comm));
    faulty_start();
    printf("%d %s\n", line, koloGetLastError(NULL));
    OK(koloCommDestroy(comm));
    return 0;
}
