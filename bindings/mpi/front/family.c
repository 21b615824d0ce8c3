/*
 * Which MPI this library was built for, and which one the program runs.
 *
 * Problem: the binary interfaces of the families differ: a handle is a number in one and a pointer
 * in the other. A program of one family with the libkolo_mpi of the other would crash at the first
 * call with a handle. Idea: MPI_Get_library_version takes none, and may be called at any time, so
 * it is asked first. An MPI that also has the standard interface of MPI 5 says the same in both;
 * the file tells them apart, whose name the standard fixes.
 */
#define _GNU_SOURCE
#include "front.h"
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* More than any MPI writes: the limit of one family is below that of the other. */
#define LONGEST_VERSION (16 << 10)

typedef int get_version(char *text, int *length);

static const struct {
    const char *words, *compilers, *name;
} families[] = {
    {"MPICH and Intel MPI", "the mpicc or mpif90 of MPICH and Intel MPI", "mpich"},
    {"Open MPI", "the mpicc or mpif90 of Open MPI", "openmpi"},
    {"MPIs with MPI 5's standard binary interface (libmpi_abi.so.1)", "mpicc_abi", "abi"},
};
enum { LIKE_MPICH, LIKE_OPENMPI, LIKE_ABI };

#if defined(KOLO_MPI_ABI)
static const int built = LIKE_ABI;
#define BUILT "abi"
#elif defined(OPEN_MPI)
static const int built = LIKE_OPENMPI;
#define BUILT "openmpi"
#else
static const int built = LIKE_MPICH;
#define BUILT "mpich"
#endif

/* For `kolo doctor`, as the file names no MPI: the family, and the MPI that is loaded where there
 * is none. `readelf -n` shows it; src/bin/kolo/object.rs reads it. */
#define SAID BUILT "\0" KOLO_MPI_DEFAULT
static const struct {
    uint32_t name_bytes, said_bytes, type;
    char name[8];
    char said[(sizeof SAID + 3) / 4 * 4];
} note __attribute__((section(".note.kolo"), used, aligned(4))) = {5, sizeof SAID, 1, "kolo", SAID};

/* The family of a library, by what it says of itself; -1 for one that is not known. */
static int family_of(const char *version)
{
    static const char *const like_mpich[] = {"MPICH", "Intel(R) MPI", "MVAPICH", "ParaStation MPI"};
    if (strstr(version, "Open MPI") || strstr(version, "Spectrum MPI")) return LIKE_OPENMPI;
    for (int i = 0; i < 4; i++)
        if (strstr(version, like_mpich[i])) return LIKE_MPICH;
    return -1;
}

/* The first line of what an MPI says of itself. */
static void ask(void *call, char *text)
{
    get_version *get;
    int length = 0;
    *(void **)&get = call;
    memset(text, 0, LONGEST_VERSION);
    get(text, &length);
    text[strcspn(text, "\r\n")] = 0;
    for (char *one = text; *one; one++)
        if (*one == '\t') *one = ' ';
}

static int differ(int runs, const char *version, char *words, size_t bytes)
{
    if (runs < 0 || runs == built) return 0;
    snprintf(words, bytes,
             "this libkolo_mpi was built for %s, but the MPI of the program is %s. Remedy: use the "
             "libkolo_mpi of the program's own MPI, in lib/kolo/%s of the installation: C and "
             "Fortran link with it (pkg-config --libs kolo-mpi-%s), Rust and the command kolo "
             "load the one that KOLO_MPI_LIBRARY names; or compile the program with %s",
             families[built].words, version, families[runs].name, families[runs].name,
             families[built].compilers);
    return 1;
}

int kolo_mpi_mismatch(void *call, char *words, size_t bytes)
{
    static char version[LONGEST_VERSION];
    Dl_info place;
    const char *file = dladdr(call, &place) && place.dli_fname ? place.dli_fname : "";
    if (strrchr(file, '/')) file = strrchr(file, '/') + 1;
    ask(call, version);
    const int has_abi = !strncmp(file, "libmpi_abi.so", 13);
    return differ(has_abi ? LIKE_ABI : family_of(version), version, words, bytes);
}

/* The library behind the MPI calls of Fortran brings a C library of its own, and where both MPIs
 * are loaded the loader may give us the other one's. */
int kolo_mpi_mismatch_in_fortran(char *words, size_t bytes)
{
    static char version[LONGEST_VERSION];
    void *call = dlsym(RTLD_DEFAULT, "mpi_init_"), *library;
    Dl_info place;
    if (!call || !dladdr(call, &place)) return 0;
    /* It is loaded already, and what the handle counts is never given back. */
    library = dlopen(place.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    call = library ? dlsym(library, "MPI_Get_library_version") : NULL;
    if (!call) return 0;
    ask(call, version);
    return differ(family_of(version), version, words, bytes);
}
