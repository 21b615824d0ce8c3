/*
 * koloCommInitMPI and koloCommInitMPI_f as a program calls them, against the double of libkolo:
 * communicators of every kind, every misuse, and progress of MPI while kolo waits.
 * Usage: init FILE [THREAD_LEVEL], where FILE can be created by rank 0.
 */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../bindings/mpi/kolo_mpi.h"

static int rank = -1, size;

#define CHECK(condition)                                                                   \
    do {                                                                                   \
        if (!(condition)) {                                                                \
            fprintf(stderr, "rank %d: %s:%d: %s fails; last error: %s\n", rank, __FILE__,  \
                    __LINE__, #condition, koloGetLastError(NULL));                         \
            if (rank >= 0)                                                                 \
                MPI_Abort(MPI_COMM_WORLD, 1);                                              \
            exit(1);                                                                       \
        }                                                                                  \
    } while (0)

static void refused(koloResult_t got, koloResult_t code, const char *word)
{
    CHECK(got == code);
    CHECK(strstr(koloGetLastError(NULL), word) != NULL);
    CHECK(strstr(koloGetLastError(NULL), "Remedy: ") != NULL);
}

/* Communicators of every kind; the program's own are freed before kolo's, and stay usable. */
static void kinds(void)
{
    koloComm_t world, self, part, fortran, twice;
    CHECK(koloCommInitMPI(&world, MPI_COMM_WORLD) == koloSuccess);
    CHECK(double_table(world)->rank == rank && double_table(world)->nranks == size);
    CHECK(koloCommInitMPI(&self, MPI_COMM_SELF) == koloSuccess);
    CHECK(double_table(self)->nranks == 1);

    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    int half_rank, half_size;
    MPI_Comm_rank(half, &half_rank);
    MPI_Comm_size(half, &half_size);
    CHECK(koloCommInitMPI(&part, half) == koloSuccess);
    CHECK(double_table(part)->rank == half_rank && double_table(part)->nranks == half_size);
    CHECK(koloCommInitMPI_f(&fortran, MPI_Comm_c2f(half)) == koloSuccess);
    CHECK(double_table(fortran)->nranks == half_size);
    CHECK(koloCommInitMPI(&twice, half) == koloSuccess);
    CHECK(double_held() == 5);

    double_refuse();
    koloComm_t none;
    CHECK(koloCommInitMPI(&none, half) == koloSystemError);
    CHECK(double_held() == 5);

    /* kolo has neither freed nor changed the program's communicator. */
    CHECK(koloCommDestroy(twice) == koloSuccess);
    int sum = 0, one = 1;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, half);
    CHECK(sum == half_size);
    MPI_Comm_free(&half);
    for (int k = 0; k < 1000; k++)
        CHECK(double_table(part)->idle(double_table(part)->ctx) == 0);
    CHECK(koloCommDestroy(part) == koloSuccess);
    CHECK(koloCommDestroy(fortran) == koloSuccess);
    CHECK(koloCommDestroy(self) == koloSuccess);
    CHECK(koloCommDestroy(world) == koloSuccess);
    CHECK(double_held() == 0);
}

static void misuse(void)
{
    koloComm_t comm = NULL;
    refused(koloCommInitMPI(&comm, MPI_COMM_NULL), koloInvalidArgument, "MPI_COMM_NULL");
    refused(koloCommInitMPI_f(&comm, MPI_Comm_c2f(MPI_COMM_NULL)), koloInvalidArgument,
            "MPI_COMM_NULL");
    CHECK(koloCommInitMPI(NULL, MPI_COMM_SELF) == koloInvalidArgument);
    if (size > 1) {
        MPI_Comm half, inter;
        MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 3, &inter);
        refused(koloCommInitMPI(&comm, inter), koloInvalidArgument, "inter-communicator");
        MPI_Comm_free(&inter);
        MPI_Comm_free(&half);
    }
    CHECK(comm == NULL && double_held() == 0);
}

/*
 * Rank 1 sends synchronously: that ends only when rank 0 makes progress, and rank 0 calls nothing
 * but idle. A message that rank 0 never expected is in the way, as in a real program.
 */
static void progress(const char *file)
{
    if (size < 2)
        return;
    if (rank == 0) {
        int fd = open(file, O_CREAT | O_RDWR | O_TRUNC, 0600);
        CHECK(fd >= 0 && ftruncate(fd, 4096) == 0);
        close(fd);
    }
    koloComm_t world;
    CHECK(koloCommInitMPI(&world, MPI_COMM_WORLD) == koloSuccess);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank < 2) {
        int fd = open(file, O_RDWR);
        volatile int *done = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        CHECK(fd >= 0 && done != MAP_FAILED);
        int value = 41 + rank, unexpected = 5;
        if (rank == 1) {
            MPI_Send(&unexpected, 1, MPI_INT, 0, 12, MPI_COMM_WORLD);
            while (*done != 1)
                usleep(1000);
            MPI_Ssend(&value, 1, MPI_INT, 0, 11, MPI_COMM_WORLD);
            *done = 2;
        } else {
            int flag = 0, got = 0, received = 0;
            /* The unexpected message has arrived when a probe sees it. */
            while (!flag)
                MPI_Iprobe(1, 12, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
            MPI_Request request;
            MPI_Irecv(&got, 1, MPI_INT, 1, 11, MPI_COMM_WORLD, &request);
            *done = 1;
            usleep(300000);
            CHECK(*done == 1); /* without idle nothing moves, so the test can fail */
            double limit = MPI_Wtime() + 20;
            while (*done != 2 && MPI_Wtime() < limit) {
                CHECK(double_table(world)->idle(double_table(world)->ctx) == 0);
                sched_yield();
            }
            CHECK(*done == 2);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            CHECK(got == 42);
            MPI_Recv(&received, 1, MPI_INT, 1, 12, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            CHECK(received == 5);
            unlink(file);
        }
        munmap((void *)done, 4096);
        close(fd);
    }
    CHECK(koloCommDestroy(world) == koloSuccess);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    static const int levels[] = {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED,
                                 MPI_THREAD_MULTIPLE};
    koloComm_t comm = NULL, late;
    if (argc < 2)
        return 2;
    refused(koloCommInitMPI(&comm, MPI_COMM_WORLD), koloInvalidUsage, "not initialised");
    refused(koloCommInitMPI_f(&comm, 0), koloInvalidUsage, "not initialised");
    int given;
    MPI_Init_thread(&argc, &argv, levels[argc > 2 ? atoi(argv[2]) : 0], &given);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    kinds();
    misuse();
    progress(argv[1]);
    CHECK(koloCommInitMPI(&late, MPI_COMM_WORLD) == koloSuccess);
    int me = rank;
    MPI_Finalize();
    rank = -1;
    refused(koloCommInitMPI(&comm, MPI_COMM_WORLD), koloInvalidUsage, "finalised already");
    /* A communicator may outlive MPI, which has no more turns. */
    CHECK(double_table(late)->idle(double_table(late)->ctx) != 0);
    CHECK(koloCommDestroy(late) == koloSuccess);
    if (me == 0)
        printf("init: %d ranks, thread level %d: ok\n", size, given);
    return 0;
}
