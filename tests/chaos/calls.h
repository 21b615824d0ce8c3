/* How each kind of call is made and checked. Included by perform.h. */
#ifndef CALLS_H
#define CALLS_H

#define COMM t->group->comm
#define TYPE ((koloDataType_t)t->call->type)
#define OP ((koloRedOp_t)t->call->op)
#define ROOT (t->call->root % t->group->n)

/* The end of a call on a stream, or of a request. */
static koloResult_t finished(struct turn *t, koloResult_t code) {
    return code != koloSuccess || !t->stream ? code : koloStreamSynchronize(t->stream);
}

static koloResult_t awaited(koloResult_t code, koloRequest_t *request) {
    return code != koloSuccess ? code : koloWait(request);
}

static koloResult_t all_reduce(struct turn *t) {
    size_t n = t->call->count;
    koloRequest_t request;
    if (has(t->call, 'i')) t->send = t->recv;
    put(t, t->send, 0, n);
    koloResult_t code = has(t->call, 'r')
        ? awaited(koloIAllReduce(t->send, t->recv, n, TYPE, OP, COMM, &request), &request)
        : finished(t, koloAllReduce(t->send, t->recv, n, TYPE, OP, COMM, t->stream));
    if (code != koloSuccess) return code;
    expect_fold(t, t->recv, 0, n, t->group->n);
    expect_poison(t, t->recv, t->recv + n * t->width);
    expect_kept(t, n);
    return code;
}

static koloResult_t reduce(struct turn *t) {
    size_t n = t->call->count;
    int mine = t->group->me == ROOT;
    put(t, t->send, 0, n);
    koloResult_t code =
        finished(t, koloReduce(t->send, t->recv, n, TYPE, OP, ROOT, COMM, t->stream));
    if (code != koloSuccess) return code;
    if (mine) expect_fold(t, t->recv, 0, n, t->group->n);
    expect_poison(t, t->recv, t->recv + (mine ? n * t->width : 0));
    expect_kept(t, n);
    return code;
}

static koloResult_t broadcast(struct turn *t) {
    size_t n = t->call->count;
    koloRequest_t request;
    if (has(t->call, 'i')) t->send = t->recv;
    if (t->group->me == ROOT) put(t, t->send, 0, n);
    koloResult_t code = has(t->call, 'r')
        ? awaited(koloIBroadcast(t->send, t->recv, n, TYPE, ROOT, COMM, &request), &request)
        : finished(t, koloBroadcast(t->send, t->recv, n, TYPE, ROOT, COMM, t->stream));
    if (code != koloSuccess) return code;
    expect(t, t->recv, ROOT, 0, n);
    expect_poison(t, t->recv, t->recv + n * t->width);
    return code;
}

static koloResult_t all_gather(struct turn *t) {
    size_t n = t->call->count, block = n * t->width;
    if (has(t->call, 'i')) t->send = t->recv + (size_t)t->group->me * block;
    put(t, t->send, 0, n);
    koloResult_t code = finished(t, koloAllGather(t->send, t->recv, n, TYPE, COMM, t->stream));
    if (code != koloSuccess) return code;
    for (int m = 0; m < t->group->n; m++) expect(t, t->recv + (size_t)m * block, m, 0, n);
    expect_poison(t, t->recv, t->recv + (size_t)t->group->n * block);
    expect_kept(t, n);
    return code;
}

static koloResult_t all_gather_v(struct turn *t) {
    size_t counts[MOST_MEMBERS], displs[MOST_MEMBERS], all = 0;
    for (int m = 0; m < t->group->n; m++) {
        counts[m] = part_of(t->call->count, m, 0);
        displs[m] = all;
        all += counts[m];
    }
    size_t n = counts[t->group->me];
    put(t, t->send, 0, n);
    koloResult_t code = finished(
        t, koloAllGatherV(t->send, n, t->recv, counts, displs, TYPE, COMM, t->stream));
    if (code != koloSuccess) return code;
    for (int m = 0; m < t->group->n; m++)
        expect(t, t->recv + displs[m] * t->width, m, 0, counts[m]);
    expect_poison(t, t->recv, t->recv + all * t->width);
    expect_kept(t, n);
    return code;
}

static koloResult_t reduce_scatter(struct turn *t) {
    size_t n = t->call->count, all = n * (size_t)t->group->n;
    put(t, t->send, 0, all);
    koloResult_t code =
        finished(t, koloReduceScatter(t->send, t->recv, n, TYPE, OP, COMM, t->stream));
    if (code != koloSuccess) return code;
    expect_fold(t, t->recv, (size_t)t->group->me * n, n, t->group->n);
    expect_poison(t, t->recv, t->recv + n * t->width);
    expect_kept(t, all);
    return code;
}

static koloResult_t all_to_all(struct turn *t) {
    size_t n = t->call->count, all = n * (size_t)t->group->n;
    put(t, t->send, 0, all);
    koloResult_t code = finished(t, koloAllToAll(t->send, t->recv, n, TYPE, COMM, t->stream));
    if (code != koloSuccess) return code;
    for (int m = 0; m < t->group->n; m++)
        expect(t, t->recv + (size_t)m * n * t->width, m, (size_t)t->group->me * n, n);
    expect_poison(t, t->recv, t->recv + all * t->width);
    expect_kept(t, all);
    return code;
}

static koloResult_t all_to_all_v(struct turn *t) {
    size_t out[MOST_MEMBERS], at_out[MOST_MEMBERS], in[MOST_MEMBERS], at_in[MOST_MEMBERS];
    size_t sent = 0, received = 0;
    int me = t->group->me;
    for (int m = 0; m < t->group->n; m++) {
        out[m] = part_of(t->call->count, me, m);
        in[m] = part_of(t->call->count, m, me);
        at_out[m] = sent;
        at_in[m] = received;
        sent += out[m];
        received += in[m];
    }
    put(t, t->send, 0, sent);
    koloResult_t code = finished(t, koloAllToAllV(t->send, out, at_out, t->recv, in, at_in, TYPE,
                                                  COMM, t->stream));
    if (code != koloSuccess) return code;
    for (int m = 0; m < t->group->n; m++) {
        size_t before = 0;
        for (int other = 0; other < me; other++) before += part_of(t->call->count, m, other);
        expect(t, t->recv + at_in[m] * t->width, m, before, in[m]);
    }
    expect_poison(t, t->recv, t->recv + received * t->width);
    expect_kept(t, sent);
    return code;
}

static koloResult_t gather(struct turn *t) {
    size_t n = t->call->count, block = n * t->width;
    int blocks = t->group->me == ROOT ? t->group->n : 0;
    put(t, t->send, 0, n);
    koloResult_t code =
        finished(t, koloGather(t->send, t->recv, n, TYPE, ROOT, COMM, t->stream));
    if (code != koloSuccess) return code;
    for (int m = 0; m < blocks; m++) expect(t, t->recv + (size_t)m * block, m, 0, n);
    expect_poison(t, t->recv, t->recv + (size_t)blocks * block);
    expect_kept(t, n);
    return code;
}

static koloResult_t scatter(struct turn *t) {
    size_t n = t->call->count;
    if (t->group->me == ROOT) put(t, t->send, 0, n * (size_t)t->group->n);
    koloResult_t code =
        finished(t, koloScatter(t->send, t->recv, n, TYPE, ROOT, COMM, t->stream));
    if (code != koloSuccess) return code;
    expect(t, t->recv, ROOT, (size_t)t->group->me * n, n);
    expect_poison(t, t->recv, t->recv + n * t->width);
    return code;
}

static koloResult_t scan(struct turn *t) {
    size_t n = t->call->count;
    put(t, t->send, 0, n);
    koloResult_t code = finished(t, koloScan(t->send, t->recv, n, TYPE, OP, COMM, t->stream));
    if (code != koloSuccess) return code;
    expect_fold(t, t->recv, 0, n, t->group->me + 1);
    expect_poison(t, t->recv, t->recv + n * t->width);
    expect_kept(t, n);
    return code;
}

/* Each rank sends to one and receives from another, `root` ranks away. */
static koloResult_t shift(struct turn *t) {
    size_t n = t->call->count;
    int to = (t->group->me + ROOT) % t->group->n;
    int from = (t->group->me + t->group->n - ROOT) % t->group->n;
    put(t, t->send, 0, n);
    koloResult_t code = koloGroupStart();
    if (code == koloSuccess) code = koloSend(t->send, n, TYPE, to, COMM, t->stream);
    if (code == koloSuccess) code = koloRecv(t->recv, n, TYPE, from, COMM, t->stream);
    koloResult_t end = koloGroupEnd();
    code = finished(t, code == koloSuccess ? end : code);
    if (code != koloSuccess) return code;
    expect(t, t->recv, from, 0, n);
    expect_poison(t, t->recv, t->recv + n * t->width);
    expect_kept(t, n);
    return code;
}

static koloResult_t barrier(struct turn *t) {
    return finished(t, koloBarrier(COMM, t->stream));
}

static const struct {
    const char *name;
    koloResult_t (*body)(struct turn *t);
} table[] = {
    {"all_reduce", all_reduce}, {"reduce", reduce},         {"broadcast", broadcast},
    {"all_gather", all_gather}, {"gather", gather},         {"reduce_scatter", reduce_scatter},
    {"scatter", scatter},       {"scan", scan},             {"all_to_all", all_to_all},
    {"shift", shift},           {"barrier", barrier},       {"all_gather_v", all_gather_v},
    {"all_to_all_v", all_to_all_v},
};

#endif
