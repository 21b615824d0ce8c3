! A data type instead of an operation.
program type_for_op
  use kolo
  implicit none
  type(kolo_comm) :: comm
  real(8) :: a(3), b(3)
  call kolo_reduce(a, b, KOLO_REAL8, 0, comm)
end program type_for_op
