!> All-reduce, reduce and reduce-scatter: every type, rank, form and shape.
program reductions
  use, intrinsic :: iso_fortran_env, only: int8, int16, int32, int64, real32, real64
  use kolo
  use start
  use checks
  implicit none

  integer :: i
  call begin(comm)
  call know_ranks()
  call scalars_of_all_types()
  call ranks_of_arrays()
  call operations()
  call sections()
  call pointers_and_empty()
  call explicit_forms()
  call rooted()
  call scattered()
  if (rank == 0) print '(a)', 'reductions: ok'
  call finish(comm)

contains

  subroutine scalars_of_all_types()
    integer(int8) :: i1
    integer(int32) :: i4
    integer(int64) :: i8
    real(real32) :: r4
    real(real64) :: r8
    complex(real32) :: c4
    complex(real64) :: c8, c8_out
    integer :: ierror
    i1 = int(rank + 1, int8); i4 = rank + 1; i8 = (rank + 1) * 10000000000_int64
    r4 = rank + 0.5; r8 = rank + 0.25d0
    c4 = cmplx(rank, -rank); c8 = cmplx(rank + 1, 10 * rank, real64); c8_out = -1
    call kolo_allreduce(i1, KOLO_SUM, comm)
    call kolo_allreduce(i4, KOLO_SUM, comm, ierror)
    call expect(ierror == KOLO_SUCCESS, 'ierror of a call that works')
    call kolo_allreduce(i8, KOLO_SUM, comm)
    call kolo_allreduce(r4, KOLO_SUM, comm)
    call kolo_allreduce(r8, KOLO_SUM, comm)
    call kolo_allreduce(c4, KOLO_SUM, comm)
    call kolo_allreduce(c8, c8_out, KOLO_SUM, comm, ierror=ierror)
    i = nranks * (nranks + 1) / 2
    call expect(i1 == i .and. i4 == i .and. i8 == i * 10000000000_int64, 'integer scalars')
    i = nranks * (nranks - 1) / 2
    call expect(r4 == i + 0.5 * nranks .and. r8 == i + 0.25d0 * nranks, 'real scalars')
    call expect(c4 == cmplx(i, -i), 'complex(4)')
    call expect(c8_out == cmplx(i + nranks, 10 * i, real64), 'complex(8)')
    call expect(c8 == cmplx(rank + 1, 10 * rank, real64), 'the send buffer stays')
    call kolo_allreduce(c4, KOLO_AVG, comm)
    call expect(abs(c4 - cmplx(i, -i)) < 1e-5 * nranks * max(1, i), 'complex average')
  end subroutine scalars_of_all_types

  subroutine ranks_of_arrays()
    real(real64) :: a1(30), a2(5, 6), a3(3, 2, 5), a4(2, 3, 1, 5)
    real(real64) :: b1(30), b2(5, 6), b3(3, 2, 5), b4(2, 3, 1, 5), sums(30)
    a1 = [(val(rank, i), i = 1, 30)]
    sums = [(total(i), i = 1, 30)]
    a2 = reshape(a1, shape(a2)); a3 = reshape(a1, shape(a3)); a4 = reshape(a1, shape(a4))
    b1 = -1; b2 = -1; b3 = -1; b4 = -1
    call kolo_allreduce(a1, b1, KOLO_SUM, comm)
    call kolo_allreduce(a2, b2, KOLO_SUM, comm)
    call kolo_allreduce(a3, b3, KOLO_SUM, comm)
    call kolo_allreduce(a4, b4, KOLO_SUM, comm)
    call expect(all(b1 == sums), 'rank 1')
    call expect(all(b2 == reshape(sums, shape(b2))), 'rank 2')
    call expect(all(b3 == reshape(sums, shape(b3))), 'rank 3')
    call expect(all(b4 == reshape(sums, shape(b4))), 'rank 4')
    call kolo_allreduce(a3, KOLO_SUM, comm)
    call expect(all(a3 == b3), 'rank 3 in place')
    ! Different shapes of the same size, and an expression as send buffer.
    b2 = -1
    call kolo_allreduce(2 * a1, b2, KOLO_SUM, comm)
    call expect(all(b2 == reshape(2 * sums, shape(b2))), 'an expression')
  end subroutine ranks_of_arrays

  subroutine operations()
    integer(int64) :: x(3), y(3)
    real(real64) :: a
    x = [rank + 1, -rank, 7]
    y = -99
    call kolo_allreduce(x, y, KOLO_PROD, comm)
    call expect(y(1) == product([(int(i, int64), i = 1, nranks)]), 'product')
    call kolo_allreduce(x, y, KOLO_MAX, comm)
    call expect(all(y == [nranks, 0, 7]), 'maximum')
    call kolo_allreduce(x, y, KOLO_MIN, comm)
    call expect(all(y == [1, -last, 7]), 'minimum')
    a = 4 * rank
    call kolo_allreduce(a, KOLO_AVG, comm)
    call expect(abs(a - 2 * last) < 1e-12, 'average')
  end subroutine operations

  subroutine sections()
    integer :: m(4, 5, 6), before(4, 5, 6), line(10), out(2, 5, 6), back(10)
    m = reshape([(val(rank, i), i = 1, size(m))], shape(m))
    before = m
    call kolo_allreduce(m(1:4:2, :, 2:6:3), KOLO_SUM, comm)
    do i = 1, size(m)
      associate (x => 1 + mod(i - 1, 4), y => 1 + mod((i - 1) / 4, 5), z => 1 + (i - 1) / 20)
        if (mod(x, 2) == 1 .and. mod(z, 3) == 2) then
          call expect(m(x, y, z) == total(i), 'inside the section')
        else
          call expect(m(x, y, z) == before(x, y, z), 'the gaps stay')
        end if
      end associate
    end do
    m = before
    out = -1
    call kolo_allreduce(m(2:4:2, :, :), out, KOLO_MAX, comm)
    call expect(out(1, 1, 1) == val(last, 2) .and. out(2, 5, 6) == val(last, 120), 'gaps to none')
    m = -1
    call kolo_allreduce(out, m(2:4:2, :, :), KOLO_MIN, comm)
    call expect(all(m(2:4:2, :, :) == out) .and. all(m(1:3:2, :, :) == -1), 'none to gaps')
    line = [(val(rank, i), i = 1, 10)]
    back = -1
    call kolo_allreduce(line(10:1:-1), back, KOLO_SUM, comm)
    call expect(all(back == [(total(i), i = 10, 1, -1)]), 'backwards')
    call kolo_allreduce(line(10:1:-3), line(1:7:2), KOLO_MAX, comm)
    call expect(line(1) == val(last, 10) .and. line(2) == val(rank, 2), 'both with gaps')
  end subroutine sections

  subroutine pointers_and_empty()
    real(real32), target :: field(20)
    real(real32), pointer :: every_third(:)
    real(real64), allocatable :: none(:), some(:, :)
    field = [(val(rank, i), i = 1, 20)]
    every_third => field(2:20:3)
    call kolo_allreduce(every_third, KOLO_SUM, comm)
    call expect(all(every_third == [(total(i), i = 2, 20, 3)]), 'a pointer with gaps')
    call expect(field(3) == val(rank, 3), 'beside the pointer')
    allocate (none(0), some(0:2, -1:1))
    call kolo_allreduce(none, KOLO_SUM, comm)
    some = rank
    call kolo_allreduce(some, KOLO_SUM, comm)
    call expect(all(some == nranks * (nranks - 1) / 2), 'an allocatable with its own bounds')
  end subroutine pointers_and_empty

  subroutine explicit_forms()
    real(real64) :: a(12), b(12), m(3, 4)
    complex(real64) :: c(2)
    integer :: ierror
    a = [(val(rank, i), i = 1, 12)]
    b = -1
    call old_code(a, b, 12)
    call expect(all(b == [(total(i), i = 1, 12)]), 'assumed-size')
    b = -1
    call kolo_allreduce(a(3), b(5), 4, KOLO_REAL8, KOLO_SUM, comm, ierror)
    call expect(ierror == KOLO_SUCCESS, 'ierror')
    call expect(all(b(5:8) == [(total(i), i = 3, 6)]), 'a(3), 4 elements')
    call expect(all(b([4, 9]) == -1), 'no more than 4 elements')
    call kolo_allreduce(KOLO_IN_PLACE, a, 12_int64, KOLO_DOUBLE_PRECISION, KOLO_MAX, comm)
    call expect(all(a == [(val(last, i), i = 1, 12)]), 'KOLO_IN_PLACE')
    m = reshape([(val(rank, i), i = 1, 12)], shape(m))
    b = -1
    call kolo_allreduce(m(1:3:2, :), b, 5, KOLO_REAL8, KOLO_SUM, comm)
    call expect(all(b(1:6) == [total(1), total(3), total(4), total(6), total(7), -1]), &
      'the first elements of a section')
    c = cmplx(rank, 1, real64)
    call kolo_allreduce(KOLO_IN_PLACE, c, 2, KOLO_COMPLEX16, KOLO_SUM, comm)
    call expect(all(c == cmplx(nranks * (nranks - 1) / 2, nranks, real64)), 'KOLO_COMPLEX16')
  end subroutine explicit_forms

  subroutine old_code(send, recv, n)
    integer, intent(in) :: n
    real(real64) :: send(*), recv(*)
    integer :: ierror
    call kolo_allreduce(send, recv, n, KOLO_REAL8, KOLO_SUM, comm, ierror)
    call expect(ierror == KOLO_SUCCESS, 'assumed-size ierror')
    ! A section has a size, so the short form takes it.
    call kolo_allreduce(send(1:n), recv(1:n), KOLO_SUM, comm)
  end subroutine old_code

  subroutine rooted()
    integer(int64) :: a(2, 3), b(2, 3), unused(1)
    a = reshape([(val(rank, i), i = 1, 6)], shape(a))
    b = -1
    call kolo_reduce(a, b, KOLO_SUM, last, comm)
    if (rank == last) then
      call expect(all(b == reshape([(total(i), i = 1, 6)], shape(b))), 'reduce')
    else
      call expect(all(b == -1), 'reduce elsewhere')
    end if
    unused = -1
    if (rank == 0) then
      call kolo_reduce(a(:, ::2), b(:, 1:2), KOLO_MAX, 0, comm)
      call expect(b(2, 2) == val(last, 6), 'reduce of a section')
    else
      call kolo_reduce(a(:, ::2), unused, KOLO_MAX, 0, comm)
    end if
    if (rank == last) then
      call kolo_reduce(KOLO_IN_PLACE, a, 6, KOLO_INTEGER8, KOLO_SUM, last, comm)
      call expect(all(a == reshape([(total(i), i = 1, 6)], shape(a))), 'reduce in place')
    else
      call kolo_reduce(a, unused, 6, KOLO_INTEGER8, KOLO_SUM, last, comm)
    end if
  end subroutine rooted

  subroutine scattered()
    real(real32), allocatable :: all_of(:, :)
    real(real32) :: mine(5)
    allocate (all_of(5, nranks))
    all_of = reshape([(val(rank, i), i = 1, 5 * nranks)], shape(all_of))
    mine = -1
    call kolo_reduce_scatter(all_of, mine, KOLO_SUM, comm)
    call expect(all(mine == [(total(5 * rank + i), i = 1, 5)]), 'reduce_scatter')
    mine = -1
    call kolo_reduce_scatter(all_of, mine, 5, KOLO_REAL4, KOLO_MAX, comm)
    call expect(all(mine == [(val(last, 5 * rank + i), i = 1, 5)]), 'reduce_scatter explicit')
    mine = -1
    call kolo_reduce_scatter(all_of(1:5:2, :), mine(1:5:2), KOLO_SUM, comm)
    call expect(mine(3) == total(5 * rank + 3) .and. mine(2) == -1, 'reduce_scatter of sections')
  end subroutine scattered

end program reductions
