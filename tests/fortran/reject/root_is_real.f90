! The root is a real number.
program root_is_real
  use kolo
  implicit none
  type(kolo_comm) :: comm
  real(8) :: a(3), b(3)
  call kolo_bcast(a, 1.0, comm)
end program root_is_real
