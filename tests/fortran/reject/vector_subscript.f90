! A receive buffer with a vector subscript, which is a copy.
program vector_subscript
  use kolo
  implicit none
  type(kolo_comm) :: comm
  real(8) :: a(3), b(3)
  integer :: i(2) = [1, 3]
  call kolo_recv(a(i), 0, comm)
end program vector_subscript
