! The inside of an operation is not for programs.
program code_is_private
  use kolo
  implicit none
  type(kolo_comm) :: comm
  real(8) :: a(3), b(3)
  call kolo_allreduce(a, kolo_op(0), comm)
end program code_is_private
