! Data type and operation in the wrong order.
program type_and_op_swapped
  use kolo
  implicit none
  type(kolo_comm) :: comm
  real(8) :: a(3), b(3)
  call kolo_allreduce(a, b, 3, KOLO_SUM, KOLO_REAL8, comm)
end program type_and_op_swapped
