/* Buffers of malloc that are registered, mixed with private ones and with those of koloMemAlloc, on
   the heap and in mappings of their own, in an order that changes; results are right while they are
   registered and afterwards, and a registered buffer is read where it lies. */
#include <kolo_mpi.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CALLS 60

static int rank, nranks;
static koloComm_t comm;

static void must(koloResult_t result, const char *what) {
    if (result == koloSuccess) return;
    fprintf(stderr, "rank %d, %s: %s\n", rank, what, koloGetLastError(comm));
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void check(int holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "rank %d: %s; last error: %s\n", rank, what, koloGetLastError(comm));
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* How the pages at an address are mapped: 's' shared, 'p' privately. */
static char mapped(const void *place) {
    char line[512], rights[8];
    unsigned long start, end;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx %7s", &start, &end, rights) == 3 && (uintptr_t)place >= start &&
            (uintptr_t)place < end) {
            fclose(maps);
            return rights[3];
        }
    check(0, "an address that is not mapped");
    return 0;
}

/* How the second page of a buffer is mapped: the first may hold other data too, and stays. */
static char second(const void *place) { return mapped((const char *)place + 4096); }

/* Whether the pages of a buffer are moved, where that helps anybody. */
static int moved(const void *place) { return nranks == 1 || second(place) == 's'; }

static double value(int of, size_t element, int call) {
    return (double)((of * 31 + element * 7 + (size_t)call * 13) % 101) - 50;
}

static void poison(double *place, size_t count) { memset(place, 0x5a, count * sizeof *place); }

/* All-reduce, all-gather and broadcast of `count` elements. */
static void calls(double *send, double *recv, size_t count, int call) {
    const size_t part = count / nranks;
    for (size_t e = 0; e < count; e++) send[e] = value(rank, e, call);
    if (send != recv) poison(recv, count);
    must(koloAllReduce(send, recv, count, koloDouble, koloSum, comm, NULL), "all-reduce");
    for (size_t e = 0; e < count; e++) {
        double sum = 0;
        for (int r = 0; r < nranks; r++) sum += value(r, e, call);
        check(recv[e] == sum, "all-reduce is wrong");
    }
    poison(recv, count);
    for (size_t e = 0; e < part; e++) recv[rank * part + e] = value(rank, e, call);
    must(koloAllGather(recv + rank * part, recv, part, koloDouble, comm, NULL), "all-gather");
    for (size_t e = 0; e < part * nranks; e++)
        check(recv[e] == value((int)(e / part), e % part, call), "all-gather is wrong");
    if (rank == call % nranks)
        for (size_t e = 0; e < count; e++) recv[e] = value(rank, e, call);
    else
        poison(recv, count);
    must(koloBroadcast(recv, recv, count, koloDouble, call % nranks, comm, NULL), "broadcast");
    for (size_t e = 0; e < count; e++)
        check(recv[e] == value(call % nranks, e, call), "broadcast is wrong");
}

/* Kinds of buffers, in turns: registered, of koloMemAlloc, or private on one rank. */
static void mixed(void) {
    for (int call = 0; call < CALLS; call++) {
        const size_t count = 20000 + (size_t)call * 1777, bytes = count * sizeof(double);
        const int private_here = call % 5 == 4 && call % nranks == rank;
        const int own = call % 7 == 3;
        void *handles[2] = {NULL, NULL}, *place[2];
        for (int i = 0; i < 2; i++) {
            if (own)
                must(koloMemAlloc(&place[i], bytes), "koloMemAlloc");
            else
                check((place[i] = malloc(bytes)) != NULL, "malloc");
            /* Not all pages of a new buffer are there. */
            if (call % 2) memset(place[i], i, bytes / 2);
            if (private_here) continue;
            must(koloCommRegister(comm, place[i], bytes, &handles[i]), "register");
            if (!own) check(moved(place[i]), "nothing was moved");
        }
        calls(place[0], place[call % 3 == 2 ? 0 : 1], count, call);
        for (int i = 0; i < 2; i++) {
            if (!private_here) must(koloCommDeregister(comm, handles[i]), "deregister");
            if (!own) check(second(place[i]) == 'p', "not moved back");
        }
        calls(place[0], place[1], count, call + 1);
        for (int i = 0; i < 2; i++) {
            if (own)
                must(koloMemFree(place[i]), "koloMemFree");
            else
                free(place[i]);
        }
    }
}

/* Buffers of the main heap, which share pages with other blocks of malloc. */
static void on_the_heap(void) {
    enum { BUFFERS = 12, COUNT = 12345 };
    double *place[BUFFERS];
    void *handle[BUFFERS];
    char *notes[BUFFERS];
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    for (int i = 0; i < BUFFERS; i++) {
        check((place[i] = malloc(COUNT * sizeof(double))) != NULL, "malloc");
        check((notes[i] = malloc(100)) != NULL, "malloc");
        sprintf(notes[i], "note %d of rank %d", i, rank);
    }
    for (int i = 0; i < BUFFERS; i++)
        must(koloCommRegister(comm, place[i], COUNT * sizeof(double), &handle[i]), "register");
    for (int i = 0; i + 1 < BUFFERS; i += 2) calls(place[i], place[i + 1], COUNT, i);
    for (int i = 0; i < BUFFERS; i++) {
        char expected[100];
        sprintf(expected, "note %d of rank %d", i, rank);
        check(strcmp(notes[i], expected) == 0, "a note has changed");
        /* malloc goes on beside them, and a child can use it. */
        free(notes[i]);
        notes[i] = malloc(5000);
        malloc_trim(0);
        memset(notes[i], i, 5000);
    }
    const double before = place[0][1];
    const pid_t child = fork();
    if (child == 0) {
        char *more = malloc(100000);
        memset(more, 1, 100000);
        for (int i = 0; i < BUFFERS; i++) free(notes[i]);
        const int same = place[0][1] == before;
        for (int i = 0; i < COUNT; i++) place[0][i] = -1;
        _exit(same ? 0 : 1);
    }
    int status = -1;
    check(child > 0 && waitpid(child, &status, 0) == child && status == 0, "the child");
    check(place[0][1] == before, "the child has written here");
    for (int i = BUFFERS - 1; i >= 0; i -= 2)
        must(koloCommDeregister(comm, handle[i]), "deregister");
    for (int i = 0; i + 1 < BUFFERS; i += 2) calls(place[i], place[i + 1], COUNT, i);
    for (int i = 0; i < BUFFERS; i += 2) must(koloCommDeregister(comm, handle[i]), "deregister");
    for (int i = 0; i < BUFFERS; i++) free(place[i]);
    for (int i = 0; i < BUFFERS; i++) free(notes[i]);
}

static int fails(koloResult_t result, const char *words) {
    return result == koloInvalidArgument && strstr(koloGetLastError(comm), words) &&
           strstr(koloGetLastError(comm), "Remedy: ");
}

static double of_the_program[100000];
static const char constants[20000] = {1};

/* What cannot be moved is refused, where it would be moved. */
static void immovable(void) {
    double on_the_stack[2000], *const place = malloc(80000);
    void *handle = NULL;
    check(fails(koloCommRegister(comm, on_the_stack, sizeof on_the_stack, &handle), "stack"),
          "a buffer on the stack");
    check(fails(koloCommRegister(comm, place, SIZE_MAX, &handle), "address space"), "a size");
    check(fails(koloCommRegister(comm, (void *)(uintptr_t)constants, sizeof constants, &handle),
                "file"),
          "constants");
    check(handle == NULL, "a handle of nothing");
    free(place);
}

/* What is refused, and with which words. */
static void misuse(void) {
    void *handle = NULL, *other = NULL;
    double *place = malloc(80000);
    koloComm_t twin;
    check(fails(koloCommRegister(comm, place, 80000, NULL), "handle"), "no place for a handle");
    check(fails(koloCommRegister(comm, NULL, 80000, &handle), "NULL"), "no buffer");
    check(handle == NULL, "a handle of nothing");
    /* Variables without initial values are memory without a file, but for the first and last. */
    must(koloCommRegister(comm, of_the_program + 10000, 80000, &handle), "register a variable");
    check(moved(of_the_program + 10000), "a variable was not moved");
    calls(of_the_program + 10000, of_the_program + 10000, 10000, 1);
    must(koloCommDeregister(comm, handle), "deregister");
    handle = NULL;
    must(koloCommRegister(comm, place, 80000, &handle), "register");
    must(koloCommRegister(comm, place, 80000, &other), "register twice");
    check(handle != other, "two handles");
    must(koloCommDeregister(comm, handle), "deregister");
    check(moved(place), "the other registration holds it");
    check(fails(koloCommDeregister(comm, handle), "has ended"), "twice");
    check(fails(koloCommDeregister(comm, NULL), "no registration"), "NULL");
    check(fails(koloCommDeregister(comm, place), "no registration"), "an address");
    must(koloCommSplit(comm, 0, rank, &twin, NULL), "split");
    check(koloCommDeregister(twin, other) == koloInvalidArgument, "of another communicator");
    must(koloCommRegister(twin, place, 80000, &handle), "register with the twin");
    must(koloCommDeregister(comm, other), "deregister");
    check(moved(place), "the twin's registration holds it");
    /* What is left ends with the communicator. */
    must(koloCommDestroy(twin), "destroy");
    check(second(place) == 'p', "not moved back by the end of the twin");
    must(koloCommRegister(comm, NULL, 0, &handle), "nothing at all");
    must(koloCommDeregister(comm, handle), "deregister nothing");
    free(place);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    must(koloCommInitMPI(&comm, MPI_COMM_WORLD), "init");
    mixed();
    if (nranks > 1) immovable();
    misuse();
    on_the_heap();
    must(koloCommDestroy(comm), "destroy");
    MPI_Finalize();
    if (rank == 0) fputs("all right\n", stdout);
    return 0;
}
