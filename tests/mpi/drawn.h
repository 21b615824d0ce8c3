/* Numbers that are drawn alike on all ranks, from one seed: SplitMix64
 * (doi:10.1145/2660193.2660195). */
#ifndef KOLO_TESTS_DRAWN_H
#define KOLO_TESTS_DRAWN_H

#include <stdint.h>

static uint64_t state;

static uint64_t mixed(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t draw(uint64_t below)
{
    return mixed(state += 0x9e3779b97f4a7c15u) % below;
}

#endif
