!> Wrong calls in procedures of a module, of which libkolo finds one and Fortran's own layer the
!! other: with KOLO_ERRORS=backtrace their sentences name the place.
module ocean
  use kolo
  use checks
  implicit none
contains

  subroutine step(x, ierror)
    real(8), intent(in) :: x(:)
    integer, intent(out) :: ierror
    call kolo_send(x, 0, comm, ierror) ! here
    if (ierror == KOLO_SUCCESS) print *, 'a message to oneself passed'
  end subroutine step

  subroutine melt(x, ierror)
    real(8), intent(inout) :: x(:)
    integer, intent(out) :: ierror
    call kolo_allreduce(x, x(:1), KOLO_SUM, comm, ierror) ! too
    if (ierror == KOLO_SUCCESS) print *, 'arrays of two sizes passed'
  end subroutine melt
end module ocean

program placed
  use start
  use ocean
  implicit none
  real(8) :: x(3) = 1
  integer :: ierror
  character(len=800) :: message

  call begin(comm)
  call step(x, ierror)
  call kolo_get_last_error(comm, message)
  print '(a)', trim(message)
  call melt(x, ierror)
  call kolo_get_last_error(comm, message)
  print '(a)', trim(message)
  call finish(comm)
end program placed
