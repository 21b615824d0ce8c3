!> Wrong calls whose ierror nobody looks at. The script reads what was written to standard error.
program ignored
  use kolo
  use start
  use checks
  implicit none
  real :: sum
  logical :: l
  integer :: i, ierror
  call begin(comm)
  call know_ranks()
  l = .true.; sum = 1
  do i = 1, 3 ! found by the Fortran interface
    call kolo_allreduce(l, KOLO_SUM, comm, ierror)
  end do
  do i = 1, 4 ! found by the library
    call kolo_bcast(sum, 1, KOLO_REAL4, nranks, comm, ierror)
  end do
  call finish(comm)
  if (rank == 0) print '(a)', 'ignored: ok'
end program ignored
