/* The part of kolo.h that kolo_mpi.h needs, for tests of libkolo_mpi without libkolo. */
#ifndef KOLO_H
#define KOLO_H
#include <stddef.h>

typedef struct koloComm *koloComm_t;
typedef enum {
    koloSuccess = 0,
    koloSystemError = 2,
    koloInternalError = 3,
    koloInvalidArgument = 4,
    koloInvalidUsage = 5
} koloResult_t;

typedef struct {
    size_t size;
    unsigned version;
    void *ctx;
    int rank;
    int nranks;
    int (*bcast)(void *ctx, void *buffer, size_t bytes, int root);
    int (*allgather)(void *ctx, const void *send, size_t bytes, void *receive);
    int (*idle)(void *ctx);
    int (*free)(void *ctx);
    const char *problem;
    int problemCode;
    const void *net;
    size_t world;
    int noRank;
    const char *name;
} koloMpiTable;

koloResult_t koloCommInitTable(koloComm_t *newcomm, const koloMpiTable *table);
koloResult_t koloCommDestroy(koloComm_t comm);

/* Of koloCommInitMPIConfig, which these tests do not call: the double has no such functions. */
typedef struct {
    char internal[128];
} koloUniqueId;
typedef struct koloConfig koloConfig_t;
koloResult_t koloGetUniqueId(koloUniqueId *id);
koloResult_t koloCommInitRankConfig(koloComm_t *newcomm, int nranks, koloUniqueId id, int rank,
                                    const koloConfig_t *config);
const char *koloGetLastError(koloComm_t comm);

/* Only in the double: the table that a communicator holds, and how many are held. */
const koloMpiTable *double_table(koloComm_t comm);
int double_held(void);
/* Makes the next koloCommInitTable fail without taking the table. */
void double_refuse(void);
#endif
