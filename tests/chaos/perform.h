/* One call: its data are written, it is made, and everything that it should have written, and
   nothing else, is there. Included by script.h. */
#ifndef PERFORM_H
#define PERFORM_H

enum { POISON = 0xa5 };

/* One call under way. */
struct turn {
    const struct call *call;
    const struct group *group;
    unsigned salt;              /* makes the data of each call and loop their own */
    size_t width;
    unsigned char *send, *recv; /* where the call's own data begin */
    unsigned char *base;        /* of the buffer that is written */
    size_t bytes;
    koloStream_t stream;
    const char *bad;
};

static int64_t of(const struct turn *t, int member, size_t i) {
    return element(t->group->members[member], i, t->salt, t->call->op);
}

/* Writes elements first.. of this rank to `at`. */
static void put(const struct turn *t, unsigned char *at, size_t first, size_t count) {
    for (size_t i = 0; i < count; i++)
        store(at, t->call->type, i, bits_of(t->call->type, of(t, t->group->me, first + i)));
}

static void differs(struct turn *t, size_t place, uint64_t got, uint64_t expected) {
    static char text[256];
    if (t->bad) return;
    snprintf(text, sizeof text, "%s: element %zu has the bits %lx, not %lx", t->call->name, place,
             (unsigned long)got, (unsigned long)expected);
    t->bad = text;
}

/* `count` elements at `at` must be those of `member` from `first` on. */
static void expect(struct turn *t, const unsigned char *at, int member, size_t first,
                   size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint64_t got = load(at, t->call->type, i);
        uint64_t expected = bits_of(t->call->type, of(t, member, first + i));
        if (got != expected) differs(t, i, got, expected);
    }
}

/* `count` elements must be the members' fold, of the members before `until` only. */
static void expect_fold(struct turn *t, const unsigned char *at, size_t first, size_t count,
                        int until) {
    for (size_t i = 0; i < count; i++) {
        int64_t value = of(t, 0, first + i);
        for (int m = 1; m < until; m++) value = fold(t->call->op, value, of(t, m, first + i));
        uint64_t got = load(at, t->call->type, i), expected = bits_of(t->call->type, value);
        if (got != expected) differs(t, i, got, expected);
    }
}

/* Outside of [begin, end) the buffer that was written must be as it was. */
static void expect_poison(struct turn *t, const unsigned char *begin, const unsigned char *end) {
    for (const unsigned char *at = t->base; at < t->base + t->bytes; at++) {
        if (at == begin) at = end;
        if (at >= t->base + t->bytes) break;
        if (*at == POISON) continue;
        if (!t->bad) t->bad = "a byte was written that is not the call's";
        break;
    }
}

/* What this rank sends must be as it was, unless the result has taken its place. */
static void expect_kept(struct turn *t, size_t count) {
    if (t->send < t->base || t->send >= t->base + t->bytes)
        expect(t, t->send, t->group->me, 0, count);
}

#include "calls.h"

static koloResult_t perform(const struct call *call, const struct group *group,
                            const struct buffers *b, unsigned loop, const char **bad) {
    struct turn t = {.call = call, .group = group, .width = width(call->type)};
    int kind = has(call, 'm') ? 1 : 0;
    t.salt = (unsigned)call->number * 1009u + loop * 7919u;
    t.stream = has(call, 's') ? b->stream : NULL;
    t.base = b->recv[kind];
    t.bytes = b->bytes;
    t.send = b->send[kind] + GUARD;
    t.recv = t.base + GUARD;
    memset(t.base, POISON, t.bytes);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (strcmp(table[i].name, call->name)) continue;
        koloResult_t code = table[i].body(&t);
        *bad = t.bad;
        return code;
    }
    *bad = "the script names a call that is not known";
    return koloSuccess;
}

#endif
