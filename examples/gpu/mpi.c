/* MPI, kolo and GPUs: each MPI rank has a GPU of its machine, kolo adds on the GPUs what MPI adds
 * on the hosts, and both must have the same sums.
 *
 *     mpicc mpi.c $(pkg-config --cflags --libs kolo) -ldl -o mpi
 *     mpirun -n 4 ./mpi                              on GPUs
 *     mpirun -n 4 kolo softgpu -n 4 -- ./mpi         on four made of software
 */
#include "cuda_driver.h"
#include <kolo.h>
#include <mpi.h>
#include <stdlib.h>

#define COUNT 100003 /* elements of a rank */
#define BYTES (COUNT * sizeof(float))

/* A rank that fails ends the others too, or they would wait for it. */
#define FAIL(...)                          \
    do {                                   \
        fprintf(stderr, __VA_ARGS__);      \
        MPI_Abort(MPI_COMM_WORLD, 1);      \
        exit(1);                           \
    } while (0)
#define MPI_OK(call)                                                                    \
    do {                                                                                \
        if ((call) != MPI_SUCCESS) FAIL("line %d: MPI failed\n", __LINE__);             \
    } while (0)
#define CUDA_OK(call)                                                                   \
    do {                                                                                \
        const CUresult error = (call);                                                  \
        if (error != CUDA_SUCCESS)                                                      \
            FAIL("line %d: CUDA: %s\n", __LINE__, cuda_sentence(error));                \
    } while (0)
#define KOLO_OK(call)                                                                   \
    do {                                                                                \
        if ((call) != koloSuccess)                                                      \
            FAIL("line %d: %s\n", __LINE__, koloGetLastError(NULL));                    \
    } while (0)

/* Whole numbers below 2^24 / ranks, so that sums in float are exact in whatever order. */
static float element(int rank, int i) { return (float)((rank + 1) * (i % 4999) + rank); }

/* The number of this rank's device: its place among the ranks of its machine. With fewer devices
 * than ranks, several ranks share one. */
static int choose_device(void) {
    MPI_Comm machine;
    int local, devices;
    MPI_OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine));
    MPI_OK(MPI_Comm_rank(machine, &local));
    MPI_OK(MPI_Comm_free(&machine));
    CUDA_OK(cuDeviceGetCount(&devices));
    if (devices == 0) FAIL("there is no GPU\n");
    return local % devices;
}

/* The communicator of all ranks, each with its device. MPI hands the id round. */
static koloComm_t make_communicator(int rank, int nranks, int device) {
    koloConfig_t config = KOLO_CONFIG_INITIALIZER;
    koloUniqueId id;
    koloComm_t comm;
    config.device = device;
    if (rank == 0) KOLO_OK(koloGetUniqueId(&id));
    MPI_OK(MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD));
    KOLO_OK(koloCommInitRankConfig(&comm, nranks, id, rank, &config));
    return comm;
}

/* Sends `data` through the device, so that `sums` has what kolo added. */
static void add_on_device(koloComm_t comm, const float *data, float *sums) {
    CUstream stream;
    CUdeviceptr send, recv;
    koloResult_t outcome;
    CUDA_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUDA_OK(cuMemAlloc(&send, BYTES));
    CUDA_OK(cuMemAlloc(&recv, BYTES));
    /* All on one stream, which keeps the order. */
    CUDA_OK(cuMemcpyHtoDAsync(send, data, BYTES, stream));
    CUDA_OK(cuMemcpyHtoDAsync(recv, sums, BYTES, stream));
    KOLO_OK(koloAllReduce((const void *)send, (void *)recv, COUNT, koloFloat, koloSum, comm,
                          (koloStream_t)stream));
    CUDA_OK(cuMemcpyDtoHAsync(sums, recv, BYTES, stream));
    CUDA_OK(cuStreamSynchronize(stream));
    /* The stream also ends when a rank has failed: kolo knows whether all went well. */
    KOLO_OK(koloCommGetAsyncError(comm, &outcome));
    if (outcome != koloSuccess) FAIL("%s\n", koloGetLastError(comm));
    CUDA_OK(cuMemFree(send));
    CUDA_OK(cuMemFree(recv));
    CUDA_OK(cuStreamDestroy(stream));
}

/* Rank 0 tells of all in one line. */
static void tell(int rank, int nranks, int device, int wrong) {
    int *const devices = malloc((size_t)nranks * sizeof *devices);
    if (devices == NULL) FAIL("no memory\n");
    MPI_OK(MPI_Gather(&device, 1, MPI_INT, devices, 1, MPI_INT, 0, MPI_COMM_WORLD));
    if (rank == 0) {
        printf("%d ranks on devices", nranks);
        for (int r = 0; r < nranks; r++) printf(" %d", devices[r]);
        printf(": %d sums on each, other than MPI's: %d\n", COUNT, wrong);
    }
    free(devices);
}

int main(int argc, char **argv) {
    int rank, nranks, wrong = 0;
    CUdevice device;
    CUcontext context;

    MPI_OK(MPI_Init(&argc, &argv));
    MPI_OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    MPI_OK(MPI_Comm_size(MPI_COMM_WORLD, &nranks));
    if (!cuda_load()) FAIL("rank %d has no CUDA driver that can be used\n", rank);
    CUDA_OK(cuInit(0));
    const int number = choose_device();
    CUDA_OK(cuDeviceGet(&device, number));
    CUDA_OK(cuDevicePrimaryCtxRetain(&context, device));
    CUDA_OK(cuCtxSetCurrent(context));
    koloComm_t comm = make_communicator(rank, nranks, number);

    float *const data = malloc(BYTES), *const sums = malloc(BYTES), *const by_mpi = malloc(BYTES);
    if (data == NULL || sums == NULL || by_mpi == NULL) FAIL("no memory\n");
    for (int i = 0; i < COUNT; i++) {
        data[i] = element(rank, i);
        sums[i] = -1; /* what stays so was not written */
    }
    add_on_device(comm, data, sums);
    MPI_OK(MPI_Allreduce(data, by_mpi, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD));
    for (int i = 0; i < COUNT; i++) wrong += sums[i] != by_mpi[i];
    MPI_OK(MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    tell(rank, nranks, number, wrong);

    KOLO_OK(koloCommDestroy(comm));
    CUDA_OK(cuDevicePrimaryCtxRelease(device));
    free(data);
    free(sums);
    free(by_mpi);
    MPI_OK(MPI_Finalize());
    return wrong != 0;
}
