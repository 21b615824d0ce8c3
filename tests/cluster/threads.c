/* threads: as many threads as OMP_NUM_THREADS says, each with a communicator of its own. */
#include "check.h"
#include <kolo_mpi.h>
#include <pthread.h>

enum { MOST = 16 };

struct job {
    koloComm_t comm;
    int number, rank, nranks;
};

static void *work(void *given) {
    struct job *job = given;
    for (int turn = 1; turn <= 20; turn++) {
        long mine = (long)(job->rank + 1) * (job->number + 1) * turn, sum = -1;
        long all = (long)job->nranks * (job->nranks + 1) / 2 * (job->number + 1) * turn;
        must(koloAllReduce(&mine, &sum, 1, koloInt64, koloSum, job->comm, NULL), "koloAllReduce");
        if (sum != all) {
            fprintf(stderr, "thread %d turn %d: %ld, not %ld\n", job->number, turn, sum, all);
            exit(1);
        }
    }
    return NULL;
}

int main(int argc, char **argv) {
    const char *said = getenv("OMP_NUM_THREADS");
    int count = said ? atoi(said) : 0, level;
    struct job jobs[MOST];
    pthread_t threads[MOST];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    if (count < 1 || count > MOST) return 2;
    for (int i = 0; i < count; i++) {
        jobs[i].number = i;
        must(koloCommInitMPI(&jobs[i].comm, MPI_COMM_WORLD), "koloCommInitMPI");
        must(koloCommUserRank(jobs[i].comm, &jobs[i].rank), "koloCommUserRank");
        must(koloCommCount(jobs[i].comm, &jobs[i].nranks), "koloCommCount");
    }
    for (int i = 0; i < count; i++) pthread_create(&threads[i], NULL, work, &jobs[i]);
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
    printf("rank %d of %d: %d threads agree\n", jobs[0].rank, jobs[0].nranks, count);
    fflush(stdout);
    for (int i = 0; i < count; i++) must(koloCommDestroy(jobs[i].comm), "koloCommDestroy");
    MPI_Finalize();
    return 0;
}
