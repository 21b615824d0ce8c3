! What the model asks of a communication library, and nothing more.
!
! Problem: the same model shall run on kolo and on plain MPI, so that results and times can be
! compared. Idea: an abstract type names the few operations a regional ocean model needs; comm_kolo
! and comm_mpi fill them in. Everything else in this folder knows only this module.
!
! Terms: rank 0 is the root of every broadcast and gather. All ranks call each operation in the
! same order, except stop_all.
module comm_layer
  use, intrinsic :: iso_fortran_env, only: real64, int64
  implicit none
  private
  public :: comm_t, message_t, rk, int64

  !> The kind of all numbers of the model. kolo and MPI are told real(8).
  integer, parameter :: rk = real64

  !> One shift of a halo exchange: `out` goes to rank `to`, `in` is filled by rank `from`.
  !> A negative rank means that nothing goes (or comes) that way, as at a wall.
  !> Between two ranks the k-th message sent is the k-th received.
  type :: message_t
    integer :: to = -1, from = -1
    real(rk), allocatable :: out(:), in(:)
  end type message_t

  type, abstract :: comm_t
    integer :: rank = 0            !! 0 .. nranks - 1
    integer :: nranks = 1
    character(len=:), allocatable :: name
    real(rk) :: seconds = 0.0_rk   !! time spent inside the operations below
    integer(int64), private :: clock = 0_int64
  contains
    procedure(start_i), deferred :: start               !! join the ranks of this job
    procedure(plain_i), deferred :: finish              !! leave them
    procedure(exchange_i), deferred :: exchange         !! all messages at once
    procedure(real_i), deferred :: max_real             !! element-wise maximum, in place
    procedure(real_i), deferred :: sum_real             !! element-wise sum, in place
    procedure(sum_cells_i), deferred :: sum_cells       !! one sum over the cells of all ranks
    procedure(integer_i), deferred :: sum_integer       !! element-wise sum, in place
    procedure(gather_i), deferred :: gather             !! equal parts to rank 0, in rank order
    procedure(bcast_logical_i), deferred :: bcast_logical
    procedure(bcast_integer_i), deferred :: bcast_integer
    procedure(bcast_text_i), deferred :: bcast_text
    procedure(real_i), deferred :: bcast_real
    procedure(stop_i), deferred :: stop_all             !! one rank ends the job
    generic :: bcast => bcast_logical, bcast_integer, bcast_text, bcast_real
    procedure :: tic
    procedure :: toc
  end type comm_t

  abstract interface
    subroutine start_i(self)
      import :: comm_t
      class(comm_t), intent(inout) :: self
    end subroutine start_i
    subroutine plain_i(self)
      import :: comm_t
      class(comm_t), intent(inout) :: self
    end subroutine plain_i
    subroutine exchange_i(self, messages)
      import :: comm_t, message_t
      class(comm_t), intent(inout) :: self
      type(message_t), intent(inout) :: messages(:)
    end subroutine exchange_i
    subroutine real_i(self, x)
      import :: comm_t, rk
      class(comm_t), intent(inout) :: self
      real(rk), contiguous, intent(inout) :: x(:)
    end subroutine real_i
    !> The sum of `x` where `wet`. On kolo it is exact, and so has the same bits on any number of
    !> ranks; on plain MPI it depends in its last digits on how the cells are grouped.
    function sum_cells_i(self, x, wet) result(total)
      import :: comm_t, rk
      class(comm_t), intent(inout) :: self
      real(rk), intent(in) :: x(:, :)
      logical, intent(in) :: wet(:, :)
      real(rk) :: total
    end function sum_cells_i
    subroutine integer_i(self, x)
      import :: comm_t, int64
      class(comm_t), intent(inout) :: self
      integer(int64), contiguous, intent(inout) :: x(:)
    end subroutine integer_i
    !> `part` has the same size on every rank; `whole` holds nranks parts on rank 0 and one part,
    !> left alone, elsewhere.
    subroutine gather_i(self, part, whole)
      import :: comm_t, rk
      class(comm_t), intent(inout) :: self
      real(rk), contiguous, intent(in) :: part(:)
      real(rk), contiguous, intent(inout) :: whole(:)
    end subroutine gather_i
    subroutine bcast_logical_i(self, x)
      import :: comm_t
      class(comm_t), intent(inout) :: self
      logical, intent(inout) :: x
    end subroutine bcast_logical_i
    subroutine bcast_integer_i(self, x)
      import :: comm_t
      class(comm_t), intent(inout) :: self
      integer, intent(inout) :: x
    end subroutine bcast_integer_i
    subroutine bcast_text_i(self, x)
      import :: comm_t
      class(comm_t), intent(inout) :: self
      character(len=*), intent(inout) :: x
    end subroutine bcast_text_i
    subroutine stop_i(self, message)
      import :: comm_t
      class(comm_t), intent(inout) :: self
      character(len=*), intent(in) :: message
    end subroutine stop_i
  end interface

contains

  !> Opens the interval that the next toc adds to `seconds`.
  subroutine tic(self)
    class(comm_t), intent(inout) :: self
    call system_clock(self%clock)
  end subroutine tic

  subroutine toc(self)
    class(comm_t), intent(inout) :: self
    integer(int64) :: now, rate
    call system_clock(now, rate)
    self%seconds = self%seconds + real(now - self%clock, rk) / real(rate, rk)
  end subroutine toc
end module comm_layer
