/* The program's main thread ends by pthread_exit, and another goes on with kolo. */
#include <kolo.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNT (1 << 20)

static void *work(void *main_thread)
{
    koloComm_t comm;
    void *handle;
    int rank, wrong = 0;
    float *data = malloc(COUNT * sizeof(float));
    pthread_join(*(pthread_t *)main_thread, NULL);
    if (koloCommInitEnv(&comm)) goto failed;
    koloCommUserRank(comm, &rank);
    for (int i = 0; i < COUNT; i++) data[i] = rank + 1;
    if (koloCommRegister(comm, data, COUNT * sizeof(float), &handle)) goto failed;
    if (koloAllReduce(data, data, COUNT, koloFloat32, koloSum, comm, 0)) goto failed;
    for (int i = 0; i < COUNT; i++) wrong += data[i] != 3;
    if (koloCommDeregister(comm, handle) || koloCommDestroy(comm)) goto failed;
    if (!wrong && rank == 0) fputs("all right\n", stdout);
    exit(wrong != 0);
failed:
    fprintf(stderr, "%s\n", koloGetLastError(NULL));
    exit(1);
}

int main(void)
{
    static pthread_t self, thread;
    self = pthread_self();
    if (pthread_create(&thread, NULL, work, &self)) return 1;
    pthread_exit(NULL);
}
