! No root.
program root_missing
  use kolo
  implicit none
  type(kolo_comm) :: comm
  real(8) :: a(3), b(3)
  call kolo_bcast(a, comm)
end program root_missing
