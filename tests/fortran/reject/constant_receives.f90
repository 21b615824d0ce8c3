! A receive buffer that is an expression.
program constant_receives
  use kolo
  implicit none
  type(kolo_comm) :: comm
  real(8) :: a(3), b(3)
  call kolo_recv(2 * a, 0, comm)
end program constant_receives
