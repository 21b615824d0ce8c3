! The operations of comm_layer on plain MPI.
module comm_mpi
  use mpi_f08
  use, intrinsic :: iso_fortran_env, only: error_unit
  use comm_layer, only: comm_t, message_t, rk, int64
  implicit none
  private
  public :: mpi_comm_t, make_mpi_comm

  type, extends(comm_t) :: mpi_comm_t
  contains
    procedure :: start
    procedure :: finish
    procedure :: exchange
    procedure :: max_real
    procedure :: sum_real
    procedure :: sum_cells
    procedure :: sum_integer
    procedure :: gather
    procedure :: bcast_logical
    procedure :: bcast_integer
    procedure :: bcast_text
    procedure :: bcast_real
    procedure :: stop_all
  end type mpi_comm_t

contains

  subroutine make_mpi_comm(comm)
    class(comm_t), allocatable, intent(out) :: comm
    allocate (mpi_comm_t :: comm)
  end subroutine make_mpi_comm

  subroutine start(self)
    class(mpi_comm_t), intent(inout) :: self
    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, self%rank)
    call MPI_Comm_size(MPI_COMM_WORLD, self%nranks)
    self%name = 'plain MPI'
  end subroutine start

  subroutine finish(self)
    class(mpi_comm_t), intent(inout) :: self
    self%name = 'plain MPI, finished'
    call MPI_Finalize()
  end subroutine finish

  subroutine exchange(self, messages)
    class(mpi_comm_t), intent(inout) :: self
    type(message_t), intent(inout) :: messages(:)
    type(MPI_Request) :: requests(2 * size(messages))
    integer :: k
    call self%tic()
    requests = MPI_REQUEST_NULL
    do k = 1, size(messages)
      if (messages(k)%from >= 0) then
        call MPI_Irecv(messages(k)%in, size(messages(k)%in), MPI_REAL8, messages(k)%from, k, &
                       MPI_COMM_WORLD, requests(2 * k))
      end if
    end do
    do k = 1, size(messages)
      if (messages(k)%to >= 0) then
        call MPI_Isend(messages(k)%out, size(messages(k)%out), MPI_REAL8, messages(k)%to, k, &
                       MPI_COMM_WORLD, requests(2 * k - 1))
      end if
    end do
    call MPI_Waitall(size(requests), requests, MPI_STATUSES_IGNORE)
    call self%toc()
  end subroutine exchange

  subroutine max_real(self, x)
    class(mpi_comm_t), intent(inout) :: self
    real(rk), contiguous, intent(inout) :: x(:)
    call self%tic()
    call MPI_Allreduce(MPI_IN_PLACE, x, size(x), MPI_REAL8, MPI_MAX, MPI_COMM_WORLD)
    call self%toc()
  end subroutine max_real

  subroutine sum_real(self, x)
    class(mpi_comm_t), intent(inout) :: self
    real(rk), contiguous, intent(inout) :: x(:)
    call self%tic()
    call MPI_Allreduce(MPI_IN_PLACE, x, size(x), MPI_REAL8, MPI_SUM, MPI_COMM_WORLD)
    call self%toc()
  end subroutine sum_real

  function sum_cells(self, x, wet) result(total)
    class(mpi_comm_t), intent(inout) :: self
    real(rk), intent(in) :: x(:, :)
    logical, intent(in) :: wet(:, :)
    real(rk) :: total, mine
    integer :: j
    mine = 0.0_rk
    ! Row by row, which rounds less than one long sum.
    do j = 1, size(x, 2)
      mine = mine + sum(x(:, j), mask=wet(:, j))
    end do
    call self%tic()
    call MPI_Allreduce(mine, total, 1, MPI_REAL8, MPI_SUM, MPI_COMM_WORLD)
    call self%toc()
  end function sum_cells

  subroutine sum_integer(self, x)
    class(mpi_comm_t), intent(inout) :: self
    integer(int64), contiguous, intent(inout) :: x(:)
    call self%tic()
    call MPI_Allreduce(MPI_IN_PLACE, x, size(x), MPI_INTEGER8, MPI_SUM, MPI_COMM_WORLD)
    call self%toc()
  end subroutine sum_integer

  subroutine gather(self, part, whole)
    class(mpi_comm_t), intent(inout) :: self
    real(rk), contiguous, intent(in) :: part(:)
    real(rk), contiguous, intent(inout) :: whole(:)
    call self%tic()
    call MPI_Gather(part, size(part), MPI_REAL8, whole, size(part), MPI_REAL8, 0, MPI_COMM_WORLD)
    call self%toc()
  end subroutine gather

  subroutine bcast_logical(self, x)
    class(mpi_comm_t), intent(inout) :: self
    logical, intent(inout) :: x
    call self%tic()
    call MPI_Bcast(x, 1, MPI_LOGICAL, 0, MPI_COMM_WORLD)
    call self%toc()
  end subroutine bcast_logical

  subroutine bcast_integer(self, x)
    class(mpi_comm_t), intent(inout) :: self
    integer, intent(inout) :: x
    call self%tic()
    call MPI_Bcast(x, 1, MPI_INTEGER, 0, MPI_COMM_WORLD)
    call self%toc()
  end subroutine bcast_integer

  subroutine bcast_text(self, x)
    class(mpi_comm_t), intent(inout) :: self
    character(len=*), intent(inout) :: x
    call self%tic()
    call MPI_Bcast(x, len(x), MPI_CHARACTER, 0, MPI_COMM_WORLD)
    call self%toc()
  end subroutine bcast_text

  subroutine bcast_real(self, x)
    class(mpi_comm_t), intent(inout) :: self
    real(rk), contiguous, intent(inout) :: x(:)
    call self%tic()
    call MPI_Bcast(x, size(x), MPI_REAL8, 0, MPI_COMM_WORLD)
    call self%toc()
  end subroutine bcast_real

  subroutine stop_all(self, message)
    class(mpi_comm_t), intent(inout) :: self
    character(len=*), intent(in) :: message
    write (error_unit, '(a,i0,2a)') 'tsunami, rank ', self%rank, ': ', message
    flush (error_unit)
    call MPI_Abort(MPI_COMM_WORLD, 1)
  end subroutine stop_all
end module comm_mpi
