! Mask and communicator in the wrong order.
program exact_sum_without_comm
  use kolo
  implicit none
  type(kolo_comm) :: comm
  real(8) :: a(3)
  print *, kolo_sum_exact(a, comm, a > 0)
end program exact_sum_without_comm
