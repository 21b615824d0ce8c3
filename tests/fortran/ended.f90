!> A rank whose program ends by STOP and a text has ended with status 0: that is no error, but of
!! calls that need it.
program ended
  use kolo
  use start
  use checks
  implicit none
  integer :: ierror

  call begin(comm)
  call know_ranks()
  call kolo_barrier(comm)
  if (rank == last) stop 'this rank has done its work'
  call kolo_barrier(comm, ierror)
  call expect_error(ierror, ['has ended with status 0 without taking part in this call'], &
      'a call that needs it')
  if (rank == 0) print '(a)', 'ended: ok'
end program ended
