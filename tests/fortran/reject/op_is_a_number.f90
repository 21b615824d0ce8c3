! A number instead of an operation.
program op_is_a_number
  use kolo
  implicit none
  type(kolo_comm) :: comm
  real(8) :: a(3), b(3)
  call kolo_allreduce(a, 0, comm)
end program op_is_a_number
