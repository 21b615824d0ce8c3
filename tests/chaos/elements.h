/* Elements of every type that the runs use: small integers, written and read. */
#ifndef ELEMENTS_H
#define ELEMENTS_H
#include <kolo.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static size_t width(int type) {
    switch (type) {
    case koloInt8: case koloUint8: return 1;
    case koloFloat16: case koloBfloat16: return 2;
    case koloInt32: case koloUint32: case koloFloat32: return 4;
    default: return 8;
    }
}

/* The bits of a small integer in a type; integers wrap around. */
static uint64_t bits_of(int type, int64_t value) {
    float f = (float)value;
    double d = (double)value;
    uint32_t single;
    uint64_t bits;
    memcpy(&single, &f, 4);
    switch (type) {
    case koloInt8: case koloUint8: return (uint8_t)value;
    case koloInt32: case koloUint32: return (uint32_t)value;
    case koloFloat32: return single;
    case koloBfloat16: return single >> 16;
    /* Exponent 127 of the single is 15 of the half; 0 has no exponent. */
    case koloFloat16: return value ? (single >> 13) - ((127 - 15) << 10) : 0;
    case koloFloat64: memcpy(&bits, &d, 8); return bits;
    default: return (uint64_t)value;
    }
}

static void store(unsigned char *at, int type, size_t i, uint64_t bits) {
    size_t bytes = width(type);
    memcpy(at + i * bytes, &bits, bytes);       /* little-endian, as all of kolo's machines */
}

static uint64_t load(const unsigned char *at, int type, size_t i) {
    uint64_t bits = 0;
    memcpy(&bits, at + i * width(type), width(type));
    return bits;
}

/* What rank `rank` has at place `i` in a call: 0 to 15, for products 1 or (rarely) 2. 16 ranks stay
   below 256, which every type can hold. */
static int64_t element(int rank, size_t i, unsigned call, int op) {
    uint32_t x = (uint32_t)i * 2654435761u + (uint32_t)rank * 40503u + call * 97u;
    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    return op == koloProd ? 1 + (x % 5 == 0) : (int64_t)(x & 15);
}

static int64_t fold(int op, int64_t a, int64_t b) {
    switch (op) {
    case koloProd: return a * b;
    case koloMax: return a > b ? a : b;
    case koloMin: return a < b ? a : b;
    case koloBxor: return a ^ b;
    case koloBor: return a | b;
    default: return a + b;
    }
}

#endif
