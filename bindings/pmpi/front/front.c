/*
 * libkolo_pmpi.so: blocking collectives of MPI programs, unchanged, on kolo. One file serves every
 * MPI.
 *
 *   LD_PRELOAD=libkolo_pmpi.so mpirun ... program
 *
 * It exports MPI_X and PMPI_X of the calls that kolo can take (jumps.S) and of MPI_Init, and needs
 * the C library alone. Until MPI_Init has told which MPI this is, every name leads to the MPI. Then
 * the family's part is loaded from beside this file; it agrees with the other ranks, and where all
 * of them can, the names lead to its functions. A process that calls no MPI_Init (a shell, a child)
 * meets nothing of all that.
 *
 * A tool that defines MPI_X too and stands behind this file in the loader's list gets every call
 * first; its PMPI_X is ours. One that stands before it sees every call anyway. So each call is seen
 * once by each tool, and taken once.
 */
#define _GNU_SOURCE
#include "front.h"
#include "say.h"
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define NAME(name) #name,
static const char *const names[KOLO_PMPI_COUNT] = {KOLO_PMPI_NAMES(NAME)};

/* Not before MPI_Init has returned, and not after the last communicator has ended. */
static int on;

static function *as_function(void *symbol)
{
    function *made;
    *(void **)&made = symbol;
    return made;
}

/* A function of this name that somebody defines behind us and that is not the MPI's. */
static void *of_a_tool(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    return found && !kolo_pmpi_inside(found) ? found : NULL;
}

static __attribute__((noreturn)) void nowhere(const char *name)
{
    char line[256];
    snprintf(line, sizeof line,
             "kolo: the program calls %s, and no MPI of this process has it. Remedy: link the "
             "program with an MPI that does, or take libkolo_pmpi.so out of LD_PRELOAD\n", name);
    kolo_pmpi_write(line);
    abort();
}

/* The MPI's own function. */
static function *native(unsigned place)
{
    char name[64];
    void *library, *found;
    if (kolo_pmpi_native[place]) return kolo_pmpi_native[place];
    snprintf(name, sizeof name, "PMPI_%s", names[place]);
    library = kolo_pmpi_library();
    found = library ? dlsym(library, name) : NULL;
    if (found) kolo_pmpi_native[place] = as_function(found);
    return as_function(found);
}

/* Where a name leads when kolo takes nothing. */
static function *passed_on(unsigned number)
{
    const unsigned place = number % KOLO_PMPI_COUNT;
    char name[64];
    function *found = native(place);
    snprintf(name, sizeof name, "MPI_%s", names[place]);
    if (number < KOLO_PMPI_COUNT) {
        void *tool = of_a_tool(name);
        if (tool) return as_function(tool);
    }
    if (!found) nowhere(name);
    return found;
}

/* Memory that kolo has allocated is freed by kolo, also while MPI_Finalize runs. */
static int stays_taken(unsigned place)
{
    return place == KOLO_PMPI_FREE_MEM && kolo_pmpi_taken[place];
}

HIDDEN function *kolo_pmpi_resolve(unsigned number, uintptr_t caller)
{
    const unsigned place = number % KOLO_PMPI_COUNT;
    int inside;
    if (!__atomic_load_n(&on, __ATOMIC_ACQUIRE) && !stays_taken(place)) return passed_on(number);
    inside = kolo_pmpi_inside((const void *)caller);
    __atomic_store_n(&kolo_pmpi_callers[(caller >> 2) & (KOLO_PMPI_CALLERS - 1)],
                     caller << 1 | (uintptr_t)inside, __ATOMIC_RELAXED);
    return inside ? native(place) : kolo_pmpi_taken[place];
}

static void lead(unsigned number, function *to)
{
    __atomic_store_n(&kolo_pmpi_gate[number], to, __ATOMIC_RELEASE);
}

static void switch_off(void)
{
    __atomic_store_n(&on, 0, __ATOMIC_RELEASE);
    for (unsigned number = 0; number < 2 * KOLO_PMPI_COUNT; number++)
        if (!stays_taken(number % KOLO_PMPI_COUNT)) lead(number, kolo_pmpi_slow[number]);
}

static void switch_on(void)
{
    __atomic_store_n(&on, 1, __ATOMIC_RELEASE);
    for (unsigned number = 0; number < 2 * KOLO_PMPI_COUNT; number++) {
        const unsigned place = number % KOLO_PMPI_COUNT;
        char name[64];
        void *tool;
        snprintf(name, sizeof name, "MPI_%s", names[place]);
        tool = number < KOLO_PMPI_COUNT ? of_a_tool(name) : NULL;
        if (tool)
            lead(number, as_function(tool));
        else if (kolo_pmpi_taken[place])
            lead(number, kolo_pmpi_check[number]);
        else if (native(place))
            lead(number, native(place));
    }
}

/* Loads the family's part from lib/kolo/FAMILY, beside this file. */
static kolo_pmpi_begin_f *load(const char *family)
{
    char path[PATH_MAX], *end;
    Dl_info here;
    void *library;
    kolo_pmpi_begin_f *begin = NULL;
    if (!dladdr((void *)(intptr_t)load, &here) || !realpath(here.dli_fname, path)) return NULL;
    end = strrchr(path, '/');
    snprintf(end, sizeof path - (size_t)(end - path), "/kolo/%s/libkolo_pmpi_calls.so", family);
    /* It finds the MPI's functions among those that everybody sees. */
    dlopen(kolo_pmpi_file(), RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library) *(void **)&begin = dlsym(library, "kolo_pmpi_begin");
    if (!begin) {
        char line[2 * PATH_MAX];
        const char *why = dlerror();
        snprintf(line, sizeof line,
                 "kolo: the collectives of this program stay with its MPI: %s. Remedy: install "
                 "kolo for this MPI (make install MPI=%s)\n", why ? why : path, family);
        kolo_pmpi_write(line);
    }
    return begin;
}

/* At the end of MPI_Init, of whichever name, once. */
static int begun(int code)
{
    static int done;
    struct kolo_pmpi_begin table = {
        .size = sizeof table,
        .version = KOLO_PMPI_VERSION,
        .count = KOLO_PMPI_COUNT,
        .native = kolo_pmpi_native,
        .taken = kolo_pmpi_taken,
        .off = switch_off,
    };
    const char *wanted = getenv("KOLO_PMPI"), *family;
    kolo_pmpi_begin_f *begin;
    if (code || __atomic_exchange_n(&done, 1, __ATOMIC_RELAXED)) return code;
    if (wanted && !strcasecmp(wanted, "off")) return code;
    family = kolo_pmpi_family();
    for (unsigned place = 0; place < KOLO_PMPI_COUNT; place++) native(place);
    begin = family ? load(family) : NULL;
    if (begin && !begin(&table)) switch_on();
    return code;
}

typedef int init(int *argc, char ***argv);
typedef int init_thread(int *argc, char ***argv, int wanted, int *given);

/* MPI_NAME is a tool's where there is one; PMPI_NAME is the MPI's. */
static void *starter(const char *name)
{
    void *library = kolo_pmpi_library();
    void *found = *name == 'M' ? of_a_tool(name) : NULL;
    if (!found && library) found = dlsym(library, name);
    if (!found) nowhere(name);
    return found;
}

__attribute__((visibility("default"))) int MPI_Init(int *argc, char ***argv)
{
    init *call;
    *(void **)&call = starter("MPI_Init");
    return begun(call(argc, argv));
}

__attribute__((visibility("default"))) int PMPI_Init(int *argc, char ***argv)
{
    init *call;
    *(void **)&call = starter("PMPI_Init");
    return begun(call(argc, argv));
}

__attribute__((visibility("default"))) int
MPI_Init_thread(int *argc, char ***argv, int wanted, int *given)
{
    init_thread *call;
    *(void **)&call = starter("MPI_Init_thread");
    return begun(call(argc, argv, wanted, given));
}

__attribute__((visibility("default"))) int
PMPI_Init_thread(int *argc, char ***argv, int wanted, int *given)
{
    init_thread *call;
    *(void **)&call = starter("PMPI_Init_thread");
    return begun(call(argc, argv, wanted, given));
}
