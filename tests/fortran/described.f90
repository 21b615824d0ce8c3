!> Arrays that gfortran describes wrongly to C: those that an assignment of an intrinsic function
!! has allocated. Whatever the memory held must not become the distance of their elements.
module left
  use, intrinsic :: iso_fortran_env, only: compiler_version
  use kolo
  use checks
  implicit none
  type part
    real(8) :: x, y(3)
  end type part

contains

  !> Nothing is there, whatever the bounds say. To flang it is an array of size zero.
  subroutine absent()
    real(8), allocatable :: a(:)
    real(8), pointer :: p(:, :)
    integer :: ierror
    if (index(compiler_version(), 'GCC') == 0) return
    nullify (p)
    call kolo_allreduce(a, KOLO_SUM, comm, ierror)
    call expect_error(ierror, ['buf is not allocated'], 'an array that is not allocated')
    call kolo_bcast(p, 0, comm, ierror)
    call expect_error(ierror, ['not associated'], 'a pointer to nothing')
    call kolo_bcast(p, 4, KOLO_REAL8, 0, comm, ierror)
    call expect_error(ierror, ['not associated'], 'a pointer to nothing, explicitly')
  end subroutine absent

  !> Ranks may have nothing to add, and a sequence may begin at any element.
  subroutine empty_and_begun()
    real(8) :: h(5)
    integer(1) :: bytes(6), whole(4 * nranks)
    integer :: i, r
    h = [(mine(rank, i), i=1, 5)]
    call expect(kolo_sum_exact(pack(h, h < -1), comm) == 0, 'exact of nothing')
    call expect(kolo_sum_exact(pack(h, rank == 0 .and. h > -1), comm) == &
                sum([(mine(0, i), i=1, 5)]), 'exact of what rank 0 has')
    bytes = [(int(10 * rank + i, 1), i=1, 6)]
    whole = -1
    call kolo_allgather(bytes(2), 4, KOLO_BYTE, whole, 4, KOLO_BYTE, comm)
    call expect(all(whole == [((int(10 * r + i, 1), i=2, 5), r=0, last)]), &
                'bytes from the second on')
  end subroutine empty_and_begun

  !> Leaves a descriptor on the stack whose elements are `span` bytes apart, where the
  !! next one may lie; bounds that end before they begin for a negative one.
  subroutine leave(span)
    integer, intent(in) :: span
    integer(8) :: stack(400)
    integer :: i
    stack = span
    if (span < 0) stack = [(int(-i, 8), i=1, 400)]
    call keep(stack)
  end subroutine leave

  subroutine keep(stack)
    integer(8), intent(inout) :: stack(:)
    if (stack(1) == huge(0)) print *, stack
  end subroutine keep

  !> Element i of rank r.
  elemental real(8) function mine(r, i)
    integer, intent(in) :: r, i
    mine = val(r, i)
  end function mine

  subroutine sums(a, what)
    real(8), allocatable, intent(inout) :: a(:)
    character(len=*), intent(in) :: what
    integer :: i
    call kolo_allreduce(a, KOLO_SUM, comm)
    call expect(all(a == [(real(total(i), 8), i=1, size(a))]), 'allreduce of ' // what)
  end subroutine sums

  subroutine from_pack(n)
    integer, intent(in) :: n
    real(8), allocatable :: h(:), a(:), all(:), c(:), few(:), b(:)
    integer :: i, r
    allocate (h(n), source=[(mine(rank, i), i=1, n)])
    a = pack(h, h > -1)
    call expect(kolo_sum_exact(a, comm) == sum([(real(total(i), 8), i=1, n)]), 'exact of pack')
    call expect(kolo_sum_exact(a, a > -1, comm) == sum([(real(total(i), 8), i=1, n)]), 'mask')
    allocate (all(n * nranks), source=-1d0)
    call kolo_gather(a, all, last, comm)
    if (rank == last) &
      call expect(near(all, [((mine(r, i), i=1, n), r=0, last)]), 'gather of pack')
    all = -1
    call kolo_allgather(a(:), all, comm)
    call expect(near(all, [((mine(r, i), i=1, n), r=0, last)]), 'allgather of pack(:)')
    all = -1
    call kolo_gather(a, n, KOLO_REAL8, all, n, KOLO_REAL8, 0, comm)
    if (rank == 0) &
      call expect(near(all, [((mine(r, i), i=1, n), r=0, last)]), 'explicit gather of pack')
    b = pack(h, h > -1)
    call kolo_bcast(b, last, comm)
    call expect(near(b, [(mine(last, i), i=1, n)]), 'bcast of pack')
    c = pack(h, h > -1)
    call kolo_bcast(c(n:1:-2), last, comm)
    call expect(near(c(n:1:-2), [(mine(last, i), i=n, 1, -2)]), 'bcast backward')
    call expect(near(c(n - 1:1:-2), [(mine(rank, i), i=n - 1, 1, -2)]), 'between')
    few = pack(h, h > -1)
    call kolo_bcast(few(1:n:3), 0, comm)
    call expect(near(few(1:n:3), [(mine(0, i), i=1, n, 3)]), 'bcast with gaps')
    call expect(near(few(2:n:3), [(mine(rank, i), i=2, n, 3)]), 'gaps')
    call sums(a, 'pack')
  end subroutine from_pack

  logical function near(one, other)
    real(8), intent(in) :: one(:), other(:)
    near = size(one) == size(other)
    if (near) near = all(one == other)
  end function near

  subroutine from_reshape(n)
    integer, intent(in) :: n
    real(8), allocatable :: h(:, :), a(:), b(:, :)
    integer :: i
    allocate (h(n, n), source=reshape([(mine(rank, i), i=1, n * n)], [n, n]))
    a = reshape(h, [n * n])
    call sums(a, 'reshape')
    b = reshape([(mine(rank, i), i=1, n * n)], [n, n])
    call kolo_bcast(b, last, comm)
    call expect(near([b], [(mine(last, i), i=1, n * n)]), 'bcast of reshape')
  end subroutine from_reshape

  subroutine from_cshift(n)
    integer, intent(in) :: n
    real(8), allocatable :: h(:), a(:)
    integer :: i
    allocate (h(n), source=cshift([(mine(rank, i), i=1, n)], -1))
    a = cshift(h, 1)
    call sums(a, 'cshift')
  end subroutine from_cshift

  subroutine from_matrices(n)
    integer, intent(in) :: n
    real(8), allocatable :: h(:, :), one(:, :), m(:, :), t(:, :), s(:, :), row(:)
    real(8) :: want
    integer :: i
    allocate (h(n, n), source=reshape([(mine(rank, i), i=1, n * n)], [n, n]))
    allocate (one(n, n), source=0d0)
    do i = 1, n
      one(i, i) = 1
    end do
    want = sum([(real(total(i), 8), i=1, n * n)])
    m = matmul(h, one)
    call expect(kolo_sum_exact(m, comm) == want, 'exact of matmul')
    call kolo_allreduce(m, KOLO_SUM, comm)
    call expect(near([m], [(real(total(i), 8), i=1, n * n)]), 'allreduce of matmul')
    call kolo_allreduce(m(2, :), KOLO_MIN, comm)
    call expect(near([m], [(real(total(i), 8), i=1, n * n)]), 'allreduce of a row')
    t = transpose(h)
    call expect(kolo_sum_exact(t, comm) == want, 'exact of transpose')
    call kolo_allreduce(t, KOLO_SUM, comm)
    t = transpose(t)
    call expect(near([t], [(real(total(i), 8), i=1, n * n)]), 'allreduce of transpose')
    row = h(1, :)
    s = spread(row, 1, n)
    call kolo_bcast(s, 0, comm)
    call expect(near(s(n, :), [(mine(0, 1 + n * (i - 1)), i=1, n)]), 'bcast of spread')
  end subroutine from_matrices

  subroutine components(n)
    integer, intent(in) :: n
    type(part), target :: parts(n)
    complex(8), target :: z(n)
    real(8), pointer :: p(:)
    integer :: i
    parts%x = [(mine(rank, i), i=1, n)]
    p => parts%x
    call kolo_allreduce(parts%x, KOLO_SUM, comm)
    call expect(near(parts%x, [(real(total(i), 8), i=1, n)]), 'allreduce of components')
    parts%x = [(mine(rank, i), i=1, n)]
    do i = 1, 3
      parts%y(i) = -1
    end do
    call group_of(p)
    call expect(near(parts%x, [(real(total(i), 8), i=1, n)]), 'a pointer to components')
    call expect(all(parts%y(1) == -1) .and. all(parts%y(3) == -1), 'beside components')
    z = cmplx([(mine(rank, i), i=1, n)], 7, 8)
    p => z%re
    call group_of(p)
    call expect(near(real(z), [(real(total(i), 8), i=1, n)]) .and. all(aimag(z) == 7), 'z%re')
  end subroutine components

  !> Copies of the compiler end with the call, so calls that go on are refused.
  subroutine copies(n)
    integer, intent(in) :: n
    type(part), target :: parts(n)
    real(8) :: all(n * nranks)
    type(kolo_request) :: request
    integer :: ierror
    if (index(compiler_version(), 'GCC') == 0) return
    parts%x = 1
    call kolo_iallreduce(parts%x, KOLO_SUM, comm, request, ierror)
    call expect_error(ierror, ['kolo_iallreduce ', 'the argument buf', 'a copy          '], 'x')
    call kolo_group_start()
    call kolo_allgather(2 * parts(:)%x, all, comm, ierror)
    call expect_error(ierror, ['kolo_allgather   ', 'the argument send', 'a copy           '], 'x')
    call kolo_group_end(ierror)
    call expect(ierror == KOLO_INVALID_ARGUMENT, 'the group ran')
    call kolo_send(int(rank, 1), 0, comm, ierror)
    call expect_error(ierror, [character(40) :: 'integer(1), or a string'], 'a byte')
    call kolo_send('text', 0, comm, ierror)
    call expect_error(ierror, [character(40) :: 'integer(1), or a string'], 'a literal')
  end subroutine copies

  subroutine group_of(p)
    real(8), pointer, intent(in) :: p(:)
    call kolo_group_start()
    call kolo_allreduce(p, KOLO_SUM, comm)
    call kolo_group_end()
  end subroutine group_of

  !> Whole arrays are no copies, whatever their bounds are: a group may take them.
  subroutine bounds(n)
    integer, intent(in) :: n
    real(8), target :: whole(0:n), field(-1:n, 0:2)
    real(8), allocatable, target :: before(:), from_0(:), made(:)
    real(8), pointer :: p(:)
    integer :: i
    allocate (before(-3:-1), from_0(0:n), p(0:n))
    whole = [(mine(rank, i), i=0, n)]
    before(:) = [(mine(rank, i), i=-3, -1)]
    from_0(:) = whole
    p(:) = whole
    field = reshape([(mine(rank, i), i=1, 3 * (n + 2))], [n + 2, 3])
    made = pack(whole, whole > -1)
    call kolo_group_start()
    call kolo_allreduce(whole, KOLO_SUM, comm)
    call kolo_allreduce(before, KOLO_SUM, comm)
    call kolo_allreduce(from_0, KOLO_SUM, comm)
    call kolo_allreduce(p, KOLO_SUM, comm)
    call kolo_bcast(field, last, comm)
    call bounds_of_caller(made, 0, n)
    call kolo_group_end()
    call expect(near(whole, [(real(total(i), 8), i=0, n)]), 'bounds 0:n')
    call expect(near(from_0, whole) .and. near(p, whole), 'allocated from 0')
    call expect(near(before, [(real(total(i), 8), i=-3, -1)]), 'bounds -3:-1')
    call expect(lbound(before, 1) == -3 .and. ubound(before, 1) == -1, 'bounds are kept')
    call expect(near([field], [(mine(last, i), i=1, 3 * (n + 2))]), 'bounds of two dimensions')
    call expect(near(made, [(real(total(i), 8), i=0, n)]), 'bounds of an argument')
    deallocate (p)
  end subroutine bounds

  !> What is packed here has other bounds than where it was allocated.
  subroutine bounds_of_caller(a, from, to)
    integer, intent(in) :: from, to
    real(8), intent(inout) :: a(from:to)
    call kolo_allreduce(a, KOLO_SUM, comm)
  end subroutine bounds_of_caller

  !> Strings have a length of their own, also where they are a part of one.
  subroutine strings(n)
    integer, intent(in) :: n
    character(len=12) :: s
    character(len=3) :: a(4)
    s = repeat(achar(iachar('a') + rank), 12)
    call kolo_bcast(s(2:n - 1), last, comm)
    call expect(s == s(1:1) // repeat(achar(iachar('a') + last), n - 2) // &
      repeat(achar(iachar('a') + rank), 13 - n) .and. s(1:1) == achar(iachar('a') + rank), 'part')
    a = achar(iachar('a') + rank)
    call kolo_bcast(a(1:4:2), last, comm)
    call expect(a(3) == achar(iachar('a') + last) .and. a(2) == achar(iachar('a') + rank), 'array')
  end subroutine strings

end module left

program described
  use start
  use left
  implicit none
  integer :: spans(5) = [0, 4, 16, 24, 12345], i, n

  call begin(comm)
  call know_ranks()
  do i = 1, size(spans)
    do n = 5, 9, 2
      call leave(spans(i))
      call from_pack(n)
      call leave(spans(i))
      call from_reshape(n)
      call leave(spans(i))
      call from_cshift(n)
      call leave(spans(i))
      call from_matrices(n)
      call components(n)
      call leave(spans(i))
      call bounds(n)
      call strings(n)
    end do
    call copies(4)
    call leave(-1)
    call absent()
    call empty_and_begun()
  end do
  if (rank == 0) print '(a)', 'described: ok'
  call finish(comm)
end program described
