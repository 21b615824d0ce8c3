!> An error that libkolo finds, without ierror: one sentence, in the words of Fortran.
program once
  use kolo
  use start
  use checks
  implicit none
  integer :: a(3) = 1

  call begin(comm)
  call know_ranks()
  call kolo_bcast(a, nranks + 5, comm)
  print *, 'survived'
  call finish(comm)
end program once
