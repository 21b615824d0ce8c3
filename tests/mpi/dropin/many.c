/*
 * Makes many communicators of drawn members, calls 1 to 20 collectives on each, and frees them in a
 * drawn order. Tells what that left in each process, and how long it took.
 *
 *   many SEED COMMUNICATORS ALIVE
 */
#include "../drawn.h"
#include <dirent.h>
#include <malloc.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 3000 };

struct one {
    MPI_Comm comm;
    int number, calls;
};

static int rank, ranks;
static long calls_made;

static void must(int good, const char *what, int number)
{
    if (good) return;
    fprintf(stderr, "many: rank %d: %s of communicator %d\n", rank, what, number);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static int descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;
    while (readdir(folder)) count++;
    closedir(folder);
    return count;
}

static long mappings(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    long lines = 0;
    for (int c; (c = fgetc(maps)) != EOF;) lines += c == '\n';
    fclose(maps);
    return lines;
}

/* KiB of this process that are in memory, its part of what is shared too. */
static long resident(void)
{
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    char line[200];
    long found = 0, part;
    malloc_trim(0);
    /* Pages of programs and libraries come with the first call that runs their code. */
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "Pss_Anon: %ld", &part) == 1 ||
            sscanf(line, "Pss_Shmem: %ld", &part) == 1)
            found += part;
    fclose(file);
    return found;
}

/* Members are drawn: all of the world or a part, in drawn order. The others get none. */
static void make(struct one *one, int number)
{
    const uint64_t of_all = draw(1u << 30), own = mixed(of_all * 64 + (uint64_t)rank);
    const int colors = of_all % 3 ? 1 : 2;
    one->number = number;
    one->calls = (int)draw(20) + 1;
    MPI_Comm_split(MPI_COMM_WORLD, (int)(own % (uint64_t)colors), (int)(own >> 40) % 50,
                   &one->comm);
}

static void use(const struct one *one, int call)
{
    static int s[LONGEST], r[LONGEST];
    int me, size, sum = 0;
    const uint64_t drawn = mixed((uint64_t)one->number * 100 + (uint64_t)call);
    MPI_Comm_rank(one->comm, &me);
    MPI_Comm_size(one->comm, &size);
    calls_made += size > 1;
    const int n = (int)((drawn >> 20) % (drawn % 16 ? 40 : LONGEST));
    const int root = (int)((drawn >> 40) % (uint64_t)size);
    const int first = one->number + call;
    for (int k = 0; k < size; k++) sum += k + 1;
    for (int i = 0; i < n; i++) s[i] = (me + 1) * (i + first), r[i] = -1;
    switch (drawn % 3) {
    case 0:
        MPI_Allreduce(s, r, n, MPI_INT, MPI_SUM, one->comm);
        for (int i = 0; i < n; i++) must(r[i] == sum * (i + first), "a sum", one->number);
        break;
    case 1:
        MPI_Bcast(me == root ? s : r, n, MPI_INT, root, one->comm);
        for (int i = 0; i < n && me != root; i++)
            must(r[i] == (root + 1) * (i + first), "a broadcast", one->number);
        break;
    case 2:
        MPI_Scan(s, r, n, MPI_INT, MPI_SUM, one->comm);
        for (int i = 0; i < n; i++)
            must(r[i] == (me + 1) * (me + 2) / 2 * (i + first), "a scan", one->number);
        break;
    }
}

/* So many in all, at most `alive` at once. */
static void live(struct one *ones, int all, int alive)
{
    int made = 0, ended = 0, now = 0;
    while (ended < all) {
        if (made < all && (now < alive / 2 || (now < alive && draw(2)))) {
            make(&ones[now], made++);
            for (int call = 0; call < ones[now].calls; call++) use(&ones[now], call);
            now++;
        } else {
            const int which = (int)draw((uint64_t)now);
            use(&ones[which], 50);
            MPI_Comm_free(&ones[which].comm);
            ones[which] = ones[--now];
            ended++;
        }
    }
}

int main(int argc, char **argv)
{
    if (argc != 4) return 2;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    state = strtoull(argv[1], NULL, 10);
    const int all = atoi(argv[2]), alive = atoi(argv[3]);
    struct one *ones = calloc((size_t)alive + 1, sizeof *ones);
    /* What the first ones leave belongs to the process. Of these none may have calls enough to be
     * attached, but so many barriers are. */
    live(ones, 40, 20);
    for (int i = 0; i < 40; i++) MPI_Barrier(MPI_COMM_WORLD);
    calls_made = 0;
    const int had = descriptors();
    const long mapped = mappings(), held = resident();
    const double begun = MPI_Wtime();
    live(ones, all, alive);
    MPI_Barrier(MPI_COMM_WORLD);
    const double took = MPI_Wtime() - begun;
    printf("rank %d: %ld calls, left %d descriptors %ld mappings %ld KiB, %.0f ms\n", rank,
           calls_made + 1, descriptors() - had, mappings() - mapped, resident() - held, 1e3 * took);
    free(ones);
    MPI_Finalize();
    return 0;
}
