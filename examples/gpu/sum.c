/* One process, two GPUs: their data are added element by element, and both have the sums.
 *
 *     cc sum.c $(pkg-config --cflags --libs kolo) -ldl -o sum
 *     ./sum                              on two GPUs
 *     kolo softgpu -n 2 -- ./sum         on two made of software
 */
#include "cuda_driver.h"
#include <kolo.h>
#include <stdlib.h>

#define GPUS 2
#define COUNT 100003 /* elements of a GPU */
#define BYTES (COUNT * sizeof(float))

#define CUDA_OK(call)                                                                     \
    do {                                                                                  \
        const CUresult error = (call);                                                    \
        if (error != CUDA_SUCCESS) {                                                      \
            fprintf(stderr, "line %d: CUDA: %s\n", __LINE__, cuda_sentence(error));       \
            exit(1);                                                                      \
        }                                                                                 \
    } while (0)
#define KOLO_OK(call)                                                                     \
    do {                                                                                  \
        if ((call) != koloSuccess) {                                                      \
            fprintf(stderr, "line %d: %s\n", __LINE__, koloGetLastError(NULL));           \
            exit(1);                                                                      \
        }                                                                                 \
    } while (0)

/* What belongs to one GPU. */
struct gpu {
    CUdevice device;
    CUcontext context;
    CUstream stream;
    CUdeviceptr send, recv; /* in its memory */
    float *data, *sums;     /* the same in the memory of the host */
};

/* Whole numbers below 2^24, so that their sums in float are exact. */
static float element(int rank, int i) { return (float)((rank + 1) * (i % 4999) + rank); }

static float sum_of_elements(int i) {
    float sum = 0;
    for (int rank = 0; rank < GPUS; rank++) sum += element(rank, i);
    return sum;
}

/* Memory and a stream on device `number`, and the data of its rank on their way there. */
static void open_gpu(struct gpu *gpu, int rank, int number) {
    CUDA_OK(cuDeviceGet(&gpu->device, number));
    CUDA_OK(cuDevicePrimaryCtxRetain(&gpu->context, gpu->device));
    CUDA_OK(cuCtxSetCurrent(gpu->context));
    CUDA_OK(cuStreamCreate(&gpu->stream, CU_STREAM_NON_BLOCKING));
    CUDA_OK(cuMemAlloc(&gpu->send, BYTES));
    CUDA_OK(cuMemAlloc(&gpu->recv, BYTES));
    gpu->data = malloc(BYTES);
    gpu->sums = malloc(BYTES);
    if (gpu->data == NULL || gpu->sums == NULL) {
        fprintf(stderr, "no memory\n");
        exit(1);
    }
    for (int i = 0; i < COUNT; i++) {
        gpu->data[i] = element(rank, i);
        gpu->sums[i] = -1;
    }
    /* On the stream that adds them, so nothing needs to wait for the copies. The -1 show later that
     * every element was written. */
    CUDA_OK(cuMemcpyHtoDAsync(gpu->send, gpu->data, BYTES, gpu->stream));
    CUDA_OK(cuMemcpyHtoDAsync(gpu->recv, gpu->sums, BYTES, gpu->stream));
}

/* Waits for the sums of this GPU; how many are wrong. */
static int wrong_sums(struct gpu *gpu, koloComm_t comm) {
    koloResult_t outcome;
    int wrong = 0;
    CUDA_OK(cuCtxSetCurrent(gpu->context));
    CUDA_OK(cuMemcpyDtoHAsync(gpu->sums, gpu->recv, BYTES, gpu->stream));
    CUDA_OK(cuStreamSynchronize(gpu->stream));
    /* The stream also ends when a rank has failed: kolo knows whether all went well. */
    KOLO_OK(koloCommGetAsyncError(comm, &outcome));
    if (outcome != koloSuccess) {
        fprintf(stderr, "%s\n", koloGetLastError(comm));
        exit(1);
    }
    for (int i = 0; i < COUNT; i++) wrong += gpu->sums[i] != sum_of_elements(i);
    return wrong;
}

static void close_gpu(struct gpu *gpu) {
    CUDA_OK(cuCtxSetCurrent(gpu->context));
    CUDA_OK(cuMemFree(gpu->send));
    CUDA_OK(cuMemFree(gpu->recv));
    CUDA_OK(cuStreamDestroy(gpu->stream));
    CUDA_OK(cuDevicePrimaryCtxRelease(gpu->device));
    free(gpu->data);
    free(gpu->sums);
}

int main(void) {
    const int devices[GPUS] = {0, 1};
    struct gpu gpus[GPUS];
    koloComm_t comms[GPUS];
    int there, wrong = 0;

    if (!cuda_load()) return 1;
    CUDA_OK(cuInit(0));
    CUDA_OK(cuDeviceGetCount(&there));
    if (there < GPUS) {
        fprintf(stderr, "GPUs here: %d, needed: %d\n", there, GPUS);
        return 1;
    }
    for (int rank = 0; rank < GPUS; rank++) open_gpu(&gpus[rank], rank, devices[rank]);
    KOLO_OK(koloCommInitAll(comms, GPUS, devices));

    KOLO_OK(koloGroupStart());
    for (int rank = 0; rank < GPUS; rank++)
        KOLO_OK(koloAllReduce((const void *)gpus[rank].send, (void *)gpus[rank].recv, COUNT,
                              koloFloat, koloSum, comms[rank], (koloStream_t)gpus[rank].stream));
    KOLO_OK(koloGroupEnd());

    for (int rank = 0; rank < GPUS; rank++) wrong += wrong_sums(&gpus[rank], comms[rank]);
    for (int rank = 0; rank < GPUS; rank++) KOLO_OK(koloCommDestroy(comms[rank]));
    for (int rank = 0; rank < GPUS; rank++) close_gpu(&gpus[rank]);
    printf("%d GPUs, %d sums on each, wrong: %d\n", GPUS, COUNT, wrong);
    return wrong != 0;
}
