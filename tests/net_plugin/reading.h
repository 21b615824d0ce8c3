/*
 * Messages that are lent: the receiver copies them from where they lie, as both ends are in one
 * process. What is given is checked as strictly as the rest.
 */
#ifndef READING_H
#define READING_H

#define EXPORTED __attribute__((visibility("default")))

typedef struct {
    int magic, device;
    char *data;
    size_t bytes;
} pinned_memory;

static _Atomic int pins_open, pins_made;
static _Atomic long bytes_read, bytes_placed;

EXPORTED int kolo_net_pin(int device, void *data, size_t bytes, void **out) {
    pinned_memory *p;
    if (pins_open >= knob("KOLO_TEST_PLUGIN_PINS", 1000)) {
        WARN("no more than %d pieces can be pinned", (int)pins_open);
        return SYSTEM;
    }
    p = calloc(1, sizeof *p);
    *p = (pinned_memory){MAGIC, device, data, bytes};
    pins_open++;
    pins_made++;
    *out = p;
    return OK;
}

EXPORTED int kolo_net_unpin(void *pinned) {
    pinned_memory *p = pinned;
    if (p->magic != MAGIC) REFUSE("memory that is not pinned is given back");
    p->magic = 0;
    free(p);
    pins_open--;
    return OK;
}

static int holds(const pinned_memory *p, int device, const char *data, size_t bytes) {
    return p->magic == MAGIC && p->device == device && data >= p->data &&
           data + bytes <= p->data + p->bytes;
}

EXPORTED int kolo_net_is_read(void *c) { return ((comm *)c)->sends; }

EXPORTED int kolo_net_isend_at(void *object, void *data, size_t bytes, const void *tail,
                               size_t tail_bytes, int tag, void *pinned, void **out) {
    comm *c = object;
    lent *note;
    int code;
    if (!holds(pinned, c->device, data, bytes) || tail_bytes > 32)
        REFUSE("%d bytes are lent that are not pinned", (int)bytes);
    note = calloc(1, sizeof *note);
    note->data = data;
    note->bytes = bytes;
    note->tail_bytes = tail_bytes;
    memcpy(note->tail, tail, tail_bytes);
    code = send_frame(c, data, bytes + tail_bytes, tag, note, out);
    if (*out == NULL) free(note);
    return code;
}

EXPORTED int kolo_net_divert(void *object, void *data, size_t bytes, size_t length, void *pinned,
                             int *taken) {
    request *r = object;
    if (!holds(pinned, r->comm->device, data, bytes) || r->count != 1 || bytes > length)
        REFUSE("%d bytes go to where nothing is pinned", (int)bytes);
    *taken = !r->done;
    if (*taken) {
        r->elsewhere = data;
        r->elsewhere_bytes = bytes;
        r->elsewhere_length = length;
    }
    return OK;
}

/* Whether a lent message was read; at the receiver: reads it. */
static void look_at_lent(request *r, int hold) {
    lent *note = r->lent;
    char *to = r->place[0];
    if (note == NULL || r->done) return;
    if (r->comm->sends) {
        if (!note->is_read) return;
        free(note);
        r->done = 1;
        return;
    }
    if (hold || !r->full[0]) return;
    r->is_placed = r->elsewhere && r->elsewhere_bytes == note->bytes &&
                   r->elsewhere_length == note->bytes + note->tail_bytes;
    memcpy(r->is_placed ? r->elsewhere : to, note->data, note->bytes);
    memcpy(to + note->bytes, note->tail, note->tail_bytes);
    r->sizes[0] = (int)(note->bytes + note->tail_bytes);
    *(r->is_placed ? &bytes_placed : &bytes_read) += (long)note->bytes;
    note->is_read = 1;
    r->done = 1;
}

/* For tests: pieces that are pinned, that were ever, and bytes that were read into buffers and
 * elsewhere. */
EXPORTED void test_plugin_counts(long *four) {
    four[0] = pins_open;
    four[1] = pins_made;
    four[2] = bytes_read;
    four[3] = bytes_placed;
}

#endif
