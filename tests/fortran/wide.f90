!> A program in default kinds only, for -fdefault-integer-8 and -fdefault-real-8: every call with
!! numbers, with and without ierror.
module operations
  implicit none
contains
  subroutine larger(in, inout, n, datatype)
    integer, intent(in) :: n, datatype
    real(8), intent(in) :: in(n)
    real(8), intent(inout) :: inout(n)
    integer :: i
    if (n < 0 .or. n > 100000 .or. datatype < 0 .or. datatype > 100) error stop 'n or datatype'
    do i = 1, n
      inout(i) = max(in(i), inout(i))
    end do
  end subroutine larger
end module operations

program wide
  use kolo
  use start
  use checks
  use operations
  implicit none
  integer :: ierror
  call begin(comm)
  call know_ranks()
  call basics()
  call messages()
  call blocks()
  call later()
  call made()
  call neighbours()
  call mistakes()
  call finish(comm)
  if (rank == 0) print '(a)', 'wide: ok'

contains

  subroutine basics()
    type(kolo_comm) :: half, none
    integer :: n, where, version
    real :: x
    logical :: flag
    call kolo_comm_rank(comm, n, ierror)
    call expect(ierror == KOLO_SUCCESS .and. n == rank, 'the rank')
    call kolo_comm_split(comm, modulo(rank, 2), -rank, half, ierror)
    call kolo_comm_rank(half, where)
    call kolo_comm_size(half, n)
    call expect(n == (nranks + 1 - modulo(rank, 2)) / 2, 'the size of a part')
    call expect(where == n - 1 - rank / 2, 'the rank in a part')
    call kolo_comm_split(comm, KOLO_UNDEFINED, rank, none)
    if (.not. kolo_comm_is_null(none)) call expect(.false., 'no part')
    call kolo_comm_destroy(half, ierror)
    n = rank + 1
    call kolo_allreduce(n, KOLO_SUM, comm)
    call kolo_allreduce(n, KOLO_MAX, comm, ierror)
    call expect(n == nranks * (nranks + 1) / 2, 'a sum of default integers')
    x = real(rank + 1)
    call kolo_allreduce(x, KOLO_SUM, comm, ierror)
    call expect(nint(x) == n, 'a sum of default reals')
    x = kolo_sum_exact(real(rank + 1), comm, ierror)
    call expect(nint(x) == n, 'an exact sum')
    flag = rank == last
    call kolo_allreduce(flag, KOLO_LOR, comm)
    call expect(flag, 'a default logical')
    n = merge(last, -7, rank == last)
    call kolo_bcast(n, last, comm)
    call kolo_bcast(n, last, comm, ierror)
    call expect(n == last, 'a broadcast')
    call kolo_reduce(rank, n, KOLO_MAX, 0, comm, ierror)
    if (rank == 0) call expect(n == last, 'a reduction to a root')
    call kolo_barrier(comm, ierror)
    call kolo_version(version)
    call expect(version >= 0 .and. version < 1000000, 'the version')
  end subroutine basics

  subroutine messages()
    integer :: left, right, got
    left = modulo(rank - 1, nranks)
    right = modulo(rank + 1, nranks)
    got = -1
    call kolo_sendrecv(rank, right, got, left, comm)
    call expect(got == left, 'a ring')
    got = -1
    call kolo_sendrecv(rank, right, got, left, comm, ierror)
    call expect(got == left, 'a ring with ierror')
    call kolo_sendrecv(rank, KOLO_NO_RANK, got, KOLO_NO_RANK, comm, ierror)
    call expect(ierror == KOLO_SUCCESS .and. got == left, 'nobody')
    if (nranks > 1 .and. rank == 0) call kolo_sendrecv(rank, last, got, KOLO_NO_RANK, comm)
    if (nranks > 1 .and. rank == last) call kolo_sendrecv(rank, KOLO_NO_RANK, got, 0, comm, ierror)
    if (rank == last .and. nranks > 1) call expect(got == 0, 'one neighbour')
    call kolo_group_start(ierror)
    call kolo_send(rank, right, comm)
    call kolo_recv(got, left, comm, ierror)
    call kolo_send(rank, KOLO_NO_RANK, comm, ierror)
    call kolo_group_end(ierror)
    call expect(got == left .and. ierror == KOLO_SUCCESS, 'a group')
  end subroutine messages

  subroutine blocks()
    integer :: counts(nranks), displs(nranks), i
    real(8) :: mine(rank + 1), whole(nranks * (nranks + 1) / 2), x(3), y(3), each(3 * nranks)
    counts = [(i, i = 1, nranks)]
    displs = [(i * (i - 1) / 2, i = 1, nranks)]
    mine = rank + 1
    whole = 0
    call kolo_allgatherv(mine, whole, counts, comm)
    call expect(nint(sum(whole)) == sum(counts**2), 'blocks')
    call kolo_allgatherv(mine, whole, counts, displs, comm, ierror)
    call kolo_gatherv(mine, whole, counts, 0, comm, ierror)
    call kolo_gatherv(mine, rank + 1, KOLO_REAL8, whole, counts, displs, KOLO_REAL8, 0, comm, &
      ierror)
    call expect(ierror == KOLO_SUCCESS .and. nint(sum(whole)) == sum(counts**2), 'blocks to a root')
    x = rank
    call kolo_allreduce(x, y, 3, KOLO_REAL8, KOLO_MAX, comm)
    call kolo_allreduce(x, y, 3, KOLO_REAL8, KOLO_MAX, comm, ierror)
    call expect(all(nint(y) == last), 'explicit, as in MPI')
    call kolo_bcast(y, 3, KOLO_REAL8, 0, comm, ierror)
    call kolo_gather(x, 3, KOLO_REAL8, each, 3, KOLO_REAL8, 0, comm, ierror)
    if (rank == 0) call expect(nint(sum(each)) == 3 * last * nranks / 2, 'an explicit gather')
  end subroutine blocks

  subroutine later()
    type(kolo_request) :: requests(2)
    type(kolo_stream) :: stream
    integer, asynchronous :: n, m
    logical :: done
    n = rank
    m = rank
    call kolo_iallreduce(n, KOLO_MAX, comm, requests(1), ierror)
    call kolo_ibcast(m, last, comm, requests(2), ierror)
    done = .false.
    do while (.not. done)
      call kolo_test(requests(1), done, ierror)
    end do
    call kolo_waitall(requests, ierror)
    call kolo_wait(requests(1), ierror)
    call expect(n == last .and. m == last, 'requests')
    call kolo_stream_create(stream, ierror)
    n = rank
    call kolo_allreduce(n, KOLO_MAX, comm, stream, ierror)
    done = .false.
    do while (.not. done)
      call kolo_stream_query(stream, done)
    end do
    call kolo_stream_synchronize(stream, ierror)
    call kolo_stream_destroy(stream, ierror)
    call expect(n == last, 'a stream')
  end subroutine later

  subroutine made()
    type(kolo_op) :: op
    real(8) :: x(1000)
    x = rank
    call kolo_op_create(larger, .true., comm, op)
    call kolo_allreduce(x, op, comm, ierror)
    call expect(all(nint(x) == last), 'an operation of the program')
    call kolo_op_destroy(op, comm, ierror)
    call kolo_op_create(larger, .true., comm, op, KOLO_REAL8, ierror)
    call kolo_allreduce(x, op, comm, ierror)
    call expect(all(nint(x) == last), 'one with a type')
    call kolo_op_destroy(op, comm)
  end subroutine made

  subroutine neighbours()
    type(kolo_graph) :: graph
    integer :: ins, outs, from(2), to(2), got(2)
    call kolo_cart_create(comm, [nranks], [.false.], graph, ierror)
    call kolo_graph_degrees(graph, ins, outs, ierror)
    call expect(ins == 2 .and. outs == 2, 'degrees')
    call kolo_graph_neighbors(graph, from, to, ierror)
    call expect(from(1) == rank - 1 .and. to(2) == merge(-1, rank + 1, rank == last), 'neighbours')
    got = -9
    call kolo_neighbor_allgather(rank, got, graph, ierror)
    call expect(got(1) == merge(-9, rank - 1, rank == 0), 'the one below')
    call kolo_graph_destroy(graph, ierror)
    call kolo_graph_create(comm, [modulo(rank - 1, nranks)], [modulo(rank + 1, nranks)], graph)
    call kolo_neighbor_alltoall([rank], got(:1), graph)
    call expect(got(1) == modulo(rank - 1, nranks), 'a ring as a graph')
    call kolo_graph_destroy(graph)
  end subroutine neighbours

  subroutine mistakes()
    integer :: n
    n = 0
    call kolo_bcast(n, nranks, comm, ierror)
    call expect_error(ierror, [character(8) :: 'root', 'Remedy'], 'a wrong root')
    if (storage_size(n) == 32) return
    ! Of this root the lower half is 0.
    call kolo_bcast(n, 2**(storage_size(n) / 2), comm, ierror)
    call expect_error(ierror, [character(8) :: 'root', 'Remedy'], 'a root beyond integer(4)')
    n = 5
    call kolo_allreduce(n, n, 1, KOLO_INTEGER, KOLO_SUM, comm, ierror)
    call expect_error(ierror, [character(10) :: 'KOLO_', 'integer(8)'], 'KOLO_INTEGER has 4 bytes')
  end subroutine mistakes
end program wide
