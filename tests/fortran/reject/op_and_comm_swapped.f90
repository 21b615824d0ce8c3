! Operation and communicator in the wrong order.
program op_and_comm_swapped
  use kolo
  implicit none
  type(kolo_comm) :: comm
  real(8) :: a(3), b(3)
  call kolo_allreduce(a, comm, KOLO_SUM)
end program op_and_comm_swapped
