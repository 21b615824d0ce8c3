!> Exact sums: every kind and rank, sections, masks, and the same bits for all numbers of ranks.
program exact
  use, intrinsic :: iso_fortran_env, only: int64, real32, real64
  use, intrinsic :: ieee_arithmetic, only: ieee_is_nan, ieee_value, ieee_positive_inf
  use kolo
  use start
  use checks
  implicit none

  integer :: i, ierror
  call begin(comm)
  call know_ranks()
  call distributed()
  call ranks_and_kinds()
  call masks()
  call special()
  call reductions()
  call wrong()
  if (rank == 0) print '(a)', 'exact: ok'
  call finish(comm)

contains

  !> An array whose plain sum depends on the order, shared out: the sum has known bits.
  subroutine distributed()
    real(real64) :: whole(24), total
    real(real64), allocatable :: mine(:)
    whole = [(1e16_real64, 1.0_real64, -1e16_real64, 0.125_real64, i = 1, 6)]
    ! Rank r has every element with mod(i, nranks) = r; with four ranks each has one kind.
    mine = whole(rank + 1::nranks)
    total = kolo_sum_exact(mine, comm)
    call expect(transfer(total, 0_int64) == transfer(6.75_real64, 0_int64), 'the known sum')
    ! The same terms again, in sections with gaps and backwards.
    total = kolo_sum_exact(whole(24 - rank:1:-nranks), comm)
    call expect(transfer(total, 0_int64) == transfer(6.75_real64, 0_int64), 'backwards')
    ! Ranks with nothing.
    total = kolo_sum_exact(whole(1:merge(24, 0, rank == last)), comm)
    call expect(transfer(total, 0_int64) == transfer(6.75_real64, 0_int64), 'on the last rank only')
  end subroutine distributed

  subroutine ranks_and_kinds()
    real(real32) :: single, cube(3, 4, 5)
    real(real64) :: four(2, 3, 4, 5), plane(30, 40)
    complex(real32) :: c4(7)
    complex(real64) :: c8(2, 2), product_of_sums
    real(real64), allocatable :: some(:, :)
    single = 2.0**(-rank)
    call expect(kolo_sum_exact(single, comm) == sum([(2.0**(-i), i = 0, last)]), 'a scalar')
    cube = 0.5
    call expect(kolo_sum_exact(cube, comm) == 30 * nranks, 'rank 3, real(4)')
    call expect(kolo_sum_exact(cube(1:3:2, ::3, 5:1:-2), comm) == 6 * nranks, 'a section of rank 3')
    four = 1.25
    call expect(kolo_sum_exact(four, comm) == 150 * nranks, 'rank 4')
    call expect(kolo_sum_exact(four(2, :, 1:4:3, ::2), comm) == 22.5 * nranks, 'rank 4, with gaps')
    plane = reshape([(real(i, real64), i = 1, 1200)], shape(plane))
    call expect(kolo_sum_exact(plane, comm) == 720600.0_real64 * nranks, 'rank 2')
    call expect(kolo_sum_exact(plane(7, :), comm) == sum(plane(7, :)) * nranks, 'a row')
    call expect(kolo_sum_exact(plane(2:29, 2:39), comm) == sum(plane(2:29, 2:39)) * nranks, 'a box')
    c4 = [(cmplx(i, -rank), i = 1, 7)]
    call expect(kolo_sum_exact(c4, comm) == cmplx(28 * nranks, -7 * (nranks * last / 2.0)), &
      'complex(4)')
    c8 = (1e300_real64, -1.0_real64)
    c8(2, :) = (-1e300_real64, 0.25_real64)
    product_of_sums = kolo_sum_exact(c8, comm, ierror)
    call expect(ierror == KOLO_SUCCESS .and. product_of_sums == cmplx(0.0, -1.5 * nranks, real64), &
      'complex(8)')
    call expect(kolo_sum_exact(c8(1:1, :), comm) == cmplx(2e300_real64 * nranks, -2 * nranks, &
      real64), 'a section of complex(8)')
    allocate (some(0:2, -1:0))
    some = 0.1_real64
    call expect(kolo_sum_exact(some, comm) == kolo_sum_exact(reshape(some, [6]), comm), 'bounds')
  end subroutine ranks_and_kinds

  subroutine masks()
    real(real64) :: field(20, 30), wanted
    logical :: sea(20, 30)
    logical(1) :: small(30)
    logical(8) :: large(20, 30)
    integer :: y
    field = reshape([(0.5_real64 * mod(i * 7, 101), i = 1, 600)], shape(field))
    sea = field > 20
    wanted = sum(field, mask=sea) * nranks
    call expect(kolo_sum_exact(field, sea, comm) == wanted, 'a mask')
    large = sea
    call expect(kolo_sum_exact(field, large, comm) == wanted, 'a mask of logical(8)')
    small = [(mod(y, 3) == 0, y = 1, 30)]
    call expect(kolo_sum_exact(field(4, :), small, comm, ierror) == &
      nranks * sum(field(4, :), mask=mod([(y, y = 1, 30)], 3) == 0), 'a row, a mask of logical(1)')
    call expect(kolo_sum_exact(field(::2, 30:1:-1), sea(::2, 30:1:-1), comm) == &
      nranks * sum(field(::2, :), mask=sea(::2, :)), 'sections of both')
    call expect(kolo_sum_exact(field, .true., comm) == sum(field) * nranks, 'a scalar mask')
    call expect(kolo_sum_exact(field, .false., comm) == 0, 'nothing')
    call expect(kolo_sum_exact(field, field > 1e9, comm) == 0, 'an expression')
    field(3, 3) = ieee_value(field(3, 3), ieee_positive_inf)
    sea(3, 3) = .false.
    call expect(kolo_sum_exact(field, sea, comm) < 1e9, 'what is masked does not count')
    ! Many elements, rows of a halo, against the unmasked sum of the compressed array.
    call expect(kolo_sum_exact(field(2:19, :), sea(2:19, :), comm) == &
      kolo_sum_exact(pack(field(2:19, :), sea(2:19, :)), comm), 'pack')
  end subroutine masks

  subroutine special()
    real(real64) :: x(2)
    x = [huge(x), -huge(x)]
    call expect(kolo_sum_exact(x, comm) == 0, 'overflow on the way')
    call expect(kolo_sum_exact(x(1), comm) > huge(x) .or. nranks == 1, 'overflow at the end')
    x(1) = ieee_value(x(1), ieee_positive_inf)
    call expect(kolo_sum_exact(x, comm) > huge(x), 'infinity')
    if (rank == last) x(2) = -x(1)
    call expect(ieee_is_nan(kolo_sum_exact(x, comm)), 'both infinities')
    x = -0.0_real64
    call expect(sign(1.0_real64, kolo_sum_exact(x, comm)) < 0, 'minus zero')
  end subroutine special

  subroutine reductions()
    real(real64) :: a(100), b(100)
    complex(real32) :: c(20)
    a = merge(1e20_real64, merge(-1e20_real64, 0.0_real64, rank == last), rank == 0)
    if (nranks == 1) a = 0
    b = -7
    call kolo_allreduce(a, b, KOLO_EXACT_SUM, comm)
    call expect(all(b == 0), 'a vector')
    a = 0.1_real64
    call kolo_reduce(a, b, 100, KOLO_REAL8, KOLO_EXACT_SUM, last, comm)
    if (rank == last) call expect(all(b == nranks * 0.1_real64), 'reduce')
    if (rank /= last) call expect(all(b == 0), 'reduce elsewhere')
    c = cmplx(0.5, rank)
    call kolo_allreduce(c(20:1:-2), KOLO_EXACT_SUM, comm)
    call expect(all(c(2:20:2) == cmplx(0.5 * nranks, nranks * last / 2.0)), 'complex')
    call expect(all(c(1:20:2) == cmplx(0.5, rank)), 'gaps stay')
  end subroutine reductions

  subroutine wrong()
    real(real64) :: a(4), total
    integer :: whole(4)
    logical :: few(3), flat(2, 2)
    type(kolo_comm) :: none
    a = 1; whole = 1; few = .true.; flat = .true.
    call kolo_allreduce(whole, KOLO_EXACT_SUM, comm, ierror)
    call expect_error(ierror, ['integer(4)', 'exact sum '], 'integers')
    total = kolo_sum_exact(a, whole, comm, ierror)
    call expect_error(ierror, ['mask is integer(4)'], 'a mask of numbers')
    call expect(ieee_is_nan(total), 'no sum')
    total = kolo_sum_exact(a, few, comm, ierror)
    call expect_error(ierror, ['dimension 1', '3 elements '], 'a short mask')
    total = kolo_sum_exact(a, flat, comm, ierror)
    call expect_error(ierror, ['rank 2'], 'a mask of another rank')
    total = kolo_sum_exact(a, none, ierror)
    call expect(ierror == KOLO_INVALID_ARGUMENT, 'no communicator')
    call kolo_group_start()
    total = kolo_sum_exact(a, comm, ierror)
    call expect_error(ierror, ['group'], 'a sum in a group')
    call kolo_group_end(ierror)
    call expect(ierror == KOLO_INVALID_USAGE, 'its group')
  end subroutine wrong

end program exact
