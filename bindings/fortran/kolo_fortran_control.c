/* Entry points that move no data: communicators, groups, streams, errors. */
#define _GNU_SOURCE
#include "kolo_fortran.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* The MPI handle that kolo was started with, for the end of the job. */
static _Atomic bool started_by_mpi;
static _Atomic int32_t mpi_handle;

/* The binary interface of the MPI that the program is linked to, or NULL. */
static const char *mpi_family(void) {
    int (*get_version)(char *, int *);
    static char text[8192]; /* at least MPI_MAX_LIBRARY_VERSION_STRING */
    int length = 0;
    *(void **)&get_version = dlsym(RTLD_DEFAULT, "MPI_Get_library_version");
    if (!get_version || get_version(text, &length) != 0) return NULL;
    return strstr(text, "Open MPI") ? "openmpi" : "mpich";
}

/* koloCommInitMPI_f is looked up at run time, so that programs without MPI link without it. A
 * program that names libkolo_mpi on its link line may lack it all the same, because linkers drop
 * libraries that nothing refers to: so it is loaded from its place beside this library too. */
static void *find_init(void) {
    static const char name[] = "koloCommInitMPI_f", file[] = "libkolo_mpi.so";
    void *function = dlsym(RTLD_DEFAULT, name), *library = NULL;
    const char *family = function ? NULL : mpi_family();
    Dl_info here;
    if (!family) return function;
    if (dladdr((void *)find_init, &here) && strrchr(here.dli_fname, '/')) {
        const int length = (int)(strrchr(here.dli_fname, '/') - here.dli_fname);
        static const char *const places[] = {"%.*s/kolo/%s/%s", "%.*s/%s/%s"};
        char path[4096];
        for (int i = 0; i < 2 && !library; i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
            snprintf(path, sizeof path, places[i], length, here.dli_fname, family, file);
#pragma GCC diagnostic pop
            library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
        }
    }
    if (!library) library = dlopen(file, RTLD_NOW | RTLD_GLOBAL);
    return library ? dlsym(library, name) : NULL;
}

/* Whether somebody still has to read what this process has written there. */
static bool is_unread(int output) {
    struct stat status;
    int bytes = 0;
    if (fstat(output, &status) != 0) return false;
    if (S_ISFIFO(status.st_mode)) return ioctl(output, FIONREAD, &bytes) == 0 && bytes > 0;
    return S_ISSOCK(status.st_mode) && ioctl(output, TIOCOUTQ, &bytes) == 0 && bytes > 0;
}

/* A launcher that is told to end the job may lose what it has not read from its ranks: MPICH's
 * does. Waits until it has, for a second at most. */
void kolo_fi_wait_until_read(void) {
    for (int i = 0; i < 1000 && (is_unread(STDOUT_FILENO) || is_unread(STDERR_FILENO)); i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* Ends the job through MPI, if kolo was started by it and it runs. */
void kolo_fi_abort_mpi(void) {
    void (*mpi_abort)(const int32_t *, const int32_t *, int32_t *);
    int (*ask)(int *), answer = 0;
    const int32_t handle = mpi_handle, code = 1;
    int32_t ierror;
    *(void **)&mpi_abort = dlsym(RTLD_DEFAULT, "mpi_abort_");
    if (!started_by_mpi || !mpi_abort) return;
    *(void **)&ask = dlsym(RTLD_DEFAULT, "MPI_Initialized");
    if (!ask || ask(&answer) != 0 || !answer) return;
    *(void **)&ask = dlsym(RTLD_DEFAULT, "MPI_Finalized");
    if (!ask || ask(&answer) != 0 || answer) return;
    mpi_abort(&handle, &code, &ierror);
}

static _Atomic bool flushed;

static void *flush_all(void *unused) {
    void (*flush)(int32_t *);
    *(void **)&flush = dlsym(RTLD_DEFAULT, "_gfortran_flush_i4");
    if (flush) flush(NULL);
    flushed = true;
    return unused;
}

/* Writes the buffers of gfortran's units; flang has no call for that and writes them at exit.
 * A call inside a print or write stands in a statement that holds its unit: whoever flushes then
 * waits for ever, so a thread of its own does, and false says that it has not come back. */
bool kolo_fi_flush_units(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, flush_all, NULL) != 0) return false;
    pthread_detach(thread);
    for (int i = 0; i < 100 && !flushed; i++)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    return flushed;
}

KOLO_ENTRY void kolo_f_comm_init(const int32_t *mpi_comm, fortran_comm *comm, int32_t *ierror) {
    koloResult_t (*init)(koloComm_t *, int32_t);
    call c;
    comm->handle = NULL;
    kolo_fi_begin(&c, "kolo_comm_init", NULL, NULL, ierror);
    if (!started_by_mpi) mpi_handle = *mpi_comm;
    started_by_mpi = true;
    *(void **)&init = find_init();
    if (init)
        kolo_fi_check(&c, init(&comm->handle, *mpi_comm));
    else
        kolo_fi_problem(&c, koloInvalidUsage,
                        "link with -lkolo_mpi of the MPI that the program uses, or have its folder "
                        "in LD_LIBRARY_PATH",
                        "the library libkolo_mpi is not loaded and cannot be found");
    kolo_fi_finish(&c);
}

KOLO_ENTRY void kolo_f_comm_init_f08(const int32_t *mpi_comm, fortran_comm *comm,
                                     int32_t *ierror) {
    kolo_f_comm_init(mpi_comm, comm, ierror);
}

KOLO_ENTRY void kolo_f_comm_init_env(fortran_comm *comm, int32_t *ierror) {
    call c;
    comm->handle = NULL;
    kolo_fi_begin(&c, "kolo_comm_init_env", NULL, NULL, ierror);
    kolo_fi_check(&c, koloCommInitEnv(&comm->handle));
    kolo_fi_finish(&c);
}

KOLO_ENTRY void kolo_f_comm_init_slurm(fortran_comm *comm, int32_t *ierror) {
    call c;
    comm->handle = NULL;
    kolo_fi_begin(&c, "kolo_comm_init_slurm", NULL, NULL, ierror);
    kolo_fi_check(&c, koloCommInitSlurm(&comm->handle));
    kolo_fi_finish(&c);
}

KOLO_ENTRY void kolo_f_get_unique_id(koloUniqueId *id, int32_t *ierror) {
    call c;
    kolo_fi_begin(&c, "kolo_get_unique_id", NULL, NULL, ierror);
    kolo_fi_check(&c, koloGetUniqueId(id));
    kolo_fi_finish(&c);
}

KOLO_ENTRY void kolo_f_comm_init_rank(const int32_t *nranks, const koloUniqueId *id,
                                      const int32_t *rank, fortran_comm *comm, int32_t *ierror) {
    call c;
    kolo_fi_begin(&c, "kolo_comm_init_rank", NULL, NULL, ierror);
    kolo_fi_check(&c, koloCommInitRank(&comm->handle, *nranks, *id, *rank));
    kolo_fi_finish(&c);
}

KOLO_ENTRY void kolo_f_comm_split(const fortran_comm *comm, const int32_t *color,
                                  const int32_t *key, fortran_comm *newcomm, int32_t *ierror) {
    call c;
    koloComm_t made = NULL;
    kolo_fi_begin(&c, "kolo_comm_split", comm, NULL, ierror);
    if (kolo_fi_in_group())
        kolo_fi_problem(&c, koloInvalidUsage, "call it before kolo_group_start",
                        "communicators cannot be split inside a group");
    else
        kolo_fi_check(&c, koloCommSplit(c.comm, *color, *key, &made, NULL));
    newcomm->handle = made;
    kolo_fi_finish(&c);
}

KOLO_ENTRY void kolo_f_comm_rank(const fortran_comm *comm, int32_t *rank, int32_t *ierror) {
    call c;
    kolo_fi_begin(&c, "kolo_comm_rank", comm, NULL, ierror);
    kolo_fi_check(&c, koloCommUserRank(c.comm, rank));
    kolo_fi_finish(&c);
}

KOLO_ENTRY void kolo_f_comm_size(const fortran_comm *comm, int32_t *size, int32_t *ierror) {
    call c;
    kolo_fi_begin(&c, "kolo_comm_size", comm, NULL, ierror);
    kolo_fi_check(&c, koloCommCount(c.comm, size));
    kolo_fi_finish(&c);
}

KOLO_ENTRY void kolo_f_comm_finalize(const fortran_comm *comm, int32_t *ierror) {
    call c;
    kolo_fi_begin(&c, "kolo_comm_finalize", comm, NULL, ierror);
    kolo_fi_check(&c, koloCommFinalize(c.comm));
    kolo_fi_finish(&c);
}

KOLO_ENTRY void kolo_f_comm_destroy(fortran_comm *comm, int32_t *ierror) {
    call c;
    koloResult_t code;
    kolo_fi_begin(&c, "kolo_comm_destroy", comm, NULL, ierror);
    code = koloCommDestroy(c.comm);
    kolo_fi_check(&c, code);
    /* The handle is gone after any other error, too. */
    if (code != koloInvalidUsage) comm->handle = NULL;
    kolo_fi_finish(&c);
}

KOLO_ENTRY void kolo_f_comm_abort(fortran_comm *comm, int32_t *ierror) {
    call c;
    kolo_fi_begin(&c, "kolo_comm_abort", comm, NULL, ierror);
    if (kolo_fi_check(&c, koloCommAbort(c.comm))) comm->handle = NULL;
    kolo_fi_finish(&c);
}

KOLO_ENTRY void kolo_f_group_start(int32_t *ierror) {
    call c;
    kolo_fi_begin(&c, "kolo_group_start", NULL, NULL, ierror);
    kolo_fi_check(&c, kolo_fi_group_start());
    kolo_fi_finish(&c);
}

KOLO_ENTRY void kolo_f_group_end(int32_t *ierror) {
    call c;
    kolo_fi_begin(&c, "kolo_group_end", NULL, NULL, ierror);
    kolo_fi_group_end(&c);
    kolo_fi_finish(&c);
}

KOLO_ENTRY void kolo_f_stream_create(fortran_stream *stream, int32_t *ierror) {
    call c;
    kolo_fi_begin(&c, "kolo_stream_create", NULL, NULL, ierror);
    stream->handle = NULL;
    kolo_fi_check(&c, koloStreamCreate(&stream->handle));
    kolo_fi_finish(&c);
}

KOLO_ENTRY void kolo_f_stream_destroy(fortran_stream *stream, int32_t *ierror) {
    call c;
    kolo_fi_begin(&c, "kolo_stream_destroy", NULL, stream, ierror);
    if (c.code == koloSuccess) {
        temporary *taken = kolo_fi_take_staged_of(c.stream);
        kolo_fi_give_staged(taken, kolo_fi_check(&c, koloStreamDestroy(c.stream)));
    }
    stream->handle = NULL;
    kolo_fi_finish(&c);
}

KOLO_ENTRY void kolo_f_stream_synchronize(const fortran_stream *stream, int32_t *ierror) {
    call c;
    kolo_fi_begin(&c, "kolo_stream_synchronize", NULL, stream, ierror);
    if (c.code == koloSuccess) {
        temporary *taken = kolo_fi_take_staged_of(c.stream);
        kolo_fi_give_staged(taken, kolo_fi_check(&c, koloStreamSynchronize(c.stream)));
    }
    kolo_fi_finish(&c);
}

/* Returns through `done`: 1 when everything has ended. */
KOLO_ENTRY void kolo_f_stream_query(const fortran_stream *stream, int32_t *done, int32_t *ierror) {
    call c;
    koloResult_t code;
    kolo_fi_begin(&c, "kolo_stream_query", NULL, stream, ierror);
    *done = 0;
    if (c.code == koloSuccess) {
        temporary *taken = kolo_fi_take_staged_of(c.stream);
        code = koloStreamQuery(c.stream);
        *done = code == koloSuccess;
        kolo_fi_give_staged(taken, *done);
        kolo_fi_check(&c, code == koloInProgress ? koloSuccess : code);
    }
    kolo_fi_finish(&c);
}

KOLO_ENTRY void kolo_f_wait(fortran_request *request, int32_t *ierror) {
    call c;
    kolo_fi_begin(&c, "kolo_wait", NULL, NULL, ierror);
    temporary *taken = kolo_fi_take_staged_of(request->handle);
    kolo_fi_check(&c, koloWait(&request->handle));
    kolo_fi_give_staged(taken, !request->handle);
    kolo_fi_finish(&c);
}

/* Returns through `done`: 1 when the call has ended. */
KOLO_ENTRY void kolo_f_test(fortran_request *request, int32_t *done, int32_t *ierror) {
    call c;
    int answer = 0;
    kolo_fi_begin(&c, "kolo_test", NULL, NULL, ierror);
    temporary *taken = kolo_fi_take_staged_of(request->handle);
    kolo_fi_check(&c, koloTest(&request->handle, &answer));
    kolo_fi_give_staged(taken, !request->handle);
    *done = answer;
    kolo_fi_finish(&c);
}

static void end_requests(call *c, fortran_request *requests, size_t count) {
    temporary **taken = count ? malloc(count * sizeof *taken) : NULL;
    for (size_t i = 0; taken && i < count; i++)
        taken[i] = kolo_fi_take_staged_of(requests[i].handle);
    kolo_fi_check(c, koloWaitAll(count, count ? &requests->handle : NULL));
    for (size_t i = 0; taken && i < count; i++) kolo_fi_give_staged(taken[i], !requests[i].handle);
    free(taken);
}

KOLO_ENTRY void kolo_f_waitall(fortran_request *requests, const int64_t *count, int32_t *ierror) {
    call c;
    kolo_fi_begin(&c, "kolo_waitall", NULL, NULL, ierror);
    end_requests(&c, requests, (size_t)*count);
    kolo_fi_finish(&c);
}

KOLO_ENTRY void kolo_f_graph_create(const fortran_comm *comm, const int32_t *indegree,
                                    const int32_t *sources, const int32_t *outdegree,
                                    const int32_t *destinations, fortran_graph *graph,
                                    int32_t *ierror) {
    call c;
    *graph = (fortran_graph){NULL, comm->handle};
    kolo_fi_begin(&c, "kolo_graph_create", comm, NULL, ierror);
    kolo_fi_check(&c, koloGraphCreate(c.comm, *indegree, sources, *outdegree, destinations,
                                      &graph->handle));
    kolo_fi_finish(&c);
}

KOLO_ENTRY void kolo_f_cart_create(const fortran_comm *comm, const int32_t *ndims,
                                   const int32_t *dims, const int32_t *periods,
                                   fortran_graph *graph, int32_t *ierror) {
    call c;
    *graph = (fortran_graph){NULL, comm->handle};
    kolo_fi_begin(&c, "kolo_cart_create", comm, NULL, ierror);
    kolo_fi_check(&c, koloCartCreate(c.comm, *ndims, dims, periods, &graph->handle));
    kolo_fi_finish(&c);
}

KOLO_ENTRY void kolo_f_graph_destroy(fortran_graph *graph, int32_t *ierror) {
    call c;
    kolo_fi_begin_graph(&c, "kolo_graph_destroy", graph, NULL, NULL, ierror);
    kolo_fi_check(&c, koloGraphDestroy(graph->handle));
    graph->handle = NULL;
    kolo_fi_finish(&c);
}

KOLO_ENTRY void kolo_f_graph_degrees(const fortran_graph *graph, int32_t *indegree,
                                     int32_t *outdegree, int32_t *ierror) {
    call c;
    kolo_fi_begin_graph(&c, "kolo_graph_degrees", graph, NULL, NULL, ierror);
    kolo_fi_check(&c, koloGraphDegrees(graph->handle, indegree, outdegree));
    kolo_fi_finish(&c);
}

KOLO_ENTRY void kolo_f_graph_neighbors(const fortran_graph *graph, int32_t *sources,
                                       int32_t *destinations, int32_t *ierror) {
    call c;
    kolo_fi_begin_graph(&c, "kolo_graph_neighbors", graph, NULL, NULL, ierror);
    kolo_fi_check(&c, koloGraphNeighbors(graph->handle, sources, destinations));
    kolo_fi_finish(&c);
}

KOLO_ENTRY void kolo_f_version(int32_t *version) { koloGetVersion(version); }

/* Fills `text` with the sentence and blanks. */
KOLO_ENTRY void kolo_f_get_last_error(const fortran_comm *comm, char *text,
                                      const int64_t *capacity) {
    const size_t room = *capacity > 0 ? (size_t)*capacity : 0;
    const size_t used = kolo_fi_last_error(comm->handle, text, room);
    memset(text + used, ' ', room - used);
}
