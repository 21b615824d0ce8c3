! A program of two Fortran compilers, each with its own descriptors of arrays: every second row of
! an array is summed by a part of each.
module two_compilers
  use, intrinsic :: iso_c_binding
  use kolo
  implicit none
contains
  function sums_are_right(comm) result(right)
    type(kolo_comm), intent(in) :: comm
    integer(c_int) :: right
    integer :: rank, nranks
    real(8) :: a(7, 8)
    call kolo_comm_rank(comm, rank)
    call kolo_comm_size(comm, nranks)
    a = rank + 1
    call kolo_allreduce(a(2:6:2, 1:8:3), KOLO_SUM, comm)
    right = merge(1, 0, all(a(2:6:2, 1:8:3) == nranks * (nranks + 1) / 2) .and. &
      count(a == rank + 1) == 7 * 8 - 9)
  end function sums_are_right
end module two_compilers

#ifdef PART
function part() bind(C, name="part") result(right)
  use two_compilers
  implicit none
  include 'mpif.h'
  integer(c_int) :: right
  type(kolo_comm) :: comm
  call kolo_comm_init(MPI_COMM_WORLD, comm)
  right = sums_are_right(comm)
  call kolo_comm_destroy(comm)
end function part
#else
program main
  use two_compilers
  implicit none
  include 'mpif.h'
  interface
    function part() bind(C, name="part") result(right)
      import
      integer(c_int) :: right
    end function part
  end interface
  type(kolo_comm) :: comm
  integer :: ierror, mine, theirs
  call mpi_init(ierror)
  theirs = part()
  call kolo_comm_init(MPI_COMM_WORLD, comm)
  mine = sums_are_right(comm)
  call kolo_comm_destroy(comm)
  print '(a,2i2)', 'right:', mine, theirs
  call mpi_finalize(ierror)
end program main
#endif
