/* How long a cache line takes from one core to another, in nanoseconds: whether the first two cores
 * of this process share a cache now. The host of a virtual machine may move its cores, and then
 * everything that is measured between them changes.
 *
 *   probe        prints the median of several bouts, in about 3 ms
 */
#define _GNU_SOURCE
#include "measure.h"

#include <pthread.h>

enum { BOUTS = 9, ROUNDS = 1000 };

static struct flag ball[2];

static void *other(void *nothing) {
    pin(1);
    for (uint64_t round = 1; round <= BOUTS * ROUNDS; round++) {
        while (atomic_load_explicit(&ball[0].value, memory_order_acquire) < round) pause_core();
        atomic_store_explicit(&ball[1].value, round, memory_order_release);
    }
    return nothing;
}

int main(void) {
    double times[BOUTS];
    pthread_t thread;
    cpu_set_t cores;
    if (sched_getaffinity(0, sizeof cores, &cores) || CPU_COUNT(&cores) < 2) return 2;
    if (pthread_create(&thread, NULL, other, NULL)) fail("no thread");
    pin(0);
    for (int bout = 0; bout < BOUTS; bout++) {
        double begin = nanoseconds();
        for (uint64_t round = bout * ROUNDS + 1; round <= (uint64_t)(bout + 1) * ROUNDS; round++) {
            atomic_store_explicit(&ball[0].value, round, memory_order_release);
            while (atomic_load_explicit(&ball[1].value, memory_order_acquire) < round)
                pause_core();
        }
        times[bout] = (nanoseconds() - begin) / ROUNDS / 2;
    }
    pthread_join(thread, NULL);
    qsort(times, BOUTS, sizeof(double), by_size);
    printf("%.0f\n", times[BOUTS / 2]);
    return 0;
}
