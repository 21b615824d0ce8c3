! A sum that is exact anyway.
program exact_sum_of_integers
  use kolo
  implicit none
  type(kolo_comm) :: comm
  integer :: a(3)
  print *, kolo_sum_exact(a, comm)
end program exact_sum_of_integers
