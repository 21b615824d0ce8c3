/* Temporaries of arguments: of arrays with gaps, and of values that end with the call.
 *
 * Problem: a call of a group, with a stream or with a request reads what it sends later. An array
 * variable is still there; the value of an expression is not, as `2 * x(1)`, whose place on the
 * stack has other values then. A compiler does not tell a scalar variable from such a value.
 *
 * Idea: what is sent of one element is copied, whichever it is. The copy ends with the group, or
 * when the stream or the request has ended. */
#include "kolo_fortran.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct temporary {
    temporary *next;
    const void *owner; /* a stream or a request that reads it; NULL: the open group */
    size_t bytes;
    bool unpack;
    view target;
    char data[];
};

/* Those that live until the open group ends. */
static _Thread_local temporary *of_group, **last_of_group;
/* Those of streams and requests, which any thread may end. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static temporary *of_others;

/* Whether this may be a value that ends with the call. More than one element is of an array. */
static bool may_end(const view *v, size_t bytes) {
    return v->rank == 0 && bytes <= v->element_bytes;
}

bool kolo_fi_stage(call *c, const view *v, size_t bytes, role is, staged *out) {
    const bool later = c->async || kolo_fi_in_group();
    temporary *made;
    out->temporary = NULL;
    out->data = v ? v->base : NULL;
    if (!v || bytes == 0) return true;
    if (v->copy && later)
        return kolo_fi_problem(c, koloInvalidArgument,
                               "pass an array variable, or call without group, stream and request",
                               "the argument %s is an expression, has a vector subscript such as "
                               "a(list), or is a section of components: gfortran passes a copy of "
                               "it that ends with this call",
                               v->argument);
    const bool is_value = later && is == SENT && may_end(v, bytes);
    if (v->contiguous && !is_value) return true;
    if (c->async && !is_value)
        return kolo_fi_problem(c, koloInvalidArgument,
                               "pass a contiguous array to a call with a stream or a request, "
                               "or use the blocking form",
                               "the argument %s is not contiguous", v->argument);
    made = malloc(sizeof *made + bytes);
    if (!made)
        return kolo_fi_problem(c, koloSystemError, "pass a contiguous array",
                               "no memory for a copy of %zu bytes of the argument %s", bytes,
                               v->argument);
    made->bytes = bytes, made->unpack = is == RECEIVED, made->target = *v;
    kolo_fi_pack(v, made->data, bytes);
    out->temporary = made;
    out->data = made->data;
    return true;
}

static void release(temporary *one, bool succeeded) {
    if (one->unpack && succeeded) kolo_fi_unpack(&one->target, one->data, one->bytes);
    free(one);
}

/* To those of streams and requests. */
static void keep(temporary *one) {
    pthread_mutex_lock(&lock);
    one->next = of_others;
    of_others = one;
    pthread_mutex_unlock(&lock);
}

/* Results go back now, or when the group has ended; a call that failed was not queued. */
void kolo_fi_unstage(call *c, staged *s) {
    temporary *one = s->temporary;
    if (!one) return;
    if (c->code != koloSuccess || (!c->async && !kolo_fi_in_group())) {
        release(one, c->code == koloSuccess);
        return;
    }
    one->owner = !c->async    ? NULL
                 : c->request ? (const void *)*c->request
                              : (const void *)c->stream;
    if (!kolo_fi_in_group()) {
        keep(one);
        return;
    }
    one->next = NULL;
    if (!of_group) last_of_group = &of_group;
    *last_of_group = one;
    last_of_group = &one->next;
}

void kolo_fi_end_staged(bool succeeded) {
    temporary *one = of_group;
    of_group = NULL;
    while (one) {
        temporary *next = one->next;
        /* A stream or a request begins with the end of the group. */
        if (one->owner && succeeded)
            keep(one);
        else
            release(one, succeeded);
        one = next;
    }
}

temporary *kolo_fi_take_staged_of(const void *owner) {
    temporary *taken = NULL;
    pthread_mutex_lock(&lock);
    for (temporary **at = &of_others; *at;) {
        temporary *one = *at;
        if (!owner || one->owner != owner) {
            at = &one->next;
            continue;
        }
        *at = one->next;
        one->next = taken;
        taken = one;
    }
    pthread_mutex_unlock(&lock);
    return taken;
}

void kolo_fi_give_staged(temporary *taken, bool ended) {
    while (taken) {
        temporary *next = taken->next;
        if (ended)
            free(taken);
        else
            keep(taken);
        taken = next;
    }
}
