!> Types that are not plain numbers, their operations, and operations of the program.
module operations
  use, intrinsic :: iso_c_binding
  implicit none
contains
  !> Maps x -> a x + b as complex numbers (a, b): they do not commute.
  subroutine compose(in, inout, n, datatype)
    integer, intent(in) :: n, datatype
    complex(8), intent(in) :: in(n)
    complex(8), intent(inout) :: inout(n)
    integer :: i
    if (datatype /= 17) error stop 'the data type is not KOLO_COMPLEX16'
    do i = 1, n
      inout(i) = then(in(i), inout(i))
    end do
  end subroutine compose

  pure complex(8) function then(first, second)
    complex(8), intent(in) :: first, second
    then = cmplx(real(first) * real(second), aimag(first) * real(second) + aimag(second), 8)
  end function then

  !> The larger in absolute value, with the C interface.
  subroutine largest(in, inout, n, datatype, context) bind(C)
    type(c_ptr), value :: in, inout, context
    integer(c_size_t), value :: n
    integer(c_int), value :: datatype
    real(8), pointer :: a(:), b(:)
    if (datatype /= 8 .or. c_associated(context)) error stop 'wrong arguments of largest'
    call c_f_pointer(in, a, [n])
    call c_f_pointer(inout, b, [n])
    where (abs(a) > abs(b)) b = a
  end subroutine largest
end module operations

program types
  use, intrinsic :: iso_c_binding
  use kolo
  use start
  use checks
  use operations
  implicit none
  type, bind(C) :: double_int
    real(c_double) :: value
    integer(c_int) :: index
  end type double_int
  integer :: i

  call begin(comm)
  call know_ranks()
  call complex_numbers()
  call logicals()
  call bits_and_characters()
  call locations()
  call own_operations()
  if (rank == 0) print '(a)', 'types: ok'
  call finish(comm)

contains

  subroutine complex_numbers()
    complex(4) :: z(3, 2)
    complex(8) :: w, total
    integer :: ierror
    z = cmplx(0, 1)
    call kolo_allreduce(z, KOLO_PROD, comm)
    call expect(all(z == cmplx(0, 1)**nranks), 'complex product')
    w = cmplx(rank + 1, -rank, 8)
    call kolo_reduce(w, total, KOLO_SUM, last, comm)
    if (rank == last) call expect(total == cmplx(nranks * (nranks + 1) / 2, &
      -nranks * (nranks - 1) / 2, 8), 'complex sum')
    call kolo_allreduce(KOLO_IN_PLACE, w, 1, KOLO_DOUBLE_COMPLEX, KOLO_PROD, comm, ierror)
    call expect(ierror == KOLO_SUCCESS, 'complex product, explicit')
  end subroutine complex_numbers

  subroutine logicals()
    logical(1) :: l1(2, 3)
    logical(2) :: l2
    logical(4) :: mask(4), answer(4)
    logical(8) :: l8(5)
    integer :: bits(4)
    l1 = rank == 0; l2 = rank /= last; l8 = .true.
    l8(2) = rank /= 0
    call kolo_allreduce(l1, KOLO_LOR, comm)
    call expect(logical(all(l1)), 'any, logical(1)')
    call kolo_allreduce(l2, KOLO_LAND, comm)
    call expect(logical(.not. l2), 'all, logical(2)')
    call kolo_allreduce(l8, KOLO_LAND, comm)
    call expect(logical(all(l8([1, 3, 4, 5])) .and. .not. l8(2)), 'all, logical(8)')
    mask = [.true., .false., rank == 0, rank /= 0]
    call kolo_allreduce(mask, answer, KOLO_LXOR, comm)
    call expect(answer(1) .eqv. mod(nranks, 2) == 1, 'parity')
    call expect(.not. answer(2) .and. answer(3), 'parity of few')
    ! The compiler's own .true. comes back, bit by bit.
    call kolo_allreduce(mask, answer, KOLO_LOR, comm)
    call expect(transfer(answer(1), 1) == transfer(.true., 1), 'the bits of .true.')
    call expect(transfer(answer(2), 1) == transfer(.false., 1), 'the bits of .false.')
    ! Any value but 0 is true: what other languages write.
    bits = [-1, 2, 255, 0]
    answer = transfer(bits, answer)
    call kolo_allreduce(answer, KOLO_LOR, comm)
    if (nranks > 1) call expect(all(transfer(answer(1:3), [1]) == transfer(.true., 1)), 'true')
    call expect(transfer(answer(4), 1) == 0, 'false')
    call kolo_allreduce(mask(1:3:2), answer(2:4:2), KOLO_LAND, comm)
    call expect(answer(2) .and. (answer(4) .eqv. nranks == 1), 'sections')
    call kolo_allreduce(KOLO_IN_PLACE, mask, 4, KOLO_LOGICAL, KOLO_LOR, comm)
    call expect(mask(1) .and. .not. mask(2) .and. mask(3), 'explicit')
  end subroutine logicals

  subroutine bits_and_characters()
    integer :: flags
    character(len=3) :: word(2), least(2)
    flags = ibset(0, mod(rank, 30))
    call kolo_allreduce(flags, KOLO_BOR, comm)
    call expect(popcnt(flags) == nranks, 'bits')
    call kolo_allreduce(flags, KOLO_BXOR, comm)
    call expect(flags == 0 .or. mod(nranks, 2) == 1, 'exclusive or')
    word = ['mno', 'xyz']
    if (rank == 0) word(1) = 'zab'
    call kolo_allreduce(word, least, KOLO_MIN, comm)
    if (nranks > 1) call expect(least(1) == 'mab' .and. least(2) == 'xyz', 'characters, one by one')
    call kolo_bcast(word(1), 0, comm)
    call expect(word(1) == 'zab', 'a character of rank 0')
  end subroutine bits_and_characters

  subroutine locations()
    real(4) :: a(2, 3), most(2, 3)
    real(8) :: b(2)
    integer :: c(2), ierror
    type(double_int) :: pair(2), found(2)
    a(1, :) = [real(rank), -real(rank), 5.0]
    a(2, :) = rank
    call kolo_allreduce(a, most, KOLO_MAXLOC, comm)
    call expect(all(most(1, :) == [real(last), 0.0, 5.0]), 'the largest')
    call expect(all(most(2, :) == [real(last), 0.0, 0.0]), 'where; the first of equal ones')
    b = [real(mod(rank, 2), 8), real(rank, 8)]
    call kolo_allreduce(b, KOLO_MINLOC, comm)
    call expect(all(b == 0), 'the smallest')
    c = [7, 100 - rank]
    call kolo_allreduce(KOLO_IN_PLACE, c, 1, KOLO_2INTEGER, KOLO_MINLOC, comm)
    call expect(all(c == [7, 100 - last]), 'KOLO_2INTEGER')
    pair = double_int(real(rank, 8), rank)
    pair(2)%value = -pair(2)%value
    call kolo_allreduce(pair, found, 2, KOLO_DOUBLE_INT, KOLO_MAXLOC, comm, ierror)
    call expect(ierror == KOLO_SUCCESS, 'KOLO_DOUBLE_INT')
    call expect(found(1)%value == last .and. found(1)%index == last, 'a pair of C')
    call expect(found(2)%index == 0, 'a pair of C, negative')
    call kolo_allreduce(a(1, :), KOLO_MAXLOC, comm, ierror)
    call expect_error(ierror, ['pairs       ', 'first extent'], 'no pairs')
    call kolo_allreduce(a, KOLO_LAND, comm, ierror)
    call expect_error(ierror, ['real(4) ', 'KOLO_SUM'], 'truth of reals')
  end subroutine locations

  subroutine own_operations()
    complex(8), allocatable :: maps(:), result(:)
    complex(8) :: wanted
    real(8) :: x(3)
    real(4) :: y(3)
    type(kolo_op) :: op
    integer :: n, r, ierror
    call kolo_op_create(compose, .false., comm, op)
    maps = [(map(rank, i), i = 1, 20000)]
    allocate (result(size(maps)))
    do n = 1, size(maps), size(maps) - 1
      result = -1
      call kolo_allreduce(maps(1:n), result(1:n), op, comm)
      do i = 1, n
        wanted = map(0, i)
        do r = 1, last
          wanted = then(wanted, map(r, i))
        end do
        call expect(result(i) == wanted, 'order of ranks')
      end do
    end do
    call kolo_op_destroy(op, comm)
    call kolo_allreduce(maps, op, comm, ierror)
    call expect_error(ierror, ['not a reduction'], 'a destroyed operation')
    call kolo_op_create(c_funloc(largest), .true., comm, op)
    x = [1, -rank, rank]
    call kolo_allreduce(x, op, comm)
    call expect(all(abs(x) == [1, last, last]), 'a function with the C interface')
    call kolo_op_destroy(op, comm)
    call kolo_op_create(c_funloc(largest), .true., comm, op, KOLO_REAL8)
    x = [1, -rank, rank]
    call kolo_allreduce(x, op, comm)
    call expect(all(abs(x) == [1, last, last]), 'a function with the C interface of a type')
    y = rank
    call kolo_allreduce(y, op, comm, ierror)
    call expect_error(ierror, ['was made for real(8), not real(4)'], 'a function of another type')
    call expect(all(y == rank), 'a refused call')
    call kolo_op_destroy(op, comm)
  end subroutine own_operations

  pure complex(8) function map(r, i)
    integer, intent(in) :: r, i
    map = cmplx(1 + mod(r + i, 3), mod(r * 7 + i, 11), 8)
  end function map

end program types
