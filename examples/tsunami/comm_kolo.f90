! The operations of comm_layer on kolo. MPI starts the job and kolo does the talking: after
! kolo_comm_init no message of the model goes through MPI.
module comm_kolo
  use mpi_f08, only: MPI_COMM_WORLD, MPI_Init, MPI_Finalize, MPI_Abort
  use kolo, only: kolo_comm, kolo_comm_init, kolo_comm_destroy, kolo_comm_rank, kolo_comm_size, &
    kolo_comm_abort, kolo_allreduce, kolo_bcast, kolo_gather, kolo_send, kolo_recv, &
    kolo_group_start, kolo_group_end, kolo_sum_exact, KOLO_MAX, KOLO_SUM
  use, intrinsic :: iso_fortran_env, only: error_unit
  use comm_layer, only: comm_t, message_t, rk, int64
  implicit none
  private
  public :: kolo_is_built, make_kolo_comm

  !> True here, false in comm_kolo_absent.
  logical, parameter :: kolo_is_built = .true.

  type, extends(comm_t) :: kolo_comm_t
    type(kolo_comm) :: handle
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
  end type kolo_comm_t

contains

  subroutine make_kolo_comm(comm)
    class(comm_t), allocatable, intent(out) :: comm
    allocate (kolo_comm_t :: comm)
  end subroutine make_kolo_comm

  subroutine start(self)
    class(kolo_comm_t), intent(inout) :: self
    call MPI_Init()
    call kolo_comm_init(MPI_COMM_WORLD%mpi_val, self%handle)
    call kolo_comm_rank(self%handle, self%rank)
    call kolo_comm_size(self%handle, self%nranks)
    self%name = 'kolo'
  end subroutine start

  subroutine finish(self)
    class(kolo_comm_t), intent(inout) :: self
    call kolo_comm_destroy(self%handle)
    call MPI_Finalize()
  end subroutine finish

  subroutine exchange(self, messages)
    class(kolo_comm_t), intent(inout) :: self
    type(message_t), intent(inout) :: messages(:)
    integer :: k
    call self%tic()
    ! Inside a group the order of sends and receives cannot dead-lock.
    call kolo_group_start()
    do k = 1, size(messages)
      if (messages(k)%to >= 0) call kolo_send(messages(k)%out, messages(k)%to, self%handle)
      if (messages(k)%from >= 0) call kolo_recv(messages(k)%in, messages(k)%from, self%handle)
    end do
    call kolo_group_end()
    call self%toc()
  end subroutine exchange

  subroutine max_real(self, x)
    class(kolo_comm_t), intent(inout) :: self
    real(rk), contiguous, intent(inout) :: x(:)
    call self%tic()
    call kolo_allreduce(x, KOLO_MAX, self%handle)
    call self%toc()
  end subroutine max_real

  subroutine sum_real(self, x)
    class(kolo_comm_t), intent(inout) :: self
    real(rk), contiguous, intent(inout) :: x(:)
    call self%tic()
    call kolo_allreduce(x, KOLO_SUM, self%handle)
    call self%toc()
  end subroutine sum_real

  function sum_cells(self, x, wet) result(total)
    class(kolo_comm_t), intent(inout) :: self
    real(rk), intent(in) :: x(:, :)
    logical, intent(in) :: wet(:, :)
    real(rk) :: total
    call self%tic()
    total = kolo_sum_exact(x, wet, self%handle)
    call self%toc()
  end function sum_cells

  subroutine sum_integer(self, x)
    class(kolo_comm_t), intent(inout) :: self
    integer(int64), contiguous, intent(inout) :: x(:)
    call self%tic()
    call kolo_allreduce(x, KOLO_SUM, self%handle)
    call self%toc()
  end subroutine sum_integer

  subroutine gather(self, part, whole)
    class(kolo_comm_t), intent(inout) :: self
    real(rk), contiguous, intent(in) :: part(:)
    real(rk), contiguous, intent(inout) :: whole(:)
    call self%tic()
    call kolo_gather(part, whole, 0, self%handle)
    call self%toc()
  end subroutine gather

  subroutine bcast_logical(self, x)
    class(kolo_comm_t), intent(inout) :: self
    logical, intent(inout) :: x
    call self%tic()
    call kolo_bcast(x, 0, self%handle)
    call self%toc()
  end subroutine bcast_logical

  subroutine bcast_integer(self, x)
    class(kolo_comm_t), intent(inout) :: self
    integer, intent(inout) :: x
    call self%tic()
    call kolo_bcast(x, 0, self%handle)
    call self%toc()
  end subroutine bcast_integer

  subroutine bcast_text(self, x)
    class(kolo_comm_t), intent(inout) :: self
    character(len=*), intent(inout) :: x
    call self%tic()
    call kolo_bcast(x, 0, self%handle)
    call self%toc()
  end subroutine bcast_text

  subroutine bcast_real(self, x)
    class(kolo_comm_t), intent(inout) :: self
    real(rk), contiguous, intent(inout) :: x(:)
    call self%tic()
    call kolo_bcast(x, 0, self%handle)
    call self%toc()
  end subroutine bcast_real

  subroutine stop_all(self, message)
    class(kolo_comm_t), intent(inout) :: self
    character(len=*), intent(in) :: message
    write (error_unit, '(a,i0,2a)') 'tsunami, rank ', self%rank, ': ', message
    flush (error_unit)
    call kolo_comm_abort(self%handle)
    call MPI_Abort(MPI_COMM_WORLD, 1)
  end subroutine stop_all
end module comm_kolo
