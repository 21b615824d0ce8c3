/*
 * Preloaded beside libkolo_pmpi.so: while koloCommInitMPI makes a communicator on rank FAIL_RANK,
 * one call that kolo makes of the system fails, number FAIL_AT of function FAIL, with what such a
 * call says of a full system. With FAIL=after it is the rank's last step. Without FAIL the rank
 * tells at its end how many calls there were.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/types.h>

enum which { MEMFD, MMAP, FTRUNCATE, FALLOCATE, SOCKET, BIND, LISTEN, CONNECT, ACCEPT, SENDMSG,
             THREAD, EVENTFD, COUNT };
static const char *const names[COUNT] = {"memfd_create", "mmap", "ftruncate", "fallocate", "socket",
                                         "bind", "listen", "connect", "accept4", "sendmsg",
                                         "pthread_create", "eventfd"};
static int inside, calls[COUNT], failed;

static int is_the_rank(void)
{
    static int known;
    if (!known) {
        const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *wanted = getenv("FAIL_RANK");
        if (!rank) rank = getenv("PMI_RANK");
        known = rank && wanted && !strcmp(rank, wanted) ? 1 : 2;
    }
    return known == 1;
}

/* Whether this call is to fail: it comes from kolo, not from the MPI. */
static int fails(enum which which, void *caller)
{
    Dl_info place;
    if (!__atomic_load_n(&inside, __ATOMIC_ACQUIRE) || !is_the_rank()) return 0;
    if (!dladdr(caller, &place) || !strstr(place.dli_fname, "/libkolo")) return 0;
    const int number = __atomic_add_fetch(&calls[which], 1, __ATOMIC_RELAXED);
    const char *wanted = getenv("FAIL"), *at = getenv("FAIL_AT");
    if (!wanted || !at || strcmp(wanted, names[which]) || number != atoi(at)) return 0;
    failed++;
    errno = which == MMAP || which == MEMFD || which == THREAD ? ENOMEM : ENOBUFS;
    return 1;
}

static void *next(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) abort();
    return found;
}

#define FAILING(result, name, which, arguments, passed, failure)         \
    result name arguments                                                \
    {                                                                    \
        static result(*real) arguments;                                  \
        if (!real) *(void **)&real = next(#name);                        \
        if (fails(which, __builtin_return_address(0))) return failure;   \
        return real passed;                                              \
    }

FAILING(int, memfd_create, MEMFD, (const char *n, unsigned f), (n, f), -1)
FAILING(void *, mmap, MMAP, (void *a, size_t n, int p, int f, int d, off_t o), (a, n, p, f, d, o),
        MAP_FAILED)
FAILING(void *, mmap64, MMAP, (void *a, size_t n, int p, int f, int d, off64_t o),
        (a, n, p, f, d, o), MAP_FAILED)
FAILING(int, ftruncate, FTRUNCATE, (int d, off_t n), (d, n), -1)
FAILING(int, ftruncate64, FTRUNCATE, (int d, off64_t n), (d, n), -1)
FAILING(int, fallocate, FALLOCATE, (int d, int m, off_t o, off_t n), (d, m, o, n), -1)
FAILING(int, socket, SOCKET, (int a, int b, int c), (a, b, c), -1)
FAILING(int, bind, BIND, (int d, const struct sockaddr *a, socklen_t n), (d, a, n), -1)
FAILING(int, listen, LISTEN, (int d, int n), (d, n), -1)
FAILING(int, connect, CONNECT, (int d, const struct sockaddr *a, socklen_t n), (d, a, n), -1)
FAILING(int, accept4, ACCEPT, (int d, struct sockaddr *a, socklen_t *n, int f), (d, a, n, f), -1)
FAILING(ssize_t, sendmsg, SENDMSG, (int d, const struct msghdr *m, int f), (d, m, f), -1)
FAILING(int, pthread_create, THREAD, (pthread_t *t, const pthread_attr_t *a,
                                      void *(*run)(void *), void *x), (t, a, run, x), EAGAIN)
FAILING(int, eventfd, EVENTFD, (unsigned n, int f), (n, f), -1)

/* A communicator's handle is a number or a pointer: a register has it in either case. */
int koloCommInitMPI(void **made, void *comm)
{
    int (*real)(void **, void *);
    void *library = dlopen("libkolo_mpi_calls.so", RTLD_LAZY | RTLD_NOLOAD);
    *(void **)&real = library ? dlsym(library, "koloCommInitMPI") : NULL;
    if (!real) abort();
    /* All is made, and this rank alone does not know. */
    const char *wanted = getenv("FAIL");
    if (wanted && !strcmp(wanted, "after") && is_the_rank() && !failed) {
        const int code = real(made, comm);
        failed++;
        return code ? code : 3;
    }
    __atomic_store_n(&inside, 1, __ATOMIC_RELEASE);
    const int code = real(made, comm);
    __atomic_store_n(&inside, 0, __ATOMIC_RELEASE);
    return code;
}

/* FAIL=keyval: MPI has no key for the attributes of kolo's library, which asks in MPI_Init. */
int PMPI_Comm_create_keyval(void *copy, void *delete, int *key, void *extra)
{
    static int (*real)(void *, void *, int *, void *);
    Dl_info place;
    if (!real) *(void **)&real = next("PMPI_Comm_create_keyval");
    const char *wanted = getenv("FAIL");
    if (!wanted || strcmp(wanted, "keyval") || !is_the_rank())
        return real(copy, delete, key, extra);
    if (!dladdr(__builtin_return_address(0), &place) || !strstr(place.dli_fname, "/libkolo_pmpi"))
        return real(copy, delete, key, extra);
    failed++;
    return 16;
}

static __attribute__((destructor)) void tell(void)
{
    if (!is_the_rank()) return;
    if (getenv("FAIL")) {
        if (failed) fprintf(stderr, "failed %d\n", failed);
        return;
    }
    for (int which = 0; which < COUNT; which++)
        if (calls[which]) fprintf(stderr, "counted %s %d\n", names[which], calls[which]);
}
