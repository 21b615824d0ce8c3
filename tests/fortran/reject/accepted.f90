! The calls that the other files here get wrong, written correctly: this one compiles.
program accepted
  use kolo
  implicit none
  type(kolo_comm) :: comm
  real(8) :: a(3), b(3)
  integer :: ierror
  call kolo_allreduce(a, KOLO_SUM, comm)
  call kolo_allreduce(a, b, KOLO_SUM, comm)
  call kolo_allreduce(a, b, 3, KOLO_REAL8, KOLO_SUM, comm, ierror)
  call kolo_bcast(a, 0, comm)
  call kolo_recv(a, 0, comm)
  call kolo_sendrecv(a, 0, b, KOLO_NO_RANK, comm)
  call kolo_sendrecv(a, 3, KOLO_REAL8, 0, b, 3, KOLO_REAL8, 0, comm, ierror)
  call kolo_allreduce(buf=a, op=KOLO_SUM, comm=comm, ierror=ierror)
  a(1) = kolo_sum_exact(a, comm)
  a(1) = kolo_sum_exact(a, mask=a > 0, comm=comm, ierror=ierror)
end program accepted
