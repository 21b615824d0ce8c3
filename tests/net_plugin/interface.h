/*
 * The interface of network plugins, as the test plugin sees it: VERSION is 8, 9, 10 or 11.
 * Written down once more, apart from the loader's declarations, so that a slip in one shows.
 */
#ifndef INTERFACE_H
#define INTERFACE_H

#include <stddef.h>
#include <stdint.h>

enum { OK = 0, SYSTEM = 2, INTERNAL = 3, USAGE = 5, REMOTE = 6 };
enum { HANDLE_BYTES = 128, MAX_GROUP = 8, MAX_REQUESTS = 32, POINTER_HOST = 1 };
enum { LOG_WARN = 2, LOG_INFO = 3 };

typedef void (*log_fn)(int level, unsigned long flags, const char *file, int line,
                       const char *format, ...);
typedef int (*profiler_fn)(void **event, int type, void *parent, int64_t plugin, void *data);

#if VERSION == 8
typedef int size_type;
#else
typedef size_t size_type;
#endif

typedef struct {
    int ndevs;
    int devs[4];
} devices_of;

typedef struct {
    char *name;
    char *pciPath;
    uint64_t guid;
    int ptrSupport;
    int regIsGlobal;
#if VERSION >= 9
    int forceFlush;
#endif
    int speed;
    int port;
    float latency;
    int maxComms;
    int maxRecvs;
    int netDeviceType;
    int netDeviceVersion;
#if VERSION >= 9
    devices_of vProps;
    size_t maxP2pBytes;
    size_t maxCollBytes;
#endif
#if VERSION >= 11
    int maxMultiRequestSize;
#endif
} properties;

typedef struct {
    int trafficClass;
} config;

typedef struct {
    const char *name;
#if VERSION >= 11
    int (*init)(void **ctx, uint64_t commId, config *config, log_fn log, profiler_fn profiler);
#elif VERSION == 10
    int (*init)(log_fn log, profiler_fn profiler);
#else
    int (*init)(log_fn log);
#endif
    int (*devices)(int *ndev);
    int (*getProperties)(int dev, properties *props);
#if VERSION >= 11
    int (*listen)(void *ctx, int dev, void *handle, void **listenComm);
    int (*connect)(void *ctx, int dev, void *handle, void **sendComm, void **sendDevComm);
#else
    int (*listen)(int dev, void *handle, void **listenComm);
#if VERSION == 10
    int (*connect)(int dev, config *config, void *handle, void **sendComm, void **sendDevComm);
#else
    int (*connect)(int dev, void *handle, void **sendComm, void **sendDevComm);
#endif
#endif
    int (*accept)(void *listenComm, void **recvComm, void **recvDevComm);
    int (*regMr)(void *comm, void *data, size_t size, int type, void **mhandle);
    int (*regMrDmaBuf)(void *comm, void *data, size_t size, int type, uint64_t offset, int fd,
                       void **mhandle);
    int (*deregMr)(void *comm, void *mhandle);
#if VERSION >= 10
    int (*isend)(void *sendComm, void *data, size_type size, int tag, void *mhandle,
                 void *phandle, void **request);
    int (*irecv)(void *recvComm, int n, void **data, size_type *sizes, int *tags,
                 void **mhandles, void **phandles, void **request);
#else
    int (*isend)(void *sendComm, void *data, size_type size, int tag, void *mhandle,
                 void **request);
    int (*irecv)(void *recvComm, int n, void **data, size_type *sizes, int *tags,
                 void **mhandles, void **request);
#endif
    int (*iflush)(void *recvComm, int n, void **data, int *sizes, void **mhandles,
                  void **request);
    int (*test)(void *request, int *done, int *sizes);
    int (*closeSend)(void *sendComm);
    int (*closeRecv)(void *recvComm);
    int (*closeListen)(void *listenComm);
    int (*getDeviceMr)(void *comm, void *mhandle, void **dptr_mhandle);
    int (*irecvConsumed)(void *recvComm, int n, void *request);
#if VERSION >= 9
    int (*makeVDevice)(int *d, devices_of *props);
#endif
#if VERSION >= 11
    int (*finalize)(void *ctx);
    int (*setNetAttr)(void *ctx, void *attributes);
#endif
} plugin_table;

#endif
