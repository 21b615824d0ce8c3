/*
 * Ranks of MPICH that give their core away while they wait.
 *
 * MPICH 4 never does: three ranks on two cores take 12 ms for each barrier, a slice of the system's
 * for each who waits. Preloaded, this yields whenever a look at UCX has found nothing; what the
 * ranks send and receive stays as it is.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <stdlib.h>

unsigned ucp_worker_progress(void *worker);

unsigned ucp_worker_progress(void *worker)
{
    static unsigned (*_Atomic known)(void *);
    unsigned (*next)(void *) = known;
    if (!next) {
        *(void **)&next = dlsym(RTLD_NEXT, "ucp_worker_progress");
        /* Python loads MPI, and what that needs, for itself alone. */
        void *library = next ? NULL : dlopen("libucp.so.0", RTLD_LAZY | RTLD_NOLOAD);
        if (library) *(void **)&next = dlsym(library, "ucp_worker_progress");
        if (!next) abort();
        known = next;
    }
    const unsigned found = next(worker);
    if (found == 0) sched_yield();
    return found;
}
