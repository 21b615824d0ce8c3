/* Between the parts of libkolo_pmpi.so, and between it and the family's part. */
#ifndef KOLO_PMPI_FRONT_H
#define KOLO_PMPI_FRONT_H

#include "names.h"
#include <stddef.h>
#include <stdint.h>

#define HIDDEN __attribute__((visibility("hidden")))

typedef void function(void);

/* jumps.S */
extern HIDDEN function *kolo_pmpi_gate[2 * KOLO_PMPI_COUNT];
extern HIDDEN function *const kolo_pmpi_slow[2 * KOLO_PMPI_COUNT];
extern HIDDEN function *const kolo_pmpi_check[2 * KOLO_PMPI_COUNT];
extern HIDDEN function *kolo_pmpi_taken[KOLO_PMPI_COUNT];
extern HIDDEN function *kolo_pmpi_native[KOLO_PMPI_COUNT];
extern HIDDEN uintptr_t kolo_pmpi_callers[KOLO_PMPI_CALLERS];

/* What the family's part is given, and gives back: `kolo_pmpi_begin` of libkolo_pmpi_calls.so,
 * which is called once, at the end of MPI_Init, and returns 0 where kolo takes calls. */
#define KOLO_PMPI_VERSION 1
struct kolo_pmpi_begin {
    size_t size;
    uint32_t version;
    uint32_t count;
    /* The MPI's functions; NULL: this MPI has none of that name. */
    function *const *native;
    /* Kolo's, which begin as NULL: the call stays with the MPI. */
    function **taken;
    /* Leads all names to the MPI again. Any thread, at any time. */
    void (*off)(void);
};
typedef int kolo_pmpi_begin_f(struct kolo_pmpi_begin *);

/* mpi.c: the library of the MPI that this process has, NULL: it has none; its file. */
HIDDEN void *kolo_pmpi_library(void);
HIDDEN const char *kolo_pmpi_file(void);
/* Whether `code` lies in that library, in one of its plugins, or in kolo. */
HIDDEN int kolo_pmpi_inside(const void *code);
/* openmpi, mpich, abi, or NULL: it is none of these. */
HIDDEN const char *kolo_pmpi_family(void);

#endif
