!> How the test programs start under mpirun. mpif.h serves compilers that cannot read the modules
!! of the MPI library.
module start
  use kolo
  implicit none
  private
  include 'mpif.h'
  public :: begin, finish
  !> What this way to start calls a rank that is not there.
  integer, parameter, public :: nobody = MPI_PROC_NULL
  logical, parameter, public :: with_mpi = .true.

contains

  subroutine begin(comm)
    type(kolo_comm), intent(out) :: comm
    integer :: ierror, mine, rank, nranks
    ! MPI writes 4 bytes of an integer that may have 8.
    mine = 0
    nranks = 0
    call mpi_init(ierror)
    call kolo_comm_init(MPI_COMM_WORLD, comm)
    call mpi_comm_rank(MPI_COMM_WORLD, mine, ierror)
    call kolo_comm_rank(comm, rank)
    call mpi_comm_size(MPI_COMM_WORLD, nranks, ierror)
    if (rank /= mine) error stop 'the rank is not that of MPI'
    call kolo_comm_size(comm, mine)
    if (nranks /= mine) error stop 'the number of ranks is not that of MPI'
  end subroutine begin

  subroutine finish(comm)
    type(kolo_comm), intent(inout) :: comm
    integer :: ierror
    call kolo_comm_destroy(comm)
    call mpi_finalize(ierror)
  end subroutine finish

end module start
