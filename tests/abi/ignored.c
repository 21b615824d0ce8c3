/* A program that looks at no result: what goes wrong must be seen all the same. The test that runs
 * it reads standard error. */
#define KOLO_MAY_DROP_RESULTS
#include <kolo.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    koloComm_t comms[2] = {NULL, NULL};
    double x[4] = {1, 2, 3, 4}, sum[4] = {-1, -1, -1, -1};
    const int times = argc > 1 ? atoi(argv[1]) : 1;
    koloMemFree(x);
    koloCommInitAll(comms, 1, NULL);
    koloCommInitAll(comms + 1, 1, NULL);
    /* A loop that fails for ever: told once, then counted; on another communicator told again. */
    for (int i = 0; i < times; i++)
        koloAllReduce(x, NULL, 4, koloDouble, koloSum, comms[0], NULL);
    koloAllReduce(x, NULL, 4, koloDouble, koloSum, comms[1], NULL);
    /* Another mistake on the same communicator, in a group whose end passes it on. */
    koloGroupStart();
    koloBroadcast(x, x, 4, koloDouble, 7, comms[0], NULL);
    koloGroupEnd();
    printf("the sum is %g\n", sum[0]);
    koloCommDestroy(comms[0]);
    koloBarrier(comms[0], NULL);
    koloCommDestroy(comms[1]);
    puts("ignored: ok");
    return 0;
}
