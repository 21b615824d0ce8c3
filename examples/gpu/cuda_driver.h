/* The few calls of CUDA's driver that the examples here make. CUDA brings <cuda.h> for them; this
 * header takes its place, so that the examples build where no CUDA is installed: cuda_load finds
 * the calls in the driver's library, libcuda.so.1, when the program runs. */
#ifndef CUDA_DRIVER_H
#define CUDA_DRIVER_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef int CUresult; /* CUDA_SUCCESS, or the number of an error */
typedef int CUdevice;
typedef unsigned long long CUdeviceptr; /* an address in the memory of a device */
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;

enum { CUDA_SUCCESS = 0, CU_STREAM_NON_BLOCKING = 1 };

/* The name in programs, that in the library (`_v2` where CUDA changed a call), the arguments. */
#define CUDA_CALLS(CALL)                                                                         \
    CALL(cuInit, "cuInit", (unsigned int flags))                                                 \
    CALL(cuGetErrorString, "cuGetErrorString", (CUresult error, const char **sentence))          \
    CALL(cuDeviceGetCount, "cuDeviceGetCount", (int *count))                                     \
    CALL(cuDeviceGet, "cuDeviceGet", (CUdevice * device, int number))                            \
    CALL(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain",                                   \
         (CUcontext * context, CUdevice device))                                                 \
    CALL(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (CUdevice device))           \
    CALL(cuCtxSetCurrent, "cuCtxSetCurrent", (CUcontext context))                                \
    CALL(cuMemAlloc, "cuMemAlloc_v2", (CUdeviceptr * memory, size_t bytes))                      \
    CALL(cuMemFree, "cuMemFree_v2", (CUdeviceptr memory))                                        \
    CALL(cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2",                                              \
         (CUdeviceptr to, const void *from, size_t bytes, CUstream stream))                      \
    CALL(cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2",                                              \
         (void *to, CUdeviceptr from, size_t bytes, CUstream stream))                            \
    CALL(cuStreamCreate, "cuStreamCreate", (CUstream * stream, unsigned int flags))              \
    CALL(cuStreamSynchronize, "cuStreamSynchronize", (CUstream stream))                          \
    CALL(cuStreamDestroy, "cuStreamDestroy_v2", (CUstream stream))

#define CUDA_DECLARE(name, in_library, arguments) static CUresult(*name) arguments;
CUDA_CALLS(CUDA_DECLARE)
#undef CUDA_DECLARE

/* Finds one call; 1 when it is there. ISO C knows no cast from an object's address to a function's,
 * so the bytes are copied. */
static int cuda_find(void *library, const char *in_library, void *call) {
    void *const found = dlsym(library, in_library);
    if (found == NULL)
        fprintf(stderr, "libcuda.so.1 has no %s: a newer driver is needed\n", in_library);
    memcpy(call, &found, sizeof found);
    return found != NULL;
}

/* Loads the driver; 1 when every call was found. It stays loaded until the program ends. */
static int cuda_load(void) {
    int all = 1;
    void *const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "no CUDA driver: %s\n", dlerror());
        fprintf(stderr, "Without a GPU: kolo softgpu -n 4 -- PROGRAM\n");
        return 0;
    }
#define CUDA_FIND(name, in_library, arguments) all &= cuda_find(library, in_library, &name);
    CUDA_CALLS(CUDA_FIND)
#undef CUDA_FIND
    return all;
}

/* The driver's own sentence for an error. */
static const char *cuda_sentence(CUresult error) {
    const char *sentence = NULL;
    if (cuGetErrorString(error, &sentence) != CUDA_SUCCESS || sentence == NULL)
        return "an error that this driver does not know";
    return sentence;
}

#endif
