!> A wrong call without ierror: must not come back. The script looks at the exit code and at what
!! was written.
program stops
  use kolo
  use start
  use checks
  implicit none
  logical :: l
  call begin(comm)
  call know_ranks()
  l = .true.
  write (*, '(a)', advance='no') 'written before'
  if (rank == last) call kolo_allreduce(l, KOLO_SUM, comm)
  if (rank /= last) call kolo_barrier(comm)
  print '(a)', 'survived'
  call finish(comm)
end program stops
