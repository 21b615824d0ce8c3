! A rank is no real number.
program dest_is_real
  use kolo
  implicit none
  type(kolo_comm) :: comm
  real(8) :: a(3), b(3)
  call kolo_sendrecv(a, 0.0, b, 1, comm)
end program dest_is_real
