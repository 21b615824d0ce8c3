!> A program whose floating-point exceptions end it, as climate models are built for tests, and one
!! that reads the flags: kolo raises none of its own. The script compiles it with traps where the
!! compiler has an option for them.
program traps
  use, intrinsic :: iso_fortran_env, only: real64
  use, intrinsic :: ieee_exceptions
  use kolo
  use start
  use checks
  implicit none

  type(ieee_flag_type), parameter :: flags(5) = &
    [ieee_invalid, ieee_divide_by_zero, ieee_overflow, ieee_underflow, ieee_inexact]
  logical :: traps_before(5), traps_now(5), now(5)
  real(real64) :: x(1000)
  real(real64), asynchronous :: y(1000)
  type(kolo_comm) :: half
  type(kolo_stream) :: stream

  call ieee_get_halting_mode(flags, traps_before)
  call ieee_set_flag(flags, .false.)
  call begin(comm)
  ! Flags are read here: a procedure that sees the flags begins with all of them quiet.
  call ieee_get_flag(flags, now)
  call expect(.not. any(now(1:4)), 'flags after the beginning')
  call know_ranks()
  x = rank; y = rank
  call kolo_allreduce(x, KOLO_SUM, comm)
  call kolo_stream_create(stream)
  call kolo_allreduce(y, KOLO_SUM, comm, stream)
  call kolo_stream_synchronize(stream)
  call kolo_stream_destroy(stream)
  call kolo_comm_split(comm, mod(rank, 2), 0, half)
  call kolo_allreduce(x, KOLO_MAX, half)
  call kolo_comm_destroy(half)
  call expect(all(x == nranks * (nranks - 1) / 2) .and. all(y == x), 'sums')
  call ieee_get_flag(flags, now)
  call expect(.not. any(now(1:4)), 'flags after sums')
  call ieee_get_halting_mode(flags, traps_now)
  call expect(all(traps_now .eqv. traps_before), 'the traps changed')

  ! What the program raised stays raised.
  call ieee_set_flag(ieee_underflow, .true.)
  call kolo_comm_split(comm, 0, 0, half)
  call kolo_comm_destroy(half)
  call ieee_get_flag(flags, now)
  call expect(now(4) .and. .not. any(now(1:3)), 'a flag of the program')
  call ieee_set_flag(ieee_underflow, .false.)

  if (rank == 0) print '(a)', 'traps: ok'
  call finish(comm)

end program traps
