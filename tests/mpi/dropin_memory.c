/*
 * Memory of MPI_Alloc_mem: dropin_memory KOLO      1: large memory is expected to be kolo's
 *
 * Sizes on both sides of the bound, with and without an info object; sums in such memory; many
 * pieces that are freed in another order; one that is freed in MPI_Finalize.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;

static void fail(const char *what, long number)
{
    printf("rank %d: %s, %ld\n", rank, what, number);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Whether an address lies in a file of kolo's. */
static int is_kolos(const void *at)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    int found = 0;
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long begin, end;
        if (sscanf(line, "%lx-%lx", &begin, &end) == 2 && (unsigned long)at >= begin &&
            (unsigned long)at < end)
            found = strstr(line, "kolo-memory") != NULL;
    }
    if (maps) fclose(maps);
    return found;
}

static int files_of_kolo(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    int found = 0;
    while (maps && fgets(line, sizeof line, maps)) found += strstr(line, "kolo-memory") != NULL;
    if (maps) fclose(maps);
    return found;
}

static int free_late(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm, (void)keyval, (void)extra;
    return MPI_Free_mem(value);
}

static void try_size(long bytes, MPI_Info info, int expected)
{
    long *at = NULL;
    const long n = bytes / 8;
    if (MPI_Alloc_mem(bytes, info, &at) != MPI_SUCCESS || !at) fail("no memory", bytes);
    if (is_kolos(at) != expected) fail(expected ? "not kolo's" : "kolo's", bytes);
    for (long i = 0; i < n; i++) at[i] = i * (rank + 1) + 7;
    MPI_Allreduce(MPI_IN_PLACE, at, (int)n, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    for (long i = 0; i < n; i++)
        if (at[i] != i * size * (size + 1) / 2 + 7 * size) fail("wrong sum", i);
    if (MPI_Free_mem(at) != MPI_SUCCESS) fail("not freed", bytes);
}

int main(int argc, char **argv)
{
    enum { MANY = 60 };
    const int kolo = argc > 1 && atoi(argv[1]);
    void *pieces[MANY], *late;
    MPI_Info info;
    int keyval;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Info_create(&info);
    MPI_Info_set(info, "alloc_shared_noncontig", "true");
    const long sizes[] = {8, 4096, 65528, 65536, 65544, 1000000, 5000000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        try_size(sizes[i], MPI_INFO_NULL, kolo && sizes[i] >= 65536);
        try_size(sizes[i], info, 0);
    }
    const int before = files_of_kolo();
    for (int i = 0; i < MANY; i++) {
        MPI_Alloc_mem(i % 2 ? 100 : 70000 + i, MPI_INFO_NULL, &pieces[i]);
        memset(pieces[i], i, 100);
    }
    for (int i = 0; i < MANY; i++) {
        const int one = i * 7 % MANY;
        if (((char *)pieces[one])[99] != one) fail("overwritten", one);
        MPI_Free_mem(pieces[one]);
    }
    if (files_of_kolo() != before) fail("memory is left", files_of_kolo() - before);
    MPI_Alloc_mem(100000, MPI_INFO_NULL, &late);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, free_late, &keyval, NULL);
    MPI_Comm_set_attr(MPI_COMM_WORLD, keyval, late);
    MPI_Info_free(&info);
    printf("rank %d: all memory is right\n", rank);
    MPI_Finalize();
    return 0;
}
