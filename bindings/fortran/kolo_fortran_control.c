/* Entry points that move no data: communicators, groups, streams, errors. */
#define _GNU_SOURCE
#include "kolo_fortran.h"
#include <dlfcn.h>
#include <string.h>

/* libkolo_mpi is found at run time, so that programs without MPI link without it. A program that
 * names it on its link line may still lack it, because linkers drop libraries that nothing refers
 * to: so it is loaded by name as well. */
void *kolo_fi_mpi_function(const char *name) {
    static const char *const files[] = {"libkolo_mpi.so.0", "libkolo_mpi.so"};
    void *function = dlsym(RTLD_DEFAULT, name);
    for (size_t i = 0; !function && i < sizeof files / sizeof *files; i++) {
        void *library = dlopen(files[i], RTLD_NOW | RTLD_GLOBAL);
        if (library) function = dlsym(library, name);
    }
    return function;
}

/* Writes the buffers of gfortran's units; flang has no call for that and writes them at exit. */
void kolo_fi_flush_units(void) {
    void (*flush)(int32_t *);
    *(void **)&flush = dlsym(RTLD_DEFAULT, "_gfortran_flush_i4");
    if (flush) flush(NULL);
}

KOLO_ENTRY void kolo_f_comm_init(const int32_t *mpi_comm, fortran_comm *comm, int32_t *ierror) {
    koloResult_t (*init)(koloComm_t *, int32_t);
    call c;
    comm->handle = NULL;
    kolo_fi_begin(&c, "kolo_comm_init", NULL, NULL, ierror);
    *(void **)&init = kolo_fi_mpi_function("koloCommInitMPI_f");
    if (init)
        kolo_fi_check(&c, init(&comm->handle, *mpi_comm));
    else
        kolo_fi_problem(&c, koloInvalidUsage,
                        "link with -lkolo_mpi (the build for the MPI of the program), or have its "
                        "folder in LD_LIBRARY_PATH",
                        "the library libkolo_mpi is not loaded and cannot be found");
    kolo_fi_finish(&c);
}

KOLO_ENTRY void kolo_f_comm_init_f08(const int32_t *mpi_comm, fortran_comm *comm,
                                     int32_t *ierror) {
    kolo_f_comm_init(mpi_comm, comm, ierror);
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
    kolo_fi_begin(&c, "kolo_comm_destroy", comm, NULL, ierror);
    if (kolo_fi_check(&c, koloCommDestroy(c.comm))) comm->handle = NULL;
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
    if (c.code == koloSuccess) kolo_fi_check(&c, koloStreamDestroy(c.stream));
    stream->handle = NULL;
    kolo_fi_finish(&c);
}

KOLO_ENTRY void kolo_f_stream_synchronize(const fortran_stream *stream, int32_t *ierror) {
    call c;
    kolo_fi_begin(&c, "kolo_stream_synchronize", NULL, stream, ierror);
    if (c.code == koloSuccess) kolo_fi_check(&c, koloStreamSynchronize(c.stream));
    kolo_fi_finish(&c);
}

/* Returns through `done`: 1 when everything has ended. */
KOLO_ENTRY void kolo_f_stream_query(const fortran_stream *stream, int32_t *done, int32_t *ierror) {
    call c;
    koloResult_t code;
    kolo_fi_begin(&c, "kolo_stream_query", NULL, stream, ierror);
    *done = 0;
    if (c.code == koloSuccess) {
        code = koloStreamQuery(c.stream);
        *done = code == koloSuccess;
        kolo_fi_check(&c, code == koloInProgress ? koloSuccess : code);
    }
    kolo_fi_finish(&c);
}

KOLO_ENTRY void kolo_f_version(int32_t *version) { koloGetVersion(version); }

/* Fills `text` with the sentence and blanks. */
KOLO_ENTRY void kolo_f_get_last_error(const fortran_comm *comm, char *text, const int64_t *capacity) {
    const size_t room = *capacity > 0 ? (size_t)*capacity : 0;
    const size_t used = kolo_fi_last_error(comm->handle, text, room);
    memset(text + used, ' ', room - used);
}
