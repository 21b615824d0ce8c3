/*
 * A process has one MPI, whoever has loaded it, and libkolo_mpi uses that.
 *
 *   one_mpi LIBRARY              loads libkolo_mpi alone, which brings an MPI
 *   one_mpi LIBRARY MPI          the same where MPI was loaded before, out of sight
 * Prints how MPIs of the process are called, by their files.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static void print_mpis(void)
{
    char line[4096], last[4096] = "";
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        const char *name = strrchr(line, '/');
        if (!name || (strncmp(name, "/libmpi.so", 10) && strncmp(name, "/libmpic", 8))) continue;
        if (strcmp(name, last)) printf("mapped %s", name + 1);
        snprintf(last, sizeof last, "%s", name);
    }
    if (maps) fclose(maps);
}

int main(int argc, char **argv)
{
    const void *(*start)(int), *api;
    int (*finalize)(void);
    void *library;
    if (argc > 2 && !dlopen(argv[2], RTLD_NOW | RTLD_LOCAL))
        return fprintf(stderr, "%s\n", dlerror()), 1;
    library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!library) return fprintf(stderr, "%s\n", dlerror()), 1;
    *(void **)&start = dlsym(library, "kolo_mpi_start");
    api = start(0);
    print_mpis();
    *(void **)&finalize = dlsym(RTLD_DEFAULT, "MPI_Finalize");
    if (api && (!finalize || finalize())) return fputs("MPI is still out of sight\n", stdout), 1;
    fputs(api ? "started\n" : "refused\n", stdout);
    return 0;
}
