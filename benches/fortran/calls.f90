! An all-reduce of one real(8) from C, from Fortran in three forms, and of MPI, by turns.
!
!   calls CALLS TURNS
!
! Prints for each the median over the turns of the microseconds of a call on rank 0, with least and
! greatest, and the median of its time over that of C in the same turn. Every turn checks its sum.
program calls
  use, intrinsic :: iso_c_binding
  use mpi
  use kolo
  implicit none
  integer, parameter :: kinds = 6
  character(len=24), parameter :: names(kinds) = [character(len=24) :: 'C', 'Fortran, short', &
    'Fortran, one array', 'Fortran, explicit', 'mpi_allreduce', 'C again']
  interface
    subroutine call_c(send, recv, calls, comm) bind(C)
      import
      real(c_double), intent(in) :: send
      real(c_double), intent(out) :: recv
      integer(c_int), value :: calls
      type(kolo_comm), intent(in) :: comm
    end subroutine call_c
  end interface
  type(kolo_comm) :: comm
  integer :: rank, nranks, number, turns, turn, step, kind, ierror
  real(8) :: begin, total, first
  real(8), allocatable :: times(:, :)

  call mpi_init(ierror)
  call kolo_comm_init(MPI_COMM_WORLD, comm)
  call kolo_comm_rank(comm, rank)
  call kolo_comm_size(comm, nranks)
  number = argument(1)
  turns = argument(2)
  allocate (times(turns, kinds))
  ! The first turn warms up.
  do turn = 0, turns
    do step = 1, kinds
      ! What slows the machine for a while strikes the last as well as the first.
      kind = merge(step, kinds + 1 - step, mod(turn, 2) == 0)
      first = rank + 1.0_8 + turn
      call mpi_barrier(MPI_COMM_WORLD, ierror)
      begin = mpi_wtime()
      call run(kind, first, total)
      if (turn > 0) times(turn, kind) = (mpi_wtime() - begin) / number * 1e6_8
      if (total /= nranks * (nranks + 1) / 2 + real(nranks, 8) * turn) then
        print *, trim(names(kind)), ' is wrong on rank ', rank, ': ', total
        call mpi_abort(MPI_COMM_WORLD, 1, ierror)
      end if
    end do
  end do
  if (rank == 0) then
    do kind = 1, kinds
      print '(a,3(f8.3),a,f6.3)', names(kind), median(times(:, kind)), minval(times(:, kind)), &
        maxval(times(:, kind)), '   over C ', median(times(:, kind) / times(:, 1))
    end do
    print '(a,2(f7.3))', 'mpi_allreduce over short and explicit ', &
      median(times(:, 5) / times(:, 2)), median(times(:, 5) / times(:, 4))
  end if
  call kolo_comm_destroy(comm)
  call mpi_finalize(ierror)

contains

  subroutine run(kind, first, total)
    integer, intent(in) :: kind
    real(8), intent(in) :: first
    real(8), intent(out) :: total
    real(8) :: send, one
    integer :: i
    send = first
    total = -1
    select case (kind)
    case (1, 6)
      call call_c(send, total, number, comm)
    case (2)
      do i = 1, number
        call kolo_allreduce(send, total, KOLO_SUM, comm)
      end do
    case (3)
      do i = 1, number
        one = send
        call kolo_allreduce(one, KOLO_SUM, comm)
      end do
      total = one
    case (4)
      do i = 1, number
        call kolo_allreduce(send, total, 1, KOLO_REAL8, KOLO_SUM, comm)
      end do
    case (5)
      do i = 1, number
        call mpi_allreduce(send, total, 1, MPI_REAL8, MPI_SUM, MPI_COMM_WORLD, ierror)
      end do
    end select
  end subroutine run

  integer function argument(position)
    integer, intent(in) :: position
    character(len=32) :: text
    call get_command_argument(position, text)
    read (text, *) argument
  end function argument

  real(8) function median(values)
    real(8), intent(in) :: values(:)
    real(8) :: sorted(size(values)), held
    integer :: i, j
    sorted = values
    do i = 2, size(sorted)
      held = sorted(i)
      j = i - 1
      do while (j > 0)
        if (sorted(j) <= held) exit
        sorted(j + 1) = sorted(j)
        j = j - 1
      end do
      sorted(j + 1) = held
    end do
    median = sorted((size(sorted) + 1) / 2)
  end function median
end program calls
