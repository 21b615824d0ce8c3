/* kolo_comm_register: arrays that other ranks read where they lie. */
#include "kolo_fortran.h"

KOLO_ENTRY void kolo_f_comm_register(const fortran_comm *comm, array descriptor,
                                     fortran_registration *registration, int32_t *ierror) {
    call c;
    view v;
    kolo_fi_begin(&c, "kolo_comm_register", comm, NULL, ierror);
    if (kolo_fi_whole(&c, descriptor, "array", &v)) {
        if (v.copy || !v.contiguous)
            kolo_fi_problem(&c, koloInvalidArgument,
                            "register the whole array; calls may then use sections of it",
                            "the argument array has gaps, or is a copy that the compiler made");
        else {
            /* A call that fails leaves the variable as it was. */
            void *made = NULL;
            size_t bytes = v.elements * v.element_bytes;
            if (kolo_fi_check(&c, koloCommRegister(c.comm, v.base, bytes, &made)))
                registration->handle = made;
        }
    }
    kolo_fi_finish(&c);
}

KOLO_ENTRY void kolo_f_comm_deregister(const fortran_comm *comm,
                                       fortran_registration *registration, int32_t *ierror) {
    call c;
    kolo_fi_begin(&c, "kolo_comm_deregister", comm, NULL, ierror);
    koloResult_t result = koloCommDeregister(c.comm, registration->handle);
    kolo_fi_check(&c, result);
    /* After another error the registration lives on. */
    if (result == koloSuccess || result == koloSystemError) registration->handle = NULL;
    kolo_fi_finish(&c);
}
