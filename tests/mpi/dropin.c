/*
 * Draws collectives, and prints for each rank a hash of what they left in its buffers, so that two
 * runs can be compared: one with the MPI alone, one with libkolo_pmpi.so.
 *
 *   dropin SEED CALLS      a third word has each call told
 *
 * Values are small whole numbers, so that sums of floats do not hang on the order. MPI 4 has two
 * forms of each call, of which one is drawn.
 */
#include "drawn.h"
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 200000, BLOCK = 2000, RANKS = 64 };
enum kind { WHOLE, FLOATS, COMPLEX, LOGICAL, BYTES, PAIR, DERIVED, FORTRAN_WHOLE };
struct type {
    MPI_Datatype type;
    int bytes;
    enum kind kind;
    const char *name;
    int backwards;
};
enum { BARRIER, BCAST, GATHER, SCATTER, ALLGATHER, ALLTOALL, GATHERV, SCATTERV, ALLGATHERV,
       ALLTOALLV, REDUCE, ALLREDUCE, REDUCE_SCATTER, REDUCE_SCATTER_BLOCK, SCAN, EXSCAN, CALLS };

static struct type types[40];
static int ntypes, nfold;
static char *send_memory, *recv_memory;
static int rank, size;
static MPI_Op weaving;

static uint64_t hash(const void *data, size_t bytes)
{
    const unsigned char *at = data;
    uint64_t sum = 1469598103934665603u;
    for (size_t i = 0; i < bytes; i++) sum = (sum ^ at[i]) * 1099511628211u;
    return sum;
}

static void put_pair(const struct type *t, char *e, int v, int x)
{
    const double d = v;
    const float f = (float)v;
    const short s = (short)v;
    const size_t at = t->type == MPI_DOUBLE_INT ? 8 : 4;
    if (t->type == MPI_DOUBLE_INT) memcpy(e, &d, 8);
    else if (t->type == MPI_FLOAT_INT) memcpy(e, &f, 4);
    else if (t->type == MPI_SHORT_INT) memcpy(e, &s, 2);
    else memcpy(e, &v, 4);
    memcpy(e + at, &x, 4);
}

static void put(const struct type *t, char *e, int v, int x)
{
    const float f[2] = {(float)v, 0};
    const double d[2] = {v, 0};
    const long double l = v;
    memset(e, 0, (size_t)t->bytes);
    switch (t->kind) {
    case FLOATS:
        if (t->bytes == 4) memcpy(e, f, 4);
        else if (t->bytes == 8) memcpy(e, d, 8);
        else memcpy(e, &l, 10);
        break;
    case COMPLEX: memcpy(e, t->bytes == 8 ? (const void *)f : d, (size_t)t->bytes); break;
    case LOGICAL: e[0] = v & 1; break;
    case PAIR: put_pair(t, e, v, x); break;
    case WHOLE:
    case FORTRAN_WHOLE: e[0] = (char)v; break;
    default:
        for (int b = 0; b < t->bytes; b++) e[b] = (char)(v + b);
    }
}

static void fill(const struct type *t, char *at, int count, int call)
{
    for (int i = 0; i < count; i++)
        put(t, at + (size_t)i * (size_t)t->bytes, (rank * 7 + i * 3 + call) % 5 + 1,
            rank * 100 + i);
}

/* Associative, and not commutative: x, y -> x where x is not 0. */
static void weave(void *in, void *inout, int *count, MPI_Datatype *type)
{
    unsigned char *a = in, *b = inout;
    int bytes;
    MPI_Type_size(*type, &bytes);
    for (int i = 0; i < *count * bytes; i++) b[i] = a[i] ? a[i] : b[i];
}

#define T(t, b, k) types[ntypes++] = (struct type){t, b, k, #t, 0}
static void make_types(void)
{
    const int at[2] = {2, 0}, n[2] = {1, 1};
    MPI_Datatype dup, vector, odd, row, rows, quad, back;
    T(MPI_INT, 4, WHOLE), T(MPI_LONG, 8, WHOLE), T(MPI_SHORT, 2, WHOLE);
    T(MPI_SIGNED_CHAR, 1, WHOLE), T(MPI_UNSIGNED, 4, WHOLE), T(MPI_UNSIGNED_LONG, 8, WHOLE);
    T(MPI_UNSIGNED_SHORT, 2, WHOLE), T(MPI_UINT8_T, 1, WHOLE);
    T(MPI_FLOAT, 4, FLOATS), T(MPI_DOUBLE, 8, FLOATS), T(MPI_LONG_DOUBLE, 16, FLOATS);
    T(MPI_C_FLOAT_COMPLEX, 8, COMPLEX), T(MPI_C_DOUBLE_COMPLEX, 16, COMPLEX);
    T(MPI_C_BOOL, 1, LOGICAL), T(MPI_BYTE, 1, BYTES);
    T(MPI_2INT, 8, PAIR), T(MPI_DOUBLE_INT, 16, PAIR), T(MPI_FLOAT_INT, 8, PAIR);
    T(MPI_SHORT_INT, 8, PAIR);
    T(MPI_INTEGER, 4, FORTRAN_WHOLE), T(MPI_INTEGER8, 8, FORTRAN_WHOLE);
    T(MPI_DOUBLE_PRECISION, 8, FLOATS), T(MPI_REAL, 4, FLOATS);
    nfold = ntypes;
    MPI_Type_dup(MPI_DOUBLE, &dup);
    MPI_Type_vector(3, 1, 2, MPI_INT, &vector);
    MPI_Type_indexed(2, n, at, MPI_INT, &odd);
    MPI_Type_commit(&dup), MPI_Type_commit(&vector), MPI_Type_commit(&odd);
    T(dup, 8, FLOATS), T(vector, 20, DERIVED), T(odd, 12, DERIVED);
    /* Without gaps, one of the MPI's that kolo does not know, and one that goes backwards. */
    MPI_Type_contiguous(3, MPI_SHORT, &row);
    MPI_Type_contiguous(2, row, &rows);
    MPI_Type_dup(MPI_CXX_LONG_DOUBLE_COMPLEX, &quad);
    MPI_Type_create_resized(odd, 0, -12, &back);
    MPI_Type_commit(&row), MPI_Type_commit(&rows), MPI_Type_commit(&quad), MPI_Type_commit(&back);
    T(row, 6, DERIVED), T(rows, 12, DERIVED), T(quad, 32, DERIVED), T(back, 12, DERIVED);
    types[ntypes - 1].backwards = 1;
    T(MPI_CXX_LONG_DOUBLE_COMPLEX, 32, DERIVED);
#if MPI_VERSION >= 4
    /* Of these only MPI 4's functions tell how they were made. */
    MPI_Datatype large_row, large_vector, large_dup;
    MPI_Type_contiguous_c(5, MPI_CHAR, &large_row);
    MPI_Type_vector_c(3, 1, 2, MPI_INT, &large_vector);
    MPI_Type_dup(large_vector, &large_dup);
    MPI_Type_commit(&large_row), MPI_Type_commit(&large_vector), MPI_Type_commit(&large_dup);
    T(large_row, 5, DERIVED), T(large_vector, 20, DERIVED), T(large_dup, 20, DERIVED);
#endif
}

static MPI_Op draw_op(const struct type *t)
{
    const MPI_Op ops[] = {MPI_SUM, MPI_PROD, MPI_MAX, MPI_MIN, MPI_BAND, MPI_BOR, MPI_BXOR,
                          MPI_LAND, MPI_LOR, MPI_LXOR};
    MPI_Op op = MPI_SUM;
    switch (t->kind) {
    case WHOLE: op = ops[draw(10)]; break;
    case FORTRAN_WHOLE: op = ops[draw(7)]; break;
    case FLOATS: op = ops[draw(4)]; break;
    case COMPLEX: op = ops[draw(2)]; break;
    case LOGICAL: op = ops[7 + draw(3)]; break;
    case BYTES: op = ops[4 + draw(3)]; break;
    case PAIR: return draw(2) ? MPI_MINLOC : MPI_MAXLOC;
    default: return op;
    }
    return draw(6) == 0 ? weaving : op;
}

#if MPI_VERSION >= 4
#define EITHER(name, ...) (c->large ? MPI_##name##_c(__VA_ARGS__) : MPI_##name(__VA_ARGS__))
/* For calls with arrays of numbers, which the other form has in larger ones. */
#define OF_ARRAYS(name, wide, usual) (c->large ? MPI_##name##_c wide : MPI_##name usual)
#else
#define EITHER(name, ...) MPI_##name(__VA_ARGS__)
#define OF_ARRAYS(name, wide, usual) MPI_##name usual
#endif

struct call {
    int what, in_place, root, count, me, large;
    const struct type *t;
    MPI_Op op;
    MPI_Comm comm;
};

static void moves(const struct call *c, const int *counts, const int *at)
{
    const size_t begin = c->t->backwards ? (size_t)(BLOCK * size * c->t->bytes) : 0;
    char *s = send_memory + begin, *r = recv_memory + begin;
    const MPI_Datatype t = c->t->type;
    const int n = c->count, root = c->root;
    const int inside = c->in_place && c->me == root;
    int each[RANKS], places[RANKS], sum = 0;
    MPI_Count wide[RANKS], wide_each[RANKS];
    MPI_Aint wide_at[RANKS], wide_places[RANKS];
    for (int i = 0; i < size; i++) {
        each[i] = (c->me * 5 + i * 5 + n) % 300, places[i] = sum;
        sum += each[i] + 2;
        wide[i] = counts[i], wide_at[i] = at[i], wide_each[i] = each[i], wide_places[i] = places[i];
    }
    (void)wide, (void)wide_at, (void)wide_each, (void)wide_places;
    void *sent = c->in_place ? MPI_IN_PLACE : s, *from = inside ? MPI_IN_PLACE : s;
    void *into = inside ? MPI_IN_PLACE : r;
    const int own = counts[c->me];
    switch (c->what) {
    case BARRIER: MPI_Barrier(c->comm); break;
    case BCAST:
        memcpy(recv_memory, send_memory, begin + (size_t)n * (size_t)c->t->bytes);
        EITHER(Bcast, r, n, t, root, c->comm);
        break;
    case GATHER: EITHER(Gather, from, n, t, r, n, t, root, c->comm); break;
    case SCATTER: EITHER(Scatter, s, n, t, into, n, t, root, c->comm); break;
    case ALLGATHER: EITHER(Allgather, sent, n, t, r, n, t, c->comm); break;
    case ALLTOALL: EITHER(Alltoall, sent, n, t, r, n, t, c->comm); break;
    case GATHERV:
        OF_ARRAYS(Gatherv, (from, own, t, r, wide, wide_at, t, root, c->comm),
                  (from, own, t, r, counts, at, t, root, c->comm));
        break;
    case SCATTERV:
        OF_ARRAYS(Scatterv, (s, wide, wide_at, t, into, own, t, root, c->comm),
                  (s, counts, at, t, into, own, t, root, c->comm));
        break;
    case ALLGATHERV:
        OF_ARRAYS(Allgatherv, (sent, own, t, r, wide, wide_at, t, c->comm),
                  (sent, own, t, r, counts, at, t, c->comm));
        break;
    case ALLTOALLV:
        OF_ARRAYS(Alltoallv,
                  (sent, wide_each, wide_places, t, r, wide_each, wide_places, t, c->comm),
                  (sent, each, places, t, r, each, places, t, c->comm));
        break;
    }
}

/* What MPI leaves undefined becomes 0. */
static void folds(const struct call *c, const int *counts, int sum)
{
    char *s = send_memory, *r = recv_memory;
    const MPI_Datatype t = c->t->type;
    const size_t bytes = (size_t)c->t->bytes;
    const int n = c->count, mine = counts[c->me];
    void *sent = c->in_place ? MPI_IN_PLACE : s;
    MPI_Count wide[RANKS];
    for (int i = 0; i < size; i++) wide[i] = counts[i];
    (void)wide;
    /* For what the first rank does not receive; MPICH 4.0 wants some address all the same. */
#ifdef OPEN_MPI
    char *const unused = NULL;
#else
    char *const unused = r;
#endif
    switch (c->what) {
    case REDUCE:
        /* MPICH 4.0 by itself reads from MPI_IN_PLACE where there are many elements. */
        EITHER(Reduce, c->me == c->root && n < 20 ? sent : s, r, n, t, c->op, c->root, c->comm);
        if (c->me != c->root) memset(r, 0, (size_t)n * bytes);
        break;
    case ALLREDUCE: EITHER(Allreduce, sent, r, n, t, c->op, c->comm); break;
    case REDUCE_SCATTER:
        OF_ARRAYS(Reduce_scatter, (sent, r, wide, t, c->op, c->comm),
                  (sent, r, counts, t, c->op, c->comm));
        if (c->in_place) memset(r + (size_t)mine * bytes, 0, (size_t)(sum - mine) * bytes);
        break;
    case REDUCE_SCATTER_BLOCK:
        EITHER(Reduce_scatter_block, sent, r, n, t, c->op, c->comm);
        if (c->in_place) memset(r + (size_t)n * bytes, 0, (size_t)n * (size_t)(size - 1) * bytes);
        break;
    case SCAN: EITHER(Scan, sent, r, n, t, c->op, c->comm); break;
    case EXSCAN:
        EITHER(Exscan, sent, c->me == 0 && !c->in_place && n % 2 ? unused : r, n, t, c->op,
               c->comm);
        if (c->me == 0) memset(r, 0, (size_t)n * bytes);
        break;
    }
}

/* Padding is nobody's: MPICH 4.0 gathers long double with it or without, as the length is. */
static void clear_padding(const struct type *t, char *r, size_t elements)
{
    const int wide = t->kind == FLOATS && t->bytes == 16;
    for (size_t i = 0; i < elements; i++) {
        char *e = r + i * (size_t)t->bytes;
        if (wide || t->bytes == 32) memset(e + 10, 0, 6);
        if (t->bytes == 32) memset(e + 26, 0, 6);
        if (t->type == MPI_DOUBLE_INT) memset(e + 12, 0, 4);
        if (t->type == MPI_SHORT_INT) memset(e + 2, 0, 2);
    }
}

static uint64_t one(int number, MPI_Comm comm, int verbose)
{
    const int total = BLOCK * size;
    struct call c = {.comm = comm};
    int counts[RANKS], at[RANKS], sum = 0;
    MPI_Comm_rank(comm, &c.me);
    c.large = draw(3) == 0;
    c.what = (int)draw(CALLS), c.in_place = draw(3) == 0, c.root = (int)draw((uint64_t)size);
    c.t = &types[draw((uint64_t)(c.what >= REDUCE ? nfold : ntypes))];
    /* Open MPI 4.1 by itself fails where it makes memory for elements that go backwards. */
    if (c.t->backwards && c.what < GATHERV) c.t--;
    c.count = (int)(draw(4) == 0 ? draw(1000) : draw(20));
    if (draw(12) == 0) c.count = 0;
    /* MPICH 4.0 by itself truncates longer blocks of these, as of 800 MPI_DOUBLE_INT. */
    if (c.what < REDUCE && (c.t->kind == PAIR || c.t->bytes == 32)) c.count %= 20;
    c.op = draw_op(c.t);
    if (c.what >= REDUCE && c.op == MPI_PROD) c.count %= 7;
    for (int i = 0; i < size; i++) {
        counts[i] = (c.count + i * 3) % 900, at[i] = sum;
        sum += counts[i] + 1;
    }
    /* An element more, where those that go backwards begin. */
    size_t bytes = (size_t)(total + 1) * (size_t)c.t->bytes;
    if (bytes > MOST * 16) bytes = MOST * 16;
    fill(c.t, send_memory, total + 10, number);
    memset(recv_memory, 0x5a, bytes);
    if (c.in_place) fill(c.t, recv_memory, total + 10, number);
    if (c.what < REDUCE) moves(&c, counts, at);
    else folds(&c, counts, sum);
    clear_padding(c.t, recv_memory, bytes / (size_t)c.t->bytes);
    const uint64_t found = hash(recv_memory, bytes);
    if (verbose)
        printf("%d: call %d what %d type %s weaving %d count %d in place %d root %d: %016llx\n",
               rank, number, c.what, c.t->name, c.op == weaving, c.count, c.in_place, c.root,
               (unsigned long long)found);
    return found;
}

int main(int argc, char **argv)
{
    MPI_Comm comms[3];
    uint64_t all = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    state = strtoull(argv[1], NULL, 10);
    send_memory = malloc(MOST * 20);
    recv_memory = malloc(MOST * 20);
    make_types();
    MPI_Op_create(weave, 0, &weaving);
    comms[0] = MPI_COMM_WORLD;
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comms[2]);
    for (int number = 0; number < atoi(argv[2]); number++)
        all = all * 31 + one(number, comms[draw(3)], argc > 3);
    printf("%d: %016llx\n", rank, (unsigned long long)all);
    fflush(stdout);
    MPI_Comm_free(&comms[2]);
    MPI_Comm_free(&comms[1]);
    MPI_Finalize();
    return 0;
}
