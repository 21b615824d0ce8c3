! An exchange without the rank that it receives from.
program source_missing
  use kolo
  implicit none
  type(kolo_comm) :: comm
  real(8) :: a(3), b(3)
  call kolo_sendrecv(a, 0, b, comm)
end program source_missing
