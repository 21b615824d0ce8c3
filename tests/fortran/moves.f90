!> Broadcast, gather, scatter, all-to-all, send and receive: every type and shape.
program moves
  use, intrinsic :: iso_c_binding, only: c_int, c_float
  use, intrinsic :: iso_fortran_env, only: int16, int64, real64
  use kolo
  use start
  use checks
  implicit none

  type, bind(C) :: settings_c
    integer(c_int) :: steps
    real(c_float) :: factors(3)
  end type settings_c
  type :: settings_f
    logical :: restart
    real(real64) :: length
    character(len=12) :: name
  end type settings_f

  integer :: i
  call begin(comm)
  call know_ranks()
  call broadcasts()
  call broadcast_explicit()
  call gathers()
  call gathers_explicit()
  call scatters()
  call transposition()
  call messages()
  call exchanges(4)
  call exchanges(60000)
  call halo()
  call splits()
  call streams()
  call kolo_barrier(comm)
  if (rank == 0) print '(a)', 'moves: ok'
  call finish(comm)

contains

  subroutine broadcasts()
    logical :: l, lines(7)
    logical(1) :: small(5)
    logical(8) :: wide
    character(len=80) :: name
    character(len=6) :: names(4)
    integer(int16) :: i2(3)
    integer, parameter :: quad = selected_real_kind(30)
    real(quad) :: r16
    type(settings_c) :: sc
    type(settings_f) :: sf(2)
    integer :: grid(6, 6)
    l = rank == 0; lines = rank == 0 .and. [(mod(i, 2) == 0, i = 1, 7)]
    small = rank == 0; wide = rank == 0
    name = merge('the ocean', 'nothing  ', rank == 0)
    call kolo_bcast(l, 0, comm)
    call kolo_bcast(lines, 0, comm)
    call kolo_bcast(small, 0, comm)
    call kolo_bcast(wide, 0, comm)
    call kolo_bcast(name, 0, comm)
    call expect(l .and. all(logical(small)) .and. logical(wide), 'logical')
    call expect(all(lines .eqv. [(mod(i, 2) == 0, i = 1, 7)]), 'logical array')
    call expect(name == 'the ocean', 'character')
    names = '......'
    if (rank == last) names = ['northX', 'eastXX', 'southX', 'westXX']
    call kolo_bcast(names, last, comm)
    call expect(names(3) == 'southX', 'character array')
    names = 'abcdef'
    if (rank == last) names = '123456'
    call kolo_bcast(names(2:4:2)(3:4), last, comm)
    call expect(names(1) == merge('123456', 'abcdef', rank == last), 'another element')
    call expect(names(2) == merge('123456', 'ab34ef', rank == last), 'substring section')
    i2 = merge(int([5, -7, 9], int16), 0_int16, rank == 0)
    r16 = merge(2.0_quad / 3.0_quad, 0.0_quad, rank == 0)
    call kolo_bcast(i2, 0, comm)
    call kolo_bcast(r16, 0, comm)
    call expect(all(i2 == [5, -7, 9]) .and. r16 == 2.0_quad / 3.0_quad, 'integer(2), real(16)')
    sc = settings_c(0, 0.0)
    sf = settings_f(.false., 0.0d0, '')
    if (rank == 0) sc = settings_c(42, [1.0, 2.0, 3.0])
    if (rank == 0) sf(2) = settings_f(.true., 2.5d0, 'restart')
    call kolo_bcast(sc, 0, comm)
    call kolo_bcast(sf, 0, comm)
    call expect(sc%steps == 42 .and. sc%factors(3) == 3.0, 'a bind(C) type')
    call expect(sf(2)%restart .and. sf(2)%length == 2.5d0 .and. sf(2)%name == 'restart', 'a type')
    grid = rank
    if (rank == last) grid = reshape([(i, i = 1, 36)], [6, 6])
    call kolo_bcast(grid(2:5, 3:6:2), last, comm)
    call expect(grid(2, 3) == 14 .and. grid(5, 5) == 29, 'broadcast of a section')
    call expect(grid(2, 4) == merge(20, rank, rank == last), 'broadcast keeps the gaps')
  end subroutine broadcasts

  subroutine broadcast_explicit()
    integer :: a(10), ierror
    character(len=16) :: word
    logical :: flags(3)
    a = merge([(i, i = 1, 10)], 0, rank == 0)
    call kolo_bcast(a(4), 3, KOLO_INTEGER, 0, comm, ierror)
    call expect(ierror == KOLO_SUCCESS .and. all(a(4:6) == [4, 5, 6]), 'bcast explicit')
    call expect(a(7) == merge(7, 0, rank == 0), 'bcast of no more')
    word = merge('0123456789abcdef', '................', rank == 0)
    call kolo_bcast(word, 10_int64, KOLO_CHARACTER, 0, comm)
    call expect(word(1:10) == '0123456789', 'characters explicit')
    call expect(rank == 0 .or. word(11:16) == '......', 'no more characters')
    flags = rank == 0
    call kolo_bcast(flags, 3, KOLO_LOGICAL, 0, comm, ierror)
    call expect(all(flags), 'logical explicit')
  end subroutine broadcast_explicit

  subroutine gathers()
    real(real64) :: mine(2, 3)
    real(real64), allocatable :: all_of(:, :, :), gaps(:, :)
    character(len=4) :: word, words(nranks)
    integer :: unused(1)
    mine = reshape([(val(rank, i), i = 1, 6)], shape(mine))
    allocate (all_of(2, 3, nranks), gaps(4, 3 * nranks))
    all_of = -1
    call kolo_allgather(mine, all_of, comm)
    do i = 0, last
      call expect(all_of(2, 3, i + 1) == val(i, 6) .and. all_of(1, 1, i + 1) == val(i, 1), &
        'allgather')
    end do
    gaps = -1
    call kolo_allgather(mine, gaps(1:3:2, :), comm)
    call expect(gaps(3, 3 * nranks) == val(last, 6) .and. all(gaps(2:4:2, :) == -1), &
      'allgather to a section')
    write (word, '(a,i0)') 'r', rank
    words = '????'
    call kolo_gather(word, words, last, comm)
    if (rank == last) then
      call expect(words(1) == 'r0' .and. words(nranks)(1:1) == 'r', 'gather of characters')
    else
      call expect(words(1) == '????', 'gather elsewhere')
    end if
    all_of = -1
    if (rank == 0) then
      call kolo_gather(mine, all_of, 0, comm)
      call expect(all_of(2, 3, nranks) == val(last, 6), 'gather')
    else
      call kolo_gather(mine, unused, 0, comm)
    end if
  end subroutine gathers

  subroutine gathers_explicit()
    integer(int64) :: a(3)
    integer(int64), allocatable :: b(:)
    integer :: ierror
    a = [(val(rank, i), i = 1, 3)]
    allocate (b(3 * nranks))
    b = -1
    call kolo_allgather(a, 3, KOLO_INTEGER8, b, 3, KOLO_INTEGER8, comm, ierror)
    call expect(b(3 * nranks) == val(last, 3) .and. ierror == 0, 'allgather explicit')
    b = -1
    b(3 * rank + 1:3 * rank + 3) = a
    call kolo_allgather(KOLO_IN_PLACE, 3, KOLO_INTEGER8, b, 3, KOLO_INTEGER8, comm)
    call expect(b(3 * nranks) == val(last, 3) .and. b(1) == val(0, 1), 'allgather in place')
    b = -1
    call kolo_gather(a, 3_int64, KOLO_INTEGER8, b, 3_int64, KOLO_INTEGER8, last, comm)
    call expect(b(2) == merge(val(0, 2), -1, rank == last), 'gather explicit')
  end subroutine gathers_explicit

  subroutine scatters()
    integer :: mine(4), all_of(4, nranks), unused(1)
    mine = -1
    all_of = reshape([(val(rank, i), i = 1, 4 * nranks)], shape(all_of))
    if (rank == 0) then
      call kolo_scatter(all_of, mine, 0, comm)
    else
      call kolo_scatter(unused, mine, 0, comm)
    end if
    call expect(all(mine == [(val(0, 4 * rank + i), i = 1, 4)]), 'scatter')
    mine = -1
    call kolo_scatter(all_of, 4, KOLO_INTEGER4, mine, 4, KOLO_INTEGER4, last, comm)
    call expect(all(mine == [(val(last, 4 * rank + i), i = 1, 4)]), 'scatter explicit')
    if (rank == last) then
      call kolo_scatter(all_of, 4, KOLO_INTEGER4, KOLO_IN_PLACE, 4, KOLO_INTEGER4, last, comm)
      call expect(all_of(1, 1) == val(rank, 1), 'scatter in place')
    else
      mine = -1
      call kolo_scatter(unused, 0, KOLO_INTEGER4, mine, 4, KOLO_INTEGER4, last, comm)
      call expect(mine(4) == val(last, 4 * rank + 4), 'scatter in place elsewhere')
    end if
  end subroutine scatters

  subroutine transposition()
    complex(real64) :: a(2, nranks), b(2, nranks)
    do i = 1, nranks
      a(:, i) = cmplx(rank, [i, -i], real64)
    end do
    b = -1
    call kolo_alltoall(a, b, comm)
    do i = 1, nranks
      call expect(all(b(:, i) == cmplx(i - 1, [rank + 1, -rank - 1], real64)), 'alltoall')
    end do
    b = -1
    call kolo_alltoall(a, 2, KOLO_COMPLEX16, b, 2, KOLO_COMPLEX16, comm)
    call expect(b(1, nranks) == cmplx(last, rank + 1, real64), 'alltoall explicit')
  end subroutine transposition

  subroutine messages()
    integer :: out(5), in(5), next, previous
    next = mod(rank + 1, nranks); previous = mod(rank + last, nranks)
    out = [(val(rank, i), i = 1, 5)]
    in = -1
    call kolo_group_start()
    call kolo_send(out, next, comm)
    call kolo_recv(in, previous, comm)
    call kolo_group_end()
    call expect(all(in == [(val(previous, i), i = 1, 5)]), 'send and receive')
    in = -1
    call kolo_group_start()
    call kolo_send(out(2), 3, KOLO_INTEGER, next, comm)
    call kolo_recv(in(2), 3, KOLO_INTEGER, previous, comm)
    call kolo_group_end(i)
    call expect(i == KOLO_SUCCESS, 'ierror of the group')
    call expect(all(in == [-1, val(previous, 2), val(previous, 3), val(previous, 4), -1]), &
      'send and receive explicit')
    if (nranks > 1 .and. rank < 2) then
      if (rank == 0) call kolo_send(out, 1, comm)
      if (rank == 1) call kolo_recv(in, 0, comm)
      if (rank == 1) call expect(in(5) == val(0, 5), 'blocking send and receive')
    end if
  end subroutine messages

  !> A shift up the line of ranks, whose ends have one neighbour, and one down with requests.
  subroutine exchanges(count)
    integer, intent(in) :: count
    integer, asynchronous, allocatable :: out(:), in(:, :)
    integer :: above, below, here, ierror, single
    real :: other(2)
    type(kolo_request) :: requests(2)
    type(kolo_stream) :: stream
    above = merge(rank + 1, nobody, rank < last)
    below = merge(rank - 1, nobody, rank > 0)
    here = merge(rank - 1, -2, rank > 0)
    allocate (out(count), in(count, 2))
    out = [(val(rank, i), i = 1, count)]
    in = -1; other = -1
    call kolo_sendrecv(out, above, in(:, 1), below, comm)
    call expect(all(in(:, 1) == merge([(val(here, i), i = 1, count)], -1, rank > 0)), 'sendrecv')
    call expect(all(in(:, 2) == -1), 'sendrecv of no more')
    in = -1
    call kolo_sendrecv(out, count, KOLO_INTEGER, above, in, int(count), KOLO_INTEGER, below, &
      comm, ierror)
    call expect(ierror == KOLO_SUCCESS .and. all(in(:, 1) == merge([(val(here, i), i = 1, count)], &
      -1, rank > 0)), 'sendrecv explicit')
    in = -1
    call kolo_sendrecv(out(1:4:3), above, in(2:3, 2), below, comm)
    call expect(all(in(2:3, 2) == merge([val(here, 1), val(here, 4)], -1, rank > 0)), 'sections')
    call expect(all(in(:, 1) == -1) .and. in(1, 2) == -1 .and. in(4, 2) == -1, 'gaps stay')
    in = -1
    call kolo_isendrecv(out, above, in(:, 1), below, comm, requests(1))
    call kolo_isendrecv(out, int(count, int64), KOLO_INTEGER, below, in(:, 2), &
      int(count, int64), KOLO_INTEGER, above, comm, requests(2))
    call kolo_waitall(requests)
    call expect(all(in(:, 1) == merge([(val(here, i), i = 1, count)], -1, rank > 0)), 'from below')
    call expect(all(in(:, 2) == merge([(val(rank + 1, i), i = 1, count)], -1, rank < last)), &
      'from above')
    in = -1
    call kolo_stream_create(stream)
    call kolo_sendrecv(out, rank, in(:, 2), rank, comm, stream)
    call kolo_stream_destroy(stream)
    call expect(all(in(:, 2) == out) .and. all(in(:, 1) == -1), 'sendrecv to oneself')
    single = -1
    call kolo_send(out, nobody, comm)
    call kolo_recv(single, KOLO_NO_RANK, comm)
    call kolo_recv(in(1:count:2, 1), nobody, comm)
    call expect(single == -1 .and. all(in(:, 1) == -1), 'nothing from nobody')
    call kolo_sendrecv(out, above, in(2, 2), -9, comm, ierror)
    call expect_error(ierror, ['kolo_sendrecv', 'peer -9      ', 'KOLO_NO_RANK '], 'no such rank')
    call kolo_sendrecv(out, above, other, below, comm, ierror)
    call expect_error(ierror, ['kolo_sendrecv', 'real(4)      '], 'two types')
    call kolo_sendrecv(out, 1, KOLO_INTEGER, above, in, 1, KOLO_REAL, below, comm, ierror)
    call expect_error(ierror, ['recvtype'], 'two types, explicit')
    call kolo_sendrecv(out, 1, KOLO_INTEGER, above, in, 2 * count + 1, KOLO_INTEGER, below, comm, &
      ierror)
    call expect_error(ierror, ['recv'], 'a count beyond the array')
  end subroutine exchanges

  !> The sides of a field: columns are contiguous, rows have gaps, and both go in one group.
  subroutine halo()
    real(real64) :: f(0:7, 0:5)
    integer :: next, previous
    next = mod(rank + 1, nranks); previous = mod(rank + last, nranks)
    f = -1
    f(1:6, 1:4) = reshape([(val(rank, i), i = 1, 24)], [6, 4])
    call kolo_group_start()
    call kolo_send(f(1:6, 4), next, comm)
    call kolo_recv(f(1:6, 0), previous, comm)
    call kolo_send(f(6, 1:4), next, comm)
    call kolo_recv(f(0, 1:4), previous, comm)
    call expect(f(0, 1) == -1, 'nothing arrives before the end of the group')
    call kolo_group_end()
    call expect(all(f(1:6, 0) == [(val(previous, i), i = 19, 24)]), 'a column')
    call expect(all(f(0, 1:4) == [(val(previous, i), i = 6, 24, 6)]), 'a row')
    call expect(all(f([0, 7], [0, 5]) == -1) .and. all(f(7, :) == -1), 'the corners stay')
  end subroutine halo

  subroutine splits()
    type(kolo_comm) :: half, none
    integer :: members, position
    call expect(kolo_comm_is_null(half), 'a fresh communicator is none')
    call kolo_comm_split(comm, mod(rank, 2), -rank, half)
    call kolo_comm_size(half, members)
    call kolo_comm_rank(half, position)
    call expect(members == (nranks + 1 - mod(rank, 2)) / 2, 'size of a part')
    call expect(position == members - 1 - rank / 2, 'order by key')
    members = 1
    call kolo_allreduce(members, KOLO_SUM, half)
    call expect(members == (nranks + 1 - mod(rank, 2)) / 2, 'a sum in a part')
    call kolo_comm_destroy(half)
    call expect(kolo_comm_is_null(half), 'destroyed is none')
    call kolo_comm_split(comm, merge(0, KOLO_UNDEFINED, rank == 0), 0, none)
    call expect(kolo_comm_is_null(none) .neqv. rank == 0, 'KOLO_UNDEFINED')
    if (rank == 0) call kolo_comm_destroy(none)
  end subroutine splits

  subroutine streams()
    type(kolo_stream) :: stream
    real(real64), asynchronous :: a(50), b(50), c(50)
    real(real64), asynchronous, allocatable :: all_of(:)
    integer :: ierror
    logical :: done
    allocate (all_of(50 * nranks))
    a = [(val(rank, i), i = 1, 50)]
    b = -1; c = a; all_of = -1
    call kolo_stream_create(stream)
    call kolo_allreduce(a, b, KOLO_SUM, comm, stream)
    call kolo_allreduce(c, KOLO_MAX, comm, stream, ierror)
    call kolo_allgather(a, all_of, comm, stream)
    call kolo_barrier(comm, stream)
    done = .false.
    do while (.not. done)
      call kolo_stream_query(stream, done)
    end do
    call kolo_stream_synchronize(stream)
    call expect(all(b == [(total(i), i = 1, 50)]) .and. ierror == 0, 'asynchronous sum')
    call expect(all(c == [(val(last, i), i = 1, 50)]), 'asynchronous maximum')
    call expect(all_of(50 * nranks) == val(last, 50), 'asynchronous allgather')
    call kolo_allreduce(a(1:50:2), KOLO_SUM, comm, stream, ierror)
    call expect_error(ierror, ['contiguous', 'stream    '], 'a section with a stream')
    call kolo_stream_destroy(stream)
    call kolo_bcast(a, 0, comm, stream, ierror)
    call expect_error(ierror, ['stream'], 'a destroyed stream')
  end subroutine streams

end program moves
