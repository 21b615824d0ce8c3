/*
 * Connections of the test plugin: credits one way, messages the other, over a Unix socket.
 */
#ifndef MESSAGES_H
#define MESSAGES_H

#include "interface.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { CREDITS = MAX_REQUESTS * MAX_GROUP, MAGIC = 0x6b706c67 };

static log_fn say;

#define WARN(...) say(LOG_WARN, 16, __FILE__, __LINE__, __VA_ARGS__)
#define REFUSE(...) return WARN(__VA_ARGS__), INTERNAL

/* What travels: a credit one way, a message's beginning the other way. */
typedef struct {
    uint32_t kind; /* 1 credit, 2 message, 3 message that does not fit, 4 message that is lent */
    uint32_t tag;
    uint64_t group;
    uint64_t number;
    uint64_t bytes;
} frame;

typedef struct {
    int magic, fd, waits;
    int device;
} door;

typedef struct {
    struct sockaddr_un address;
    socklen_t length;
} place;

/* What the handle holds: the address, and the state of a connect that goes on. */
typedef struct {
    int magic;
    socklen_t length;
    char name[32];
    void *self;
    struct comm *connecting;
    int waits;
} handle;
_Static_assert(sizeof(handle) <= HANDLE_BYTES, "a handle must fit");

/* A message that is lent: it is read from where it lies, in this process. */
typedef struct {
    const char *data;
    size_t bytes, tail_bytes;
    char tail[32];
    _Atomic int is_read;
} lent;

typedef struct request {
    struct comm *comm;
    /* What was lent, or is to be read. */
    lent *lent;
    char *elsewhere;
    size_t elsewhere_bytes, elsewhere_length;
    int is_placed;
    int used, done, count;
    /* Sending: what is left of the frame and of the data. */
    frame head;
    size_t head_left, data_left;
    char *data;
    size_t bytes;
    /* Receiving. */
    char *place[MAX_GROUP];
    size_t capacity[MAX_GROUP];
    int full[MAX_GROUP], sizes[MAX_GROUP];
    uint64_t first;
} request;

typedef struct comm {
    int magic, fd, sends, device;
    int calls, isends, registered, error;
    char welcome;
    request requests[MAX_REQUESTS];
    /* Sending: credits that came, and messages in the order of writing. */
    frame credit[CREDITS];
    int credits;
    request *queue[MAX_REQUESTS];
    int queued;
    /* Receiving: credits to send, and the message that comes. */
    frame out[CREDITS];
    int outs;
    size_t out_done;
    uint64_t next_group, next_number;
    frame in;
    size_t in_got, data_got;
    request *into;
    int into_at;
} comm;

static request *new_request(comm *c) {
    for (int i = 0; i < MAX_REQUESTS; i++)
        if (!c->requests[i].used) {
            memset(&c->requests[i], 0, sizeof(request));
            c->requests[i].used = 1;
            c->requests[i].comm = c;
            return &c->requests[i];
        }
    return NULL;
}

/* Reads up to `want` bytes: how many, 0 for not yet, -1 when the peer is gone. */
static ssize_t read_some(comm *c, void *to, size_t want) {
    ssize_t got = recv(c->fd, to, want, 0);
    if (got > 0) return got;
    if (got < 0 && errno == EAGAIN) return 0;
    if (!c->error) WARN("the peer of connection %d left", c->fd);
    c->error = REMOTE;
    return -1;
}

static ssize_t write_some(comm *c, const void *from, size_t want) {
    ssize_t got = send(c->fd, from, want, MSG_NOSIGNAL);
    if (got >= 0) return got;
    if (errno == EAGAIN) return 0;
    if (!c->error) WARN("the peer of connection %d left", c->fd);
    c->error = REMOTE;
    return -1;
}

static void drive_sender(comm *c) {
    ssize_t moved;
    while (c->credits < CREDITS) {
        char *to = (char *)&c->in + c->in_got;
        if ((moved = read_some(c, to, sizeof(frame) - c->in_got)) <= 0) break;
        c->in_got += (size_t)moved;
        if (c->in_got < sizeof(frame)) continue;
        c->credit[c->credits++] = c->in;
        c->in_got = 0;
    }
    while (c->queued && !c->error) {
        request *r = c->queue[0];
        if (r->head_left) {
            const char *from = (char *)&r->head + sizeof(frame) - r->head_left;
            if ((moved = write_some(c, from, r->head_left)) <= 0) return;
            r->head_left -= (size_t)moved;
        } else if (r->data_left) {
            moved = write_some(c, r->data + r->bytes - r->data_left, r->data_left);
            if (moved <= 0) return;
            r->data_left -= (size_t)moved;
        }
        if (r->head_left || r->data_left) continue;
        r->done = r->lent == NULL;
        memmove(c->queue, c->queue + 1, sizeof *c->queue * (size_t)--c->queued);
    }
}

/* Finds the buffer that the frame in `in` belongs to. */
static int begin_message(comm *c) {
    for (int i = 0; i < MAX_REQUESTS; i++) {
        request *r = &c->requests[i];
        uint64_t at = c->in.number - r->first;
        if (!r->used || r->done || c->in.number < r->first || at >= (uint64_t)r->count) continue;
        if (c->in.kind == 3) {
            WARN("a message of %d bytes with tag %d came for a buffer of %d bytes",
                 (int)c->in.bytes, (int)c->in.tag, (int)r->capacity[at]);
            return c->error = USAGE;
        }
        c->into = r;
        c->into_at = (int)at;
        c->data_got = 0;
        return OK;
    }
    REFUSE("a message for no buffer");
}

static void drive_receiver(comm *c) {
    ssize_t moved;
    while (c->outs && !c->error) {
        const char *from = (char *)c->out + c->out_done;
        size_t left = sizeof(frame) * (size_t)c->outs - c->out_done;
        /* The peer may have left after its last message: reading tells. */
        moved = send(c->fd, from, left, MSG_NOSIGNAL);
        if (moved < 0) break;
        c->out_done += (size_t)moved;
        if (c->out_done == sizeof(frame) * (size_t)c->outs) c->outs = (int)(c->out_done = 0);
    }
    while (!c->error) {
        if (c->into == NULL) {
            char *to = (char *)&c->in + c->in_got;
            if ((moved = read_some(c, to, sizeof(frame) - c->in_got)) <= 0) return;
            c->in_got += (size_t)moved;
            if (c->in_got < sizeof(frame)) continue;
            c->in_got = 0;
            if (begin_message(c) != OK) return;
        }
        if (c->data_got < c->in.bytes) {
            char *place = c->in.kind == 4 ? (char *)&c->into->lent : c->into->place[c->into_at];
            char *to = place + c->data_got;
            if ((moved = read_some(c, to, c->in.bytes - c->data_got)) <= 0) return;
            c->data_got += (size_t)moved;
        }
        if (c->data_got < c->in.bytes) continue;
        c->into->full[c->into_at] = 1;
        c->into->sizes[c->into_at] = (int)c->in.bytes;
        c->into->done = c->in.kind != 4;
        for (int i = 0; i < c->into->count; i++) c->into->done &= c->into->full[i];
        c->into = NULL;
    }
}

/* The credit for a message: of the oldest request that has one, by tag; -1: none yet. */
static int find_credit(comm *c, int tag) {
    for (int i = 0; i < c->credits && c->credit[i].group == c->credit[0].group; i++)
        if (c->credit[i].tag == (uint32_t)tag) return i;
    return -1;
}

#endif
