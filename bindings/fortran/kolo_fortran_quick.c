/* What most calls of a climate model are: blocking all-reduces and broadcasts of numbers without
 * gaps.
 *
 * Problem: to check views and to pack gaps costs more than a small call of libkolo. Idea: such
 * calls need an address, a count and a type of their arrays, and no more. What is less usual or
 * wrong is left to the way with views, which knows the words for it: a function here says false,
 * and has done nothing. */
#include "kolo_fortran.h"

/* In a group a single element that is sent may be a value that ends with the call. */
static bool may_end(array send) { return send->rank == 0 && kolo_fi_in_group(); }

/* Every such element has these operations. */
static bool is_usual(const call *c, int32_t op) {
    return !c->async && c->code == koloSuccess && op >= koloSum && op <= koloAvg;
}

static bool same(const simple *one, const simple *other) {
    return one->type == other->type && one->elements == other->elements;
}

bool kolo_fi_quick_allreduce(call *c, array send, array recv, int32_t op) {
    simple s, r;
    if (!is_usual(c, op) || !kolo_fi_simple(recv, &r)) return false;
    if (send == recv)
        s = r;
    else if (may_end(send) || !kolo_fi_simple(send, &s) || !same(&s, &r))
        return false;
    kolo_fi_check(c, koloAllReduce(s.base, r.base, r.elements, r.type, (koloRedOp_t)op, c->comm,
                                   NULL));
    return true;
}

bool kolo_fi_quick_bcast(call *c, array buf, int32_t root) {
    simple b;
    if (!is_usual(c, koloSum) || !kolo_fi_simple(buf, &b)) return false;
    kolo_fi_check(c, koloBcast(b.base, b.elements, b.type, root, c->comm, NULL));
    return true;
}

/* Larger counts are looked at by those who know what they may be. */
#define MOST_ELEMENTS INT32_MAX

/* Whether `count` elements of this type are there; a scalar may begin a sequence of any length. */
static bool holds(array descriptor, int64_t count, fortran_type type, simple *out) {
    return count > 0 && count <= MOST_ELEMENTS && kolo_fi_simple(descriptor, out) &&
           (int32_t)out->type == type.code &&
           (descriptor->rank == 0 || out->elements >= (size_t)count);
}

bool kolo_fi_quick_allreduce_of(call *c, array send, array recv, int64_t count, fortran_type type,
                               int32_t op) {
    simple s, r;
    if (!is_usual(c, op) || !holds(recv, count, type, &r)) return false;
    if (kolo_fi_is_in_place(send))
        s = r;
    else if (may_end(send) || !holds(send, count, type, &s))
        return false;
    kolo_fi_check(c, koloAllReduce(s.base, r.base, (size_t)count, r.type, (koloRedOp_t)op, c->comm,
                                   NULL));
    return true;
}

bool kolo_fi_quick_bcast_of(call *c, array buf, int64_t count, fortran_type type, int32_t root) {
    simple b;
    if (!is_usual(c, koloSum) || !holds(buf, count, type, &b)) return false;
    kolo_fi_check(c, koloBcast(b.base, (size_t)count, b.type, root, c->comm, NULL));
    return true;
}
