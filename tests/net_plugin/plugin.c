/*
 * A small network plugin for tests: messages over Unix sockets of one machine, never blocking.
 *
 * The receiver sends a credit for every buffer that it posts; the sender starts a message only for
 * a buffer of the oldest request that still has one, chosen by tag. What it is given is checked
 * strictly, so that a loader that breaks the interface fails: registrations, counts, requests in
 * flight, the handle's place, null devices.
 *
 * Knobs, read by init from the environment:
 *   KOLO_TEST_PLUGIN_RECVS=n   most buffers of one request (default 8)
 *   KOLO_TEST_PLUGIN_DELAY=n   connect and accept say "not yet" n times first
 *   KOLO_TEST_PLUGIN_NULL=n    every n-th isend and irecv says "not yet"
 *   KOLO_TEST_PLUGIN_FAIL=n    the n-th isend of a connection fails
 *   KOLO_TEST_PLUGIN_INIT=word init fails (word "fail") or finds no device (word "none")
 *   KOLO_TEST_PLUGIN_PINS=n    at most n pieces of memory are pinned at once (with READS)
 *   KOLO_TEST_PLUGIN_SEEN=path init writes what the process has by then into PATH.PID
 */
#define _GNU_SOURCE
#include "messages.h"
#include "seen.h"

#include <stdlib.h>
#include <unistd.h>

static int most_buffers = MAX_GROUP, delay, null_every, fail_at, no_device;
static _Atomic int open_objects;

static int knob(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

static int start(log_fn log) {
    const char *word = getenv("KOLO_TEST_PLUGIN_INIT");
    say = log;
    most_buffers = knob("KOLO_TEST_PLUGIN_RECVS", MAX_GROUP);
    delay = knob("KOLO_TEST_PLUGIN_DELAY", 0);
    null_every = knob("KOLO_TEST_PLUGIN_NULL", 0);
    fail_at = knob("KOLO_TEST_PLUGIN_FAIL", 0);
    if (getenv("KOLO_TEST_PLUGIN_SEEN")) write_seen(getenv("KOLO_TEST_PLUGIN_SEEN"));
    say(LOG_INFO, 16, __FILE__, __LINE__, "version %d, %d buffers", VERSION, most_buffers);
    if (word && strcmp(word, "fail") == 0) {
        WARN("the fabric of version %d is not %s", VERSION, "plugged in");
        return SYSTEM;
    }
    no_device = word && strcmp(word, "none") == 0;
    return OK;
}

#if VERSION >= 11
static int the_context;
static int init(void **ctx, uint64_t id, config *config, log_fn log, profiler_fn profiler) {
    (void)id;
    if (config == NULL || config->trafficClass != -1 || profiler == NULL) return INTERNAL;
    *ctx = &the_context;
    return start(log);
}
static int finalize(void *ctx) {
    if (ctx != &the_context || open_objects != 0) abort();
    return OK;
}
#elif VERSION == 10
static int init(log_fn log, profiler_fn profiler) {
    void *event = NULL;
    if (profiler == NULL || profiler(&event, 0, NULL, 0, NULL) != OK) return INTERNAL;
    return start(log);
}
#else
static int init(log_fn log) { return start(log); }
#endif

static int devices(int *count) {
    *count = no_device ? 0 : 2;
    return OK;
}

static int get_properties(int device, properties *p) {
    static char *names[] = {"unix0", "unix1"};
    if (device < 0 || device > 1) return INTERNAL;
    memset(p, 0, sizeof *p);
    p->name = names[device];
    p->pciPath = device ? "/sys/devices/pci0000:00/0000:00:1f.6" : NULL;
    p->guid = (uint64_t)device;
    p->ptrSupport = POINTER_HOST;
    p->speed = 40000 + device;
    p->port = 1 + device;
    p->latency = 1.5f;
    p->maxComms = 4096 + device;
    p->maxRecvs = most_buffers;
#if VERSION >= 9
    p->vProps.ndevs = 1;
    p->vProps.devs[0] = device;
    p->maxP2pBytes = p->maxCollBytes = (size_t)1 << 40;
#endif
#if VERSION >= 11
    p->maxMultiRequestSize = 1;
#endif
    return OK;
}

static int lay(int device, void *bytes, void **out) {
    handle *h = bytes;
    door *d = calloc(1, sizeof *d);
    place p = {.address = {.sun_family = AF_UNIX}, .length = sizeof p.address};
    d->magic = MAGIC;
    d->device = device;
    d->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    /* The system chooses an abstract name. */
    if (bind(d->fd, (void *)&p.address, sizeof(sa_family_t)) || listen(d->fd, 128) ||
        getsockname(d->fd, (void *)&p.address, &p.length)) {
        WARN("no place to listen: %s", strerror(errno));
        close(d->fd);
        free(d);
        return SYSTEM;
    }
    memset(h, 0, sizeof *h);
    h->magic = MAGIC;
    h->length = p.length;
    memcpy(h->name, p.address.sun_path, p.length - sizeof(sa_family_t));
    open_objects++;
    *out = d;
    return OK;
}

static comm *comm_of(int fd, int sends, int device) {
    comm *c = calloc(1, sizeof *c);
    c->magic = MAGIC;
    c->fd = fd;
    c->sends = sends;
    c->device = device;
    open_objects++;
    return c;
}

static int reach(int device, void *bytes, void **out, void **offload) {
    handle *h = bytes;
    ssize_t got;
    *out = NULL;
    if (h->magic != MAGIC || (size_t)h % 8 || offload == NULL || *offload != NULL)
        REFUSE("connect got a bad handle or device");
    if (h->connecting == NULL) {
        struct sockaddr_un to = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        memcpy(to.sun_path, h->name, h->length - sizeof(sa_family_t));
        if (connect(fd, (void *)&to, h->length)) {
            int again = errno == EAGAIN;
            close(fd);
            if (again) return OK;
            WARN("nobody listens at the other end: %s", strerror(errno));
            return REMOTE;
        }
        h->connecting = comm_of(fd, 1, device);
        h->self = h;
    }
    if (h->self != h) REFUSE("the handle was moved");
    if (h->waits++ < delay) return OK;
    got = recv(h->connecting->fd, &h->connecting->welcome, 1, 0);
    if (got == 1) {
        *out = h->connecting;
        return OK;
    }
    if (got < 0 && errno == EAGAIN) return OK;
    WARN("the listener hung up");
    return REMOTE;
}

static int take(void *object, void **out, void **offload) {
    door *d = object;
    int fd;
    *out = NULL;
    if (d->magic != MAGIC || offload == NULL || *offload != NULL) REFUSE("accept on nothing");
    if (d->waits++ < delay) return OK;
    fd = accept4(d->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return errno == EAGAIN ? OK : SYSTEM;
    if (send(fd, "w", 1, MSG_NOSIGNAL) != 1) return close(fd), OK;
    *out = comm_of(fd, 0, d->device);
    return OK;
}

static int reg(void *object, void *data, size_t size, int type, void **out) {
    comm *c = object;
    if (c->magic != MAGIC || type != POINTER_HOST) REFUSE("regMr of the wrong kind");
    (void)data;
    (void)size;
    c->registered++;
    *out = (void *)((char *)c + 1);
    return OK;
}

static int dereg(void *object, void *registration) {
    comm *c = object;
    if (registration != (char *)c + 1 || c->registered-- <= 0) REFUSE("deregMr of nothing");
    return OK;
}

static int send_frame(comm *c, void *data, size_t size, int tag, lent *note, void **out);

static int send_message(comm *c, void *data, size_t size, int tag, void *mhandle, void **out) {
    if (mhandle != (char *)c + 1) REFUSE("isend with memory that is not registered");
    return send_frame(c, data, size, tag, NULL, out);
}

static int send_frame(comm *c, void *data, size_t size, int tag, lent *note, void **out) {
    request *r;
    frame credit;
    int at;
    *out = NULL;
    if (c->magic != MAGIC || !c->sends) REFUSE("isend on the wrong end");
    drive_sender(c);
    if (null_every && ++c->calls % null_every == 0) return OK;
    at = find_credit(c, tag);
    /* What the peer posted before it left may be used no more. */
    if (c->error) return c->error;
    if (at < 0) return OK;
    if (fail_at && ++c->isends == fail_at) {
        WARN("cable %d of connection is on fire", 7);
        return SYSTEM;
    }
    if ((r = new_request(c)) == NULL) REFUSE("more than %d requests", MAX_REQUESTS);
    credit = c->credit[at];
    memmove(c->credit + at, c->credit + at + 1, sizeof(frame) * (size_t)(--c->credits - at));
    r->head = credit;
    r->head.kind = size > credit.bytes ? 3 : 2;
    r->head.bytes = size;
    r->head_left = sizeof(frame);
    r->data = data;
    r->bytes = r->data_left = size > credit.bytes ? 0 : size;
    if (note && r->data_left) {
        r->lent = note;
        r->head.kind = 4;
        r->head.bytes = r->bytes = r->data_left = sizeof(note);
        r->data = (char *)&r->lent;
    }
    c->queue[c->queued++] = r;
    drive_sender(c);
    if (size > credit.bytes) {
        WARN("a message of %d bytes with tag %d is too large for a buffer of %d bytes",
             (int)size, tag, (int)credit.bytes);
        return c->error = USAGE;
    }
    *out = r;
    return OK;
}

static int post(comm *c, int n, void **data, size_type *sizes, int *tags, void **mhandles,
                void **out) {
    request *r;
    *out = NULL;
    if (c->magic != MAGIC || c->sends) REFUSE("irecv on the wrong end");
    if (n < 1 || n > most_buffers) REFUSE("irecv of %d buffers", n);
    for (int i = 0; i < n; i++)
        if (mhandles[i] != (char *)c + 1) REFUSE("irecv into memory that is not registered");
    drive_receiver(c);
    if (c->error) return c->error;
    if (null_every && ++c->calls % null_every == 0) return OK;
    if ((r = new_request(c)) == NULL) REFUSE("more than %d requests", MAX_REQUESTS);
    if (c->outs + n > CREDITS) REFUSE("more credits than requests");
    r->count = n;
    r->first = c->next_number;
    for (int i = 0; i < n; i++) {
        r->place[i] = data[i];
        r->capacity[i] = (size_t)sizes[i];
        c->out[c->outs++] = (frame){.kind = 1,
                                    .tag = (uint32_t)tags[i],
                                    .group = c->next_group,
                                    .number = c->next_number++,
                                    .bytes = (uint64_t)sizes[i]};
    }
    c->next_group++;
    drive_receiver(c);
    *out = r;
    return OK;
}

#if VERSION >= 10
static int isend(void *c, void *data, size_type size, int tag, void *mhandle, void *phandle,
                 void **out) {
    if (phandle != NULL) REFUSE("isend with a profiler that nobody has");
    return send_message(c, data, (size_t)size, tag, mhandle, out);
}
static int irecv(void *c, int n, void **data, size_type *sizes, int *tags, void **mhandles,
                 void **phandles, void **out) {
    for (int i = 0; i < n; i++)
        if (phandles[i] != NULL) REFUSE("irecv with a profiler that nobody has");
    return post(c, n, data, sizes, tags, mhandles, out);
}
#else
static int isend(void *c, void *data, size_type size, int tag, void *mhandle, void **out) {
    return send_message(c, data, (size_t)size, tag, mhandle, out);
}
static int irecv(void *c, int n, void **data, size_type *sizes, int *tags, void **mhandles,
                 void **out) {
    return post(c, n, data, sizes, tags, mhandles, out);
}
#endif

static int iflush(void *c, int n, void **data, int *sizes, void **mhandles, void **out) {
    (void)c, (void)n, (void)data, (void)sizes, (void)mhandles, (void)out;
    REFUSE("iflush of host memory");
}

#ifdef READS
#include "reading.h"
#else
static void look_at_lent(request *r, int hold) { (void)r, (void)hold; }
#endif

static int look(void *object, int hold, int *done, int *sizes) {
    request *r = object;
    comm *c = r->comm;
    if (!r->used) REFUSE("test of a request that is done");
    if (c->sends)
        drive_sender(c);
    else
        drive_receiver(c);
    look_at_lent(r, hold);
    *done = r->done;
    if (r->done) {
        for (int i = 0; sizes && !c->sends && i < r->count; i++) sizes[i] = r->sizes[i];
        r->used = 0;
        return OK;
    }
    return c->error;
}

static int test(void *object, int *done, int *sizes) { return look(object, 0, done, sizes); }

#ifdef READS
EXPORTED int kolo_net_test_at(void *request_, int hold, int *done, int *size, int *placed) {
    request *r = request_;
    *placed = r->is_placed;
    int code = look(r, hold, done, size);
    if (*done) *placed = r->is_placed;
    return code;
}
#endif

static int close_comm(comm *c) {
    if (c->magic != MAGIC) REFUSE("closing twice");
    if (c->registered) REFUSE("%d registrations are left", c->registered);
    c->magic = 0;
    close(c->fd);
    free(c);
    open_objects--;
    return OK;
}
static int close_send(void *c) { return ((comm *)c)->sends ? close_comm(c) : INTERNAL; }
static int close_recv(void *c) { return ((comm *)c)->sends ? INTERNAL : close_comm(c); }
static int close_listen(void *object) {
    door *d = object;
    close(d->fd);
    free(d);
    open_objects--;
    return OK;
}

#if VERSION >= 11
static int listen_v11(void *ctx, int device, void *h, void **out) {
    return ctx == &the_context ? lay(device, h, out) : INTERNAL;
}
static int connect_v11(void *ctx, int device, void *h, void **out, void **offload) {
    return ctx == &the_context ? reach(device, h, out, offload) : INTERNAL;
}
#define LISTEN listen_v11
#define CONNECT connect_v11
#define SYMBOL ncclNetPlugin_v11
#elif VERSION == 10
static int connect_v10(int device, config *config, void *h, void **out, void **offload) {
    return config && config->trafficClass == -1 ? reach(device, h, out, offload) : INTERNAL;
}
#define LISTEN lay
#define CONNECT connect_v10
#define SYMBOL ncclNetPlugin_v10
#elif VERSION == 9
#define LISTEN lay
#define CONNECT reach
#define SYMBOL ncclNetPlugin_v9
#else
#define LISTEN lay
#define CONNECT reach
#define SYMBOL ncclNetPlugin_v8
#endif

#ifndef WITHOUT_TABLE
__attribute__((visibility("default"))) const plugin_table SYMBOL = {
    .name = "unix",
    .init = init,
    .devices = devices,
    .getProperties = get_properties,
    .listen = LISTEN,
    .connect = CONNECT,
    .accept = take,
    .regMr = reg,
    .deregMr = dereg,
#ifndef WITHOUT_ISEND
    .isend = isend,
#endif
    .irecv = irecv,
    .iflush = iflush,
    .test = test,
    .closeSend = close_send,
    .closeRecv = close_recv,
    .closeListen = close_listen,
#if VERSION >= 11
    .finalize = finalize,
#endif
};
#endif
