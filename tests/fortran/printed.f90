!> An error without ierror in a function that a print calls: the print holds its unit.
program printed
  use kolo
  use start
  use checks
  implicit none
  real(8) :: x(3) = 1
  logical :: mask(2) = .true.

  call begin(comm)
  call know_ranks()
  print *, 'the sum is', kolo_sum_exact(x, mask, comm)
  print *, 'survived'
  call finish(comm)
end program printed
