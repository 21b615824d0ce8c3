/* without_mpi env|slurm N: makes N communicators, one after the other, without MPI. */
#include "check.h"
#include <string.h>

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    for (int round = 0; round < atoi(argv[2]); round++) {
        koloComm_t comm;
        if (strcmp(argv[1], "slurm") == 0)
            must(koloCommInitSlurm(&comm), "koloCommInitSlurm");
        else
            must(koloCommInitEnv(&comm), "koloCommInitEnv");
        tell(comm);
        must(koloCommDestroy(comm), "koloCommDestroy");
    }
    return 0;
}
