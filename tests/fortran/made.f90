!> Operations of the program: subroutines with arrays a(:) are refused, and so are calls on another
!! type than the one that the program has named.
module wrong
  implicit none
contains
  subroutine whole(in, inout, n, datatype)
    integer, intent(in) :: n, datatype
    real(8), intent(in) :: in(:)
    real(8), intent(inout) :: inout(:)
    inout = in + inout
    if (n < 0 .or. datatype < 0) error stop
  end subroutine whole

  subroutine smallest(in, inout, n, datatype)
    integer, intent(in) :: n, datatype
    integer(4), intent(in) :: in(:)
    integer(4), intent(inout) :: inout(:)
    integer :: i
    do i = 1, size(inout)
      inout(i) = min(in(i), inout(i))
    end do
    if (n < 0 .or. datatype < 0) error stop
  end subroutine smallest

  subroutine products(in, inout, n, datatype)
    integer, intent(in) :: n, datatype
    complex(4), intent(in), contiguous :: in(0:)
    complex(4), intent(inout), contiguous :: inout(0:)
    inout = in * inout
    if (n < 0 .or. datatype < 0) error stop
  end subroutine products

  subroutine any_of(in, inout, n, datatype)
    integer, intent(in) :: n, datatype
    logical, intent(in) :: in(:, :)
    logical, intent(inout) :: inout(:, :)
    inout = in .neqv. inout
    if (n < 0 .or. datatype < 0) error stop
  end subroutine any_of

  subroutine largest(in, inout, n, datatype)
    integer, intent(in) :: n, datatype
    real(8), intent(in) :: in(*)
    real(8), intent(inout) :: inout(*)
    inout(1:n) = max(in(1:n), inout(1:n))
    if (datatype < 0) error stop
  end subroutine largest

  subroutine sums(in, inout, n, datatype)
    integer, intent(in) :: n, datatype
    complex(8), intent(in) :: in(n)
    complex(8), intent(inout) :: inout(n)
    inout = in + inout
    if (datatype < 0) error stop
  end subroutine sums
end module wrong

program made
  use kolo
  use start
  use checks
  use wrong
  implicit none
  type(kolo_op) :: op
  real(8) :: x(700)
  real(4) :: y(700)
  complex(8) :: z(3)
  integer :: ierror, counts(4)
  external :: outside
  call begin(comm)
  call know_ranks()

  call kolo_op_create(whole, .true., comm, op)
  call refused('whole arrays')
  call kolo_op_create(whole, .true., comm, op, KOLO_REAL8)
  call refused('whole arrays of a type')
  call kolo_op_create(smallest, .true., comm, op)
  call refused('by size')
  call kolo_op_create(products, .true., comm, op)
  call refused('contiguous')
  call kolo_op_create(any_of, .true., comm, op)
  call refused('of two dimensions')

  call kolo_op_create(largest, .true., comm, op, KOLO_REAL8)
  x = rank
  call kolo_allreduce(x, op, comm)
  call expect(all(x == last), 'the greatest')
  y = rank
  call kolo_allreduce(y, op, comm, ierror)
  call other_type('in the short form')
  call kolo_allreduce(y, y, 700, KOLO_REAL4, op, comm, ierror)
  call other_type('in the explicit form')
  counts = 1
  if (nranks <= 4) then
    call kolo_reduce_scatterv(y(:nranks), y(:1), counts(:nranks), op, comm, ierror)
    call other_type('of blocks')
  end if
  call kolo_op_destroy(op, comm)
  ! The number of an operation that has ended may be that of a new one.
  call kolo_op_create(sums, .true., comm, op)
  z = (1, 2)
  call kolo_allreduce(z, op, comm)
  call expect(all(z == nranks * (1, 2)), 'sums of complex numbers')
  call kolo_op_destroy(op, comm)
  call kolo_op_create(outside, .false., comm, op)
  z = (1, 2)
  call kolo_allreduce(z, op, comm)
  call expect(all(z == (1, 2)), 'an external procedure')
  call kolo_op_destroy(op, comm)
  call finish(comm)
  if (rank == 0) print '(a)', 'made: ok'

contains

  subroutine refused(what)
    character(len=*), intent(in) :: what
    x = 5
    call kolo_allreduce(x, op, comm, ierror)
    call expect_error(ierror, &
      [character(14) :: 'kolo_allreduce', 'assumed shape', 'a(n), or a(*)'], what)
    call expect(all(x == 5), what//': nothing is touched')
    call kolo_op_destroy(op, comm)
  end subroutine refused

  subroutine other_type(what)
    character(len=*), intent(in) :: what
    call expect_error(ierror, &
      [character(26) :: 'was made for KOLO_REAL8', 'the arrays are KOLO_REAL4'], what)
  end subroutine other_type
end program made

subroutine outside(in, inout, n, datatype)
  implicit none
  integer, intent(in) :: n, datatype
  complex(8), intent(in) :: in(n)
  complex(8), intent(inout) :: inout(n)
  inout = in
  if (datatype < 0) error stop
end subroutine outside
