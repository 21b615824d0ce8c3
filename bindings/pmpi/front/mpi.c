/*
 * Which MPI this process has, and whose code a caller is.
 *
 * The MPI may be among the program's libraries, or out of sight where an interpreter loaded a
 * module that brought it. It is known by PMPI_Get_library_version, a name that this library leaves
 * alone.
 */
#define _GNU_SOURCE
#include "front.h"
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static const char version_name[] = "PMPI_Get_library_version";
typedef int get_version(char *text, int *length);

static struct {
    void *library;
    /* Where it lies. */
    void *base;
    get_version *version;
    char file[PATH_MAX];
} mpi;

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Keeps the library that has `version`. */
static int keep(void *version)
{
    Dl_info place;
    if (!version || !dladdr(version, &place) || !place.dli_fname) return 0;
    /* What the handle counts is never given back: the MPI stays. */
    mpi.library = dlopen(place.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (!mpi.library) return 0;
    mpi.base = place.dli_fbase;
    *(void **)&mpi.version = version;
    snprintf(mpi.file, sizeof mpi.file, "%s", place.dli_fname);
    return 1;
}

static int has_mpi(struct dl_phdr_info *one, size_t size, void *unused)
{
    void *library, *version;
    (void)size;
    (void)unused;
    if (!one->dlpi_name[0]) return 0;
    library = dlopen(one->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
    version = library ? dlsym(library, version_name) : NULL;
    if (library) dlclose(library);
    return keep(version);
}

void *kolo_pmpi_library(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    if (!mpi.library && !keep(dlsym(RTLD_DEFAULT, version_name)))
        dl_iterate_phdr(has_mpi, NULL);
    pthread_mutex_unlock(&lock);
    return mpi.library;
}

const char *kolo_pmpi_file(void)
{
    return mpi.file;
}

int kolo_pmpi_inside(const void *code)
{
    static const char *const own[] = {"mca_", "libkolo", "libopen-", "libpmix", "libucx"};
    Dl_info place;
    const char *name;
    if (!dladdr(code, &place) || !place.dli_fname) return 0;
    if (place.dli_fbase == mpi.base) return 1;
    name = file_name(place.dli_fname);
    /* Fortran's calls of kolo's command and of the program come from libraries of other names. */
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (!strncmp(name, own[i], strlen(own[i]))) return 1;
    return 0;
}

const char *kolo_pmpi_family(void)
{
    static const char *const like_mpich[] = {"MPICH", "Intel(R) MPI", "MVAPICH", "ParaStation MPI"};
    /* More than any MPI writes. */
    static char text[16 << 10];
    int length = 0;
    if (!strncmp(file_name(mpi.file), "libmpi_abi.so", 13)) return "abi";
    mpi.version(text, &length);
    if (strstr(text, "Open MPI") || strstr(text, "Spectrum MPI")) return "openmpi";
    for (int i = 0; i < 4; i++)
        if (strstr(text, like_mpich[i])) return "mpich";
    return NULL;
}
