/* Counts the MPIs in a process that has started kolo over its own. */
#include <kolo_mpi.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    koloComm_t comm;
    char line[4096], last[4096] = "";
    int rank, one, sum = 0, mpis = 0;
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    one = rank + 1;
    if (koloCommInitMPI(&comm, MPI_COMM_WORLD) ||
        koloAllReduce(&one, &sum, 1, koloInt32, koloSum, comm, 0) || koloCommDestroy(comm)) {
        fprintf(stderr, "%s\n", koloGetLastError(NULL));
        return 1;
    }
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        const char *name = strrchr(line, '/');
        if (!name || (strncmp(name, "/libmpi.so", 10) && strncmp(name, "/libmpic", 8))) continue;
        mpis += strcmp(name, last) != 0;
        snprintf(last, sizeof last, "%s", name);
    }
    if (maps) fclose(maps);
    MPI_Finalize();
    printf("%d MPI, the sum is %d\n", mpis, sum);
    return 0;
}
