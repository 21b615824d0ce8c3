/*
 * libkolo_mpi.so: the four functions of kolo's start-up over MPI, and nothing that needs an MPI to
 * be loaded.
 *
 * Problem: the calls of MPI must go to the MPI that the program already has. If this library
 * named one, the loader would bring that too wherever the program's has another file name: Debian's
 * MPICH is libmpich.so.12, that of MPICH and Intel is libmpi.so.12. Two MPIs in one process end
 * badly. And an MPI of another family has not the symbols that are asked for.
 *
 * Idea: what calls MPI is another library, libkolo_mpi_calls.so beside this one, which names no MPI
 * either. At the first call this one looks which MPI is there (global, as in most programs, or out
 * of sight, as in an interpreter with a module that has one), and lets all libraries see it; only
 * where there is none it loads the one that it was built with. Then, if the family is right,
 * it loads the other library, whose symbols are found there, and hands the call over.
 */
#define _GNU_SOURCE
#include "front.h"
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As in the arguments of koloCommInitMPI_f; kolo_mpi.h has it only where MPI has a Fortran. */
typedef koloResult_t init_f(koloComm_t *newcomm, int comm);
typedef koloResult_t init(koloComm_t *newcomm, MPI_Comm comm);
typedef const void *start(int thread_level);
typedef int make_table(const void *comm, size_t comm_bytes, void *table, size_t table_bytes);

static pthread_once_t once = PTHREAD_ONCE_INIT;
/* Why there can be no calls; empty where there can. */
static char problem[4096], problem_in_fortran[4096];
static struct {
    init *init;
    init_f *init_f;
    start *start;
    make_table *table;
} calls;

__attribute__((format(printf, 1, 2))) static void refuse(const char *text, ...)
{
    va_list values;
    va_start(values, text);
    vsnprintf(problem, sizeof problem, text, values);
    va_end(values);
}

/* Looks through the libraries of the process for one that has MPI. */
static int has_mpi(struct dl_phdr_info *one, size_t size, void *found)
{
    void *library, *call;
    Dl_info place;
    (void)size;
    if (!one->dlpi_name[0]) return 0;
    library = dlopen(one->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
    call = library ? dlsym(library, "PMPI_Get_library_version") : NULL;
    if (library) dlclose(library);
    if (!call || !dladdr(call, &place)) return 0;
    snprintf(found, PATH_MAX, "%s", place.dli_fname);
    return 1;
}

/* The MPI of this process, for everybody to see; NULL: there is none, and none can be loaded. */
static void *mpi_here(void)
{
    static const char name[] = "PMPI_Get_library_version";
    char path[PATH_MAX] = "";
    void *call = dlsym(RTLD_DEFAULT, name);
    if (call) return call;
    if (dl_iterate_phdr(has_mpi, path)) {
        dlopen(path, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
        return dlsym(RTLD_DEFAULT, name);
    }
    if (!dlopen(KOLO_MPI_DEFAULT, RTLD_NOW | RTLD_GLOBAL)) {
        refuse("there is no MPI in this process, and the one that this libkolo_mpi was built "
               "with cannot be loaded (%s). Remedy: link the program with its MPI, or load that "
               "before this call, or name its folder in LD_LIBRARY_PATH", dlerror());
        return NULL;
    }
    return dlsym(RTLD_DEFAULT, name);
}

static void load(void)
{
    char path[PATH_MAX], *folder;
    Dl_info here;
    void *library, *mpi = mpi_here();
    if (!mpi) {
        if (!problem[0]) refuse("the MPI of this process has no PMPI_Get_library_version");
        return;
    }
    if (kolo_mpi_mismatch(mpi, problem, sizeof problem)) return;
    kolo_mpi_mismatch_in_fortran(problem_in_fortran, sizeof problem_in_fortran);
    if (!dladdr((void *)(intptr_t)load, &here) || !realpath(here.dli_fname, path)) {
        refuse("libkolo_mpi does not find its own folder. Remedy: install it as a file");
        return;
    }
    folder = strrchr(path, '/');
    snprintf(folder, sizeof path - (size_t)(folder - path), "/libkolo_mpi_calls.so");
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        refuse("libkolo_mpi cannot use the MPI of this process: %s. Remedy: use an MPI of the "
               "kind that kolo was built for, or build kolo for this one", dlerror());
        return;
    }
    *(void **)&calls.init = dlsym(library, "koloCommInitMPI");
    *(void **)&calls.init_f = dlsym(library, "koloCommInitMPI_f");
    *(void **)&calls.start = dlsym(library, "kolo_mpi_start");
    *(void **)&calls.table = dlsym(library, "kolo_mpi_table");
    if (!calls.init || !calls.init_f || !calls.start || !calls.table)
        refuse("%s is of another version. Remedy: install libkolo_mpi anew", path);
}

/* NULL, or a sentence with its remedy. */
static const char *unusable(void)
{
    pthread_once(&once, load);
    return problem[0] ? problem : NULL;
}

/* The table that says it. */
static koloMpiTable refusal(const char *why)
{
    koloMpiTable table;
    memset(&table, 0, sizeof table);
    table.size = sizeof table;
    table.version = KOLO_MPI_TABLE_VERSION;
    table.problem = why;
    table.problemCode = koloInvalidUsage;
    /* Says to libkolo whose table it is; nothing of a refusal is called. */
    table.net = problem;
    return table;
}

koloResult_t koloCommInitMPI(koloComm_t *newcomm, MPI_Comm comm)
{
    const char *why = unusable();
    koloMpiTable table = refusal(why);
    return why ? koloCommInitTable(newcomm, &table) : calls.init(newcomm, comm);
}

koloResult_t koloCommInitMPI_f(koloComm_t *newcomm, int comm)
{
    const char *why = unusable();
    koloMpiTable table;
    if (!why && problem_in_fortran[0]) why = problem_in_fortran;
    table = refusal(why);
    return why ? koloCommInitTable(newcomm, &table) : calls.init_f(newcomm, comm);
}

const void *kolo_mpi_start(int thread_level)
{
    const char *why = unusable();
    if (why) fprintf(stderr, "kolo: %s\n", why);
    return why ? NULL : calls.start(thread_level);
}

int kolo_mpi_table(const void *comm, size_t comm_bytes, void *place, size_t place_bytes)
{
    const char *why = unusable();
    koloMpiTable table = refusal(why);
    if (!why) return calls.table(comm, comm_bytes, place, place_bytes);
    if (table.size > place_bytes) table.size = place_bytes;
    memcpy(place, &table, table.size);
    return 0;
}
