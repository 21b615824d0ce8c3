!> Scans, blocks of different sizes, neighbours, and asynchronous calls.
program blocks
  use, intrinsic :: iso_fortran_env, only: int64, real64
  use kolo
  use start
  use checks
  implicit none
  integer :: i, r
  integer, allocatable :: counts(:), displs(:)

  call begin(comm)
  call know_ranks()
  ! Rank r has r + 1 elements, rank 1 none; gaps of two between the blocks.
  counts = [(merge(0, i + 1, i == 1), i = 0, last)]
  displs = [(3 + sum(counts(1:i)) + 2 * i, i = 0, last)]
  call scans()
  call gathers()
  call exchanges()
  call neighbours()
  call requests()
  call errors()
  if (rank == 0) print '(a)', 'blocks: ok'
  call finish(comm)

contains

  subroutine scans()
    integer(int64) :: x(2, 2), y(2, 2)
    x = rank + 1
    y = -1
    call kolo_scan(x, y, KOLO_SUM, comm)
    call expect(all(y == (rank + 1) * (rank + 2) / 2), 'scan')
    y = -1
    call kolo_exscan(x, y, KOLO_SUM, comm)
    call expect(all(y == merge(-1, rank * (rank + 1) / 2, rank == 0)), 'exscan')
    call kolo_scan(KOLO_IN_PLACE, x, 4, KOLO_INTEGER8, KOLO_MAX, comm)
    call expect(all(x == rank + 1), 'scan in place')
    call kolo_scan(x(1, :), y(2, :), KOLO_SUM, comm)
    call expect(all(y(2, :) == (rank + 1) * (rank + 2) / 2), 'scan of sections')
  end subroutine scans

  subroutine gathers()
    real(real64), allocatable :: mine(:), all_of(:), packed(:), back(:)
    integer(int64), allocatable :: counts8(:)
    character(len=2), allocatable :: words(:), ours(:)
    allocate (all_of(60), packed(sum(counts)), back(counts(rank + 1)))
    mine = [(val(rank, i), i = 1, counts(rank + 1))]
    all_of = -1; packed = -1
    call kolo_allgatherv(mine, all_of, counts, displs, comm)
    do r = 0, last
      call expect(all(all_of(displs(r + 1) + 1:displs(r + 1) + counts(r + 1)) == &
        [(val(r, i), i = 1, counts(r + 1))]), 'allgatherv with displacements')
      call expect(all_of(displs(r + 1) + counts(r + 1) + 1) == -1, 'the gaps stay')
    end do
    counts8 = counts
    call kolo_allgatherv(mine, packed, counts8, comm)
    call expect(all(packed == [((val(r, i), i = 1, counts(r + 1)), r = 0, last)]), 'packed')
    all_of = -1
    call kolo_allgatherv(mine, counts(rank + 1), KOLO_REAL8, all_of, counts, displs, KOLO_REAL8, &
      comm)
    call expect(all_of(4) == val(0, 1), 'explicit')
    call kolo_allgatherv(KOLO_IN_PLACE, counts(rank + 1), KOLO_REAL8, all_of, counts, displs, &
      KOLO_REAL8, comm)
    call expect(all_of(4) == val(0, 1), 'in place')
    back = -1
    call kolo_scatterv(packed, counts, back, last, comm)
    call expect(all(back == mine), 'scatterv')
    back = -1
    call kolo_scatterv(all_of, counts, back, displs, 0, comm)
    call expect(all(back == mine), 'scatterv with displacements')
    packed = -1
    call kolo_gatherv(mine, packed, counts, last, comm)
    if (rank == last) then
      call expect(packed(sum(counts)) == val(last, counts(nranks)) .or. counts(nranks) == 0, &
        'gatherv')
    else
      call expect(all(packed == -1), 'gatherv elsewhere')
    end if
    packed = [(i, i = 1, sum(counts))]
    back = -1
    call kolo_reduce_scatterv(packed, back, counts, KOLO_SUM, comm)
    call expect(all(back == nranks * [(sum(counts(1:rank)) + i, i = 1, counts(rank + 1))]), &
      'reduce_scatterv')
    ! Counts are elements of the array, however long its characters are.
    allocate (words(sum(counts)), ours(counts(rank + 1)))
    ours = 'r' // achar(iachar('0') + rank)
    words = '??'
    call kolo_allgatherv(ours, words, counts, comm)
    do r = 0, last
      call expect(all(words(sum(counts(1:r)) + 1:sum(counts(1:r + 1))) == &
        'r' // achar(iachar('0') + r)), 'characters')
    end do
  end subroutine gathers

  subroutine exchanges()
    integer, allocatable :: send(:), recv(:), into(:), out(:), at(:)
    out = [(mod(rank + 2 * i, 3), i = 0, last)]
    into = [(mod(i + 2 * rank, 3), i = 0, last)]
    send = [((100 * rank + r, i = 1, out(r + 1)), r = 0, last)]
    allocate (recv(sum(into) + 1))
    recv = -1
    call kolo_alltoallv(send, out, recv, into, comm)
    call expect(all(recv(:sum(into)) == [((100 * r + rank, i = 1, into(r + 1)), r = 0, last)]), &
      'alltoallv')
    call expect(recv(sum(into) + 1) == -1, 'behind the blocks')
    at = [(sum(into(i + 1:)), i = 1, nranks)]
    recv = -1
    call kolo_alltoallv(send, out, [(sum(out(:i - 1)), i = 1, nranks)], KOLO_INTEGER, recv, into, &
      at, KOLO_INTEGER, comm)
    call expect(all(recv(at(1) + 1:at(1) + into(1)) == rank), 'explicit, backwards')
  end subroutine exchanges

  subroutine neighbours()
    type(kolo_graph) :: graph
    integer :: degrees(2), sources(2), destinations(2)
    real :: send(3, 2), recv(3, 2), both(3)
    integer :: next, prev
    call kolo_cart_create(comm, [nranks], [.false.], graph)
    call kolo_graph_degrees(graph, degrees(1), degrees(2))
    call kolo_graph_neighbors(graph, sources, destinations)
    call expect(all(degrees == 2) .and. all(sources == destinations), 'a symmetric graph')
    call expect(sources(1) == rank - 1, 'below')
    call expect(sources(2) == merge(KOLO_NO_RANK, rank + 1, rank == last), 'above')
    send(:, 1) = rank * 10; send(:, 2) = rank * 10 + 1
    recv = -1
    call kolo_neighbor_alltoall(send, recv, graph)
    call expect(all(recv(:, 1) == merge(-1, (rank - 1) * 10 + 1, rank == 0)), 'from below')
    call expect(all(recv(:, 2) == merge(-1, (rank + 1) * 10, rank == last)), 'from above')
    recv = -1
    call kolo_neighbor_allgather(send(:, 1), recv, graph)
    if (rank > 0) call expect(all(recv(:, 1) == (rank - 1) * 10), 'allgather from below')
    call kolo_graph_destroy(graph)
    next = modulo(rank + 1, nranks); prev = modulo(rank - 1, nranks)
    call kolo_graph_create(comm, [prev, prev], [next, next], graph)
    recv = -1
    call kolo_neighbor_alltoallv(send, [1, 2], recv, [1, 2], graph)
    call expect(all([recv(:, 1)] == prev * 10), 'two edges to the same rank')
    both = -1
    call kolo_neighbor_allgatherv(send(1:1, 2), both, [1, 1], [2, 0], graph)
    call expect(both(1) == prev * 10 + 1 .and. both(3) == both(1) .and. both(2) == -1, 'places')
    call kolo_neighbor_alltoall(send, 3, KOLO_REAL, recv, 3, KOLO_REAL, graph)
    call expect(all(recv(:, 2) == prev * 10 + 1), 'explicit')
    call kolo_graph_destroy(graph)
  end subroutine neighbours

  subroutine requests()
    real(real64), allocatable, asynchronous :: big(:), sums(:), got(:)
    integer, asynchronous :: small, each(nranks), from(nranks), prefix, all_of(sum(counts))
    integer, asynchronous :: mine(counts(rank + 1))
    type(kolo_request) :: request(7), one
    type(kolo_graph) :: graph
    logical :: done
    integer :: next, prev, ierror
    next = modulo(rank + 1, nranks); prev = modulo(rank - 1, nranks)
    allocate (big(40000), sums(40000), got(40000))
    big = rank; small = rank; each = [(100 * rank + r, r = 0, last)]; mine = rank
    call kolo_isend(big, next, comm, request(1))
    call kolo_irecv(got, prev, comm, request(2))
    call kolo_iallreduce(big, sums, KOLO_SUM, comm, request(3))
    call kolo_iallreduce(small, KOLO_SUM, comm, request(4), ierror)
    call expect(ierror == KOLO_SUCCESS, 'ierror of an asynchronous call')
    call kolo_ialltoall(each, from, comm, request(5))
    call kolo_iallgatherv(mine, all_of, counts, comm, request(6))
    call kolo_ibarrier(comm, request(7))
    call kolo_wait(request(3))
    call expect(all(sums == nranks * (nranks - 1) / 2), 'iallreduce')
    done = .false.
    do while (.not. done)
      call kolo_test(request(4), done)
    end do
    call expect(small == nranks * (nranks - 1) / 2, 'iallreduce in place')
    call kolo_waitall(request)
    call expect(all(got == prev) .and. all(from == [(100 * r + rank, r = 0, last)]), 'exchanges')
    call expect(all(all_of == [((r, i = 1, counts(r + 1)), r = 0, last)]), 'iallgatherv')
    prefix = rank
    call kolo_iscan(KOLO_IN_PLACE, prefix, 1, KOLO_INTEGER, KOLO_SUM, comm, one)
    call kolo_wait(one)
    call expect(prefix == rank * (rank + 1) / 2, 'iscan')
    call kolo_wait(one, ierror)
    call expect(ierror == KOLO_SUCCESS, 'a request that is none has ended')
    call kolo_graph_create(comm, [prev], [next], graph)
    call kolo_ineighbor_allgather(rank_in(), from(1:1), graph, one)
    call kolo_wait(one)
    call expect(from(1) == prev, 'ineighbor_allgather')
    call kolo_graph_destroy(graph)
    call kolo_iallreduce(big(1:100:3), KOLO_SUM, comm, one, ierror)
    call expect_error(ierror, ['not contiguous', 'request       '], 'a section with a request')
  end subroutine requests

  !> A pointer, so that the data outlives the call that begins.
  function rank_in() result(place)
    integer, pointer :: place(:)
    integer, target, save :: kept(1)
    kept = rank
    place => kept
  end function rank_in

  subroutine errors()
    real :: a(10), b(10)
    type(kolo_graph) :: graph
    integer :: ierror
    a = 0
    call kolo_allgatherv(a(1:1), b, [(1, i = 1, nranks - 1), -4], comm, ierror)
    call expect_error(ierror, ['recvcounts', 'negative  ', '(-4)      '], 'a negative count')
    call kolo_allgatherv(a(1:1), b, [integer ::], comm, ierror)
    call expect_error(ierror, ['recvcounts', 'each rank '], 'too few counts')
    call kolo_allgatherv(a(1:1), b, [(20, i = 1, nranks)], comm, ierror)
    call expect_error(ierror, ['recv has 10', 'end at     '], 'an array that is too small')
    call kolo_reduce_scatterv(a, b(1:2), [(1, i = 1, nranks)], KOLO_SUM, comm, ierror)
    call expect_error(ierror, ['recv has 2'], 'another size of the own block')
    call kolo_cart_create(comm, [nranks + 1], [.true.], graph, ierror)
    call expect_error(ierror, ['a grid of'], 'a grid that does not fit')
    call kolo_graph_create(comm, [nranks], [integer ::], graph, ierror)
    call expect_error(ierror, ['neighbour'], 'a neighbour that is none')
    call kolo_scan(a, b, KOLO_AVG, comm, ierror)
    call expect_error(ierror, ['no average'], 'an average of some')
  end subroutine errors

end program blocks
