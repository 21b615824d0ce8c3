/* Types that are not plain numbers, their operations, and functions of the program, from C. */
#include "check.h"
#include <complex.h>
#include <math.h>
#include <stdbool.h>

typedef struct {
    double value;
    int index;
} double_int;

static void complex_numbers(int rank, int n, koloComm_t comm) {
    double complex z[3] = {rank + 1, rank * I, 1 + rank * I}, sums[3];
    float complex unit[2] = {I, -1};
    OK(koloAllReduce(z, sums, 3, koloDoubleComplex, koloSum, comm, NULL));
    CHECK(sums[0] == n * (n + 1) / 2 && sums[1] == n * (n - 1) / 2 * I);
    OK(koloAllReduce(unit, unit, 2, koloFloatComplex, koloProd, comm, NULL));
    const float complex powers[4] = {1, I, -1, -I};
    CHECK(unit[0] == powers[n % 4] && unit[1] == (n % 2 ? -1 : 1));
    FAILS(koloInvalidArgument, "complex128 has sum, prod, avg",
          koloAllReduce(z, sums, 3, koloComplex128, koloMax, comm, NULL));
}

static void truth_and_bits(int rank, int n, koloComm_t comm) {
    int32_t mask[3] = {1, rank == 0, 0}, result[3];
    bool flag = rank == n - 1;
    unsigned char bytes[2] = {(unsigned char)(1 << rank % 8), 0xff};
    uint64_t bits = 0xf0f0;
    OK(koloAllReduce(mask, result, 3, koloLogical32, koloLand, comm, NULL));
    CHECK(result[0] == 1 && result[1] == (n == 1) && result[2] == 0);
    OK(koloAllReduce(mask, result, 3, koloLogical32, koloLor, comm, NULL));
    CHECK(result[0] == 1 && result[1] == 1 && result[2] == 0);
    OK(koloAllReduce(mask, result, 3, koloInt32, koloLxor, comm, NULL));
    CHECK(result[0] == n % 2 && result[1] == 1 && result[2] == 0);
    OK(koloAllReduce(&flag, &flag, 1, koloLogical8, koloLor, comm, NULL));
    CHECK(flag);
    OK(koloAllReduce(bytes, bytes, 2, koloByte, koloBor, comm, NULL));
    CHECK(bytes[0] == (n >= 8 ? 0xff : (1 << n) - 1) && bytes[1] == 0xff);
    OK(koloAllReduce(&bits, &bits, 1, koloUint64, koloBxor, comm, NULL));
    CHECK(bits == (n % 2 ? 0xf0f0 : 0));
    FAILS(koloInvalidArgument, "byte has max, min, band",
          koloAllReduce(bytes, bytes, 2, koloByte, koloSum, comm, NULL));
}

static void where(int rank, int n, koloComm_t comm) {
    double_int pairs[3] = {{rank % 3, 100 - rank}, {-rank, rank}, {7, rank}}, best[3];
    int two[2] = {rank % 2, rank};
    OK(koloAllReduce(pairs, best, 3, koloDoubleInt, koloMaxloc, comm, NULL));
    const int largest = n > 2 ? 2 : n - 1, last = largest + (n - 1 - largest) / 3 * 3;
    CHECK(best[0].value == largest && best[0].index == 100 - last);
    CHECK(best[1].value == 0 && best[1].index == 0);
    CHECK(best[2].value == 7 && best[2].index == 0);
    pairs[0].value = rank == n - 1 ? NAN : rank;
    OK(koloReduce(pairs, best, 3, koloDoubleInt, koloMinloc, 0, comm, NULL));
    if (rank == 0) CHECK(isnan(best[0].value) && best[0].index == 100 - (n - 1));
    OK(koloAllReduce(two, two, 1, kolo2Int, koloMaxloc, comm, NULL));
    CHECK(two[0] == (n > 1) && two[1] == (n > 1));
    FAILS(koloInvalidArgument, "minloc, maxloc",
          koloAllReduce(pairs, best, 3, koloDoubleInt, koloSum, comm, NULL));
}

/* Maps x -> a x + b: they do not commute. An element is one map. */
typedef struct {
    double a, b;
} map;

static map then(map first, map second) {
    return (map){first.a * second.a, first.b * second.a + second.b};
}

static void compose(const void *in, void *inout, size_t count, koloDataType_t type, void *context) {
    const map *first = in;
    map *second = inout;
    CHECK(type == koloDoubleDouble && *(int *)context == 17);
    for (size_t i = 0; i < count; i++) second[i] = then(first[i], second[i]);
}

static map map_of(int rank, int i) { return (map){1 + (rank + i) % 3, rank * 7 + i % 11}; }

/* A function that knows one type: calls on another one are refused, and touch nothing. */
static void made_for_one_type(int rank, int n, koloComm_t comm) {
    static int context = 17;
    const map mine = map_of(rank, 5);
    map found = {-7, -8}, wanted = map_of(0, 5);
    koloRedOp_t op;
    OK(koloRedOpCreateUserFor(&op, compose, &context, 0, koloDoubleDouble, comm));
    FAILS(koloInvalidArgument, "was made for double_double, not double",
          koloAllReduce(&mine, &found, 1, koloDouble, op, comm, NULL));
    FAILS(koloInvalidArgument, "was made for double_double, not float_int",
          koloReduce(&mine, &found, 1, koloFloatInt, op, 0, comm, NULL));
    CHECK(found.a == -7 && found.b == -8);
    OK(koloAllReduce(&mine, &found, 1, koloDoubleDouble, op, comm, NULL));
    for (int r = 1; r < n; r++) wanted = then(wanted, map_of(r, 5));
    CHECK(found.a == wanted.a && found.b == wanted.b);
    OK(koloRedOpDestroy(op, comm));
    FAILS(koloInvalidArgument, "data type",
          koloRedOpCreateUserFor(&op, compose, &context, 0, (koloDataType_t)4711, comm));
    FAILS(koloInvalidArgument, "function",
          koloRedOpCreateUserFor(&op, NULL, NULL, 0, koloDouble, comm));
}

static void functions(int rank, int n, koloComm_t comm) {
    enum { COUNT = 30000 };
    static int context = 17;
    map *send = malloc(COUNT * sizeof *send), *recv = malloc(COUNT * sizeof *recv);
    koloRedOp_t op;
    OK(koloRedOpCreateUser(&op, compose, &context, 0, comm));
    for (int i = 0; i < COUNT; i++) send[i] = map_of(rank, i);
    for (int count = 1; count <= COUNT; count += COUNT - 1) {
        OK(koloAllReduce(send, recv, (size_t)count, koloDoubleDouble, op, comm, NULL));
        for (int i = 0; i < count; i++) {
            map wanted = map_of(0, i);
            for (int r = 1; r < n; r++) wanted = then(wanted, map_of(r, i));
            CHECK(wanted.a == recv[i].a && wanted.b == recv[i].b);
        }
    }
    OK(koloRedOpDestroy(op, comm));
    made_for_one_type(rank, n, comm);
    FAILS(koloInvalidArgument, "not a reduction operation",
          koloAllReduce(send, recv, 4, koloDoubleDouble, op, comm, NULL));
    FAILS(koloInvalidArgument, "function", koloRedOpCreateUser(&op, NULL, NULL, 0, comm));
    FAILS(koloInvalidArgument, "op", koloRedOpCreateUser(NULL, compose, NULL, 0, comm));
    FAILS(koloInvalidArgument, "built in", koloRedOpDestroy(koloMaxloc, comm));
    free(send), free(recv);
}

static void body(int rank, int n, koloComm_t comm) {
    complex_numbers(rank, n, comm);
    truth_and_bits(rank, n, comm);
    where(rank, n, comm);
    functions(rank, n, comm);
}

int main(void) {
    for (int n = 1; n <= 5; n++) on_ranks(n, body);
    puts("types: ok");
    return 0;
}
