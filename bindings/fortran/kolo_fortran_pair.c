/* Entry points of kolo_sendrecv: a message to one rank and a message from one, at once. */
#include "kolo_fortran.h"

static void run_pair(call *c, const view *s, size_t send_bytes, size_t count, int32_t dest,
                     const view *r, size_t recv_bytes, size_t other, int32_t source,
                     koloDataType_t type) {
    const exchange e = {.what = DO_SENDRECV,
                        .send = s,
                        .recv = r,
                        .send_bytes = send_bytes,
                        .recv_bytes = recv_bytes,
                        .type = type,
                        .count = count,
                        .other = other,
                        .peer = dest,
                        .source = source};
    kolo_fi_exchange(c, &e);
}

static void short_pair(call *c, array send, int32_t dest, array recv, int32_t source) {
    view s, r;
    unit u;
    if (kolo_fi_whole(c, send, "send", &s) && kolo_fi_whole(c, recv, "recv", &r) &&
        kolo_fi_same_type(c, &s, &r) && kolo_fi_move_unit(c, &s, &u))
        run_pair(c, &s, s.elements * s.element_bytes, s.elements * u.per_element, dest, &r,
                 r.elements * r.element_bytes, r.elements * u.per_element, source, u.type);
    kolo_fi_finish(c);
}

static void explicit_pair(call *c, array send, int64_t send_count, fortran_type send_type,
                          int32_t dest, array recv, int64_t recv_count, fortran_type recv_type,
                          int32_t source) {
    amount out, in;
    view s, r;
    if (c->code == koloSuccess && send_type.code != recv_type.code)
        kolo_fi_problem(c, koloInvalidArgument,
                        "give one type for both, or use kolo_send and kolo_recv in a group",
                        "sendtype and recvtype differ");
    if (kolo_fi_measure(c, send_count, send_type, false, 0, NULL, false, &out) &&
        kolo_fi_measure(c, recv_count, recv_type, false, 0, NULL, false, &in) &&
        kolo_fi_fits(c, send, "send", send_type, out.bytes, false, &s) &&
        kolo_fi_fits(c, recv, "recv", recv_type, in.bytes, false, &r))
        run_pair(c, &s, out.bytes, out.count, dest, &r, in.bytes, in.count, source, out.u.type);
    kolo_fi_finish(c);
}

#define COMM const fortran_comm *comm
#define SHORT array send, const int32_t *dest, array recv, const int32_t *source, COMM
#define EXPLICIT(kind)                                                                            \
    array send, const kind *send_count, const fortran_type *send_type, const int32_t *dest,       \
        array recv, const kind *recv_count, const fortran_type *recv_type, const int32_t *source, \
        COMM
#define RUN_SHORT short_pair(&c, send, *dest, recv, *source)
#define RUN_EXPLICIT                                                                        \
    explicit_pair(&c, send, *send_count, *send_type, *dest, recv, *recv_count, *recv_type,  \
                  *source)

/* One procedure that blocks, one with a stream, one with a request; explicit ones for each kind of
 * count. */
KOLO_ENTRY void kolo_f_sendrecv(SHORT, int32_t *ierror) {
    call c;
    kolo_fi_begin(&c, "kolo_sendrecv", comm, NULL, ierror);
    RUN_SHORT;
}
KOLO_ENTRY void kolo_f_sendrecv_s(SHORT, const fortran_stream *stream, int32_t *ierror) {
    call c;
    kolo_fi_begin(&c, "kolo_sendrecv", comm, stream, ierror);
    RUN_SHORT;
}
KOLO_ENTRY void kolo_f_isendrecv(SHORT, fortran_request *request, int32_t *ierror) {
    call c;
    kolo_fi_begin_request(&c, "kolo_isendrecv", comm, request, ierror);
    RUN_SHORT;
}
KOLO_ENTRY void kolo_f_sendrecv_4(EXPLICIT(int32_t), int32_t *ierror) {
    call c;
    kolo_fi_begin(&c, "kolo_sendrecv", comm, NULL, ierror);
    RUN_EXPLICIT;
}
KOLO_ENTRY void kolo_f_sendrecv_8(EXPLICIT(int64_t), int32_t *ierror) {
    call c;
    kolo_fi_begin(&c, "kolo_sendrecv", comm, NULL, ierror);
    RUN_EXPLICIT;
}
KOLO_ENTRY void kolo_f_isendrecv_4(EXPLICIT(int32_t), fortran_request *request, int32_t *ierror) {
    call c;
    kolo_fi_begin_request(&c, "kolo_isendrecv", comm, request, ierror);
    RUN_EXPLICIT;
}
KOLO_ENTRY void kolo_f_isendrecv_8(EXPLICIT(int64_t), fortran_request *request, int32_t *ierror) {
    call c;
    kolo_fi_begin_request(&c, "kolo_isendrecv", comm, request, ierror);
    RUN_EXPLICIT;
}
