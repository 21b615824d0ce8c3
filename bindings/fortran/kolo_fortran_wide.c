/* Arrays of numbers of 8 bytes, which kolo has as numbers of 4: for programs whose default integer
 * has 8 bytes. wide.awk makes the functions for numbers that are no arrays. */
#include "kolo_fortran_wide.h"
#include "kolo_fortran.h"
#include <stdlib.h>

void kolo_f_graph_create(const fortran_comm *, const int32_t *, const int32_t *, const int32_t *,
                         const int32_t *, fortran_graph *, int32_t *);
void kolo_f_cart_create(const fortran_comm *, const int32_t *, const int32_t *, const int32_t *,
                        fortran_graph *, int32_t *);
void kolo_f_graph_neighbors(const fortran_graph *, int32_t *, int32_t *, int32_t *);

/* `number` elements as numbers of 4 bytes, to be freed; NULL without memory. */
static int32_t *narrowed(const int64_t *numbers, int32_t number) {
    const size_t length = number > 0 ? (size_t)number : 0;
    int32_t *narrow = calloc(length + 1, sizeof *narrow);
    for (size_t i = 0; narrow && i < length; i++) narrow[i] = kolo_fi_narrow(&numbers[i]);
    return narrow;
}

static void short_of_memory(const char *name, const fortran_comm *comm, int32_t *ierror) {
    call c;
    kolo_fi_begin(&c, name, comm, NULL, ierror);
    kolo_fi_problem(&c, koloSystemError, "free memory", "no memory for a list of ranks");
    kolo_fi_finish(&c);
}

KOLO_ENTRY void kolo_f_graph_create_w(const fortran_comm *comm, const int64_t *indegree,
                                      const int64_t *sources, const int64_t *outdegree,
                                      const int64_t *destinations, fortran_graph *graph,
                                      int64_t *ierror) {
    const int32_t in = kolo_fi_narrow(indegree), out = kolo_fi_narrow(outdegree);
    int32_t code = 0, *from = narrowed(sources, in), *to = narrowed(destinations, out);
    if (from && to)
        kolo_f_graph_create(comm, &in, from, &out, to, graph, ierror ? &code : NULL);
    else
        short_of_memory("kolo_graph_create", comm, ierror ? &code : NULL);
    free(from);
    free(to);
    if (ierror) *ierror = code;
}

KOLO_ENTRY void kolo_f_cart_create_w(const fortran_comm *comm, const int64_t *ndims,
                                     const int64_t *dims, const int64_t *periods,
                                     fortran_graph *graph, int64_t *ierror) {
    const int32_t number = kolo_fi_narrow(ndims);
    int32_t code = 0, *extents = narrowed(dims, number), *wraps = narrowed(periods, number);
    if (extents && wraps)
        kolo_f_cart_create(comm, &number, extents, wraps, graph, ierror ? &code : NULL);
    else
        short_of_memory("kolo_cart_create", comm, ierror ? &code : NULL);
    free(extents);
    free(wraps);
    if (ierror) *ierror = code;
}

KOLO_ENTRY void kolo_f_graph_neighbors_w(const fortran_graph *graph, int64_t *sources,
                                         int64_t *destinations, int64_t *ierror) {
    int in = 0, out = 0;
    const fortran_comm comm = {graph->comm};
    int32_t code = 0, *from, *to;
    KOLO_IGNORE(koloGraphDegrees(graph->handle, &in, &out));
    from = calloc((size_t)in + 1, sizeof *from);
    to = calloc((size_t)out + 1, sizeof *to);
    if (from && to)
        kolo_f_graph_neighbors(graph, from, to, ierror ? &code : NULL);
    else
        short_of_memory("kolo_graph_neighbors", &comm, ierror ? &code : NULL);
    for (int i = 0; from && to && !code && i < in; i++) sources[i] = from[i];
    for (int i = 0; from && to && !code && i < out; i++) destinations[i] = to[i];
    free(from);
    free(to);
    if (ierror) *ierror = code;
}
