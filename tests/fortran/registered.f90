!> Arrays that are registered: calls on them and on their sections, what is refused, and the end.
program registered
  use, intrinsic :: iso_fortran_env, only: int32, real64
  use kolo
  use start
  use checks
  implicit none

  call begin(comm)
  call know_ranks()
  call whole_and_sections()
  call matrices()
  call refused()
  if (rank == 0) print '(a)', 'registered: ok'
  call finish(comm)

contains

  subroutine whole_and_sections()
    integer, parameter :: n = 100000
    real(real64), allocatable, target :: x(:), all(:)
    type(kolo_registration) :: of_x, of_all
    integer :: i, round
    allocate (x(n), all(n * nranks))
    x = -7
    call kolo_comm_register(comm, x, of_x)
    call expect(x(1) == -7 .and. x(n) == -7, 'the content of a registered array')
    call kolo_comm_register(comm, all, of_all)
    do round = 1, 3
      x = [(val(rank, i + round), i=1, n)]
      all = -1
      call kolo_allgather(x, all, comm)
      call expect(all(1) == val(0, 1 + round), 'the first of all')
      call expect(all(n * nranks) == val(last, n + round), 'the last of all')
      call kolo_allreduce(x, KOLO_SUM, comm)
      call expect(x(1) == total(1 + round) .and. x(n) == total(n + round), 'the sum')
      x = [(val(rank, i), i=1, n)]
      call kolo_allreduce(x(1001:90000), KOLO_SUM, comm)
      call expect(x(1001) == total(1001) .and. x(90000) == total(90000), 'the sum of a section')
      call expect(x(1000) == val(rank, 1000) .and. x(90001) == val(rank, 90001), 'beside it')
    end do
    call kolo_comm_deregister(comm, of_x)
    call expect(x(1001) == total(1001) .and. x(1000) == val(rank, 1000), 'the content afterwards')
    x = [(val(rank, i), i=1, n)]
    call kolo_allreduce(x, KOLO_SUM, comm)
    call expect(x(n) == total(n), 'a call after the registration has ended')
    call kolo_comm_deregister(comm, of_all)
    deallocate (x, all)
  end subroutine whole_and_sections

  subroutine matrices()
    integer(int32), allocatable, target :: m(:, :)
    type(kolo_registration) :: registration
    allocate (m(300, 200))
    m = rank + 1
    call kolo_comm_register(comm, m, registration)
    call kolo_allreduce(m, KOLO_MAX, comm)
    call expect(all(m == nranks), 'the greatest of matrices')
    call kolo_comm_deregister(comm, registration)
    call expect(all(m == nranks), 'a matrix afterwards')
  end subroutine matrices

  subroutine refused()
    integer(int32), allocatable, target :: m(:, :)
    type(kolo_registration) :: registration
    integer :: ierror
    allocate (m(300, 200))
    m = 5
    call kolo_comm_register(comm, m(1:299, :), registration, ierror)
    call expect_error(ierror, [character(40) :: 'kolo_comm_register', 'gaps'], 'a section')
    call kolo_comm_deregister(comm, registration, ierror)
    call expect_error(ierror, [character(40) :: 'kolo_comm_deregister', 'no registration'], 'none')
    call kolo_comm_register(comm, m, registration, ierror)
    call expect(ierror == KOLO_SUCCESS, 'a whole matrix')
    call kolo_comm_deregister(comm, registration, ierror)
    call expect(ierror == KOLO_SUCCESS, 'its end')
    call kolo_comm_deregister(comm, registration, ierror)
    call expect_error(ierror, [character(40) :: 'kolo_comm_deregister'], 'twice')
  end subroutine refused

end program registered
