!> What is sent may be a value and not a variable: groups, requests and streams send what it was
!! when they were called.
program values
  use, intrinsic :: iso_fortran_env, only: int32, int64, real32, real64
  use kolo
  use start
  use checks
  implicit none

  integer :: round
  call begin(comm)
  call know_ranks()
  do round = 1, 20
    call in_groups(round)
    call with_requests(round)
    call on_a_stream(round)
  end do
  call variables_in_place()
  call finish(comm)
  if (rank == 0) print '(a)', 'values: ok'

contains

  !> A scalar of this rank that differs by round and place.
  pure real(real64) function mine(round, place)
    integer, intent(in) :: round, place
    mine = 1000 * rank + 10 * round + place
  end function mine

  pure real(real64) function theirs(of, round, place)
    integer, intent(in) :: of, round, place
    theirs = 1000 * of + 10 * round + place
  end function theirs

  pure real(real64) function sum_of(round, place)
    integer, intent(in) :: round, place
    sum_of = 1000 * (nranks * (nranks - 1) / 2) + nranks * (10 * round + place)
  end function sum_of

  !> Overwrites the stack below the caller.
  recursive subroutine spoil(depth)
    integer, intent(in) :: depth
    real(real64) :: rubbish(64)
    rubbish = -depth
    if (depth > 0) call spoil(depth - 1)
    if (any(rubbish /= -depth)) error stop 'the stack is spoilt'
  end subroutine spoil

  subroutine in_groups(round)
    integer, intent(in) :: round
    real(real64), target :: x(6), got(nranks)
    integer(int32), target :: k(2)
    real(real32), target :: single
    character(len=6), target :: text
    integer :: next, before, i
    next = modulo(rank + 1, nranks)
    before = modulo(rank - 1, nranks)
    x = -1
    k = -1
    single = -1
    got = -1
    text = '??????'
    call kolo_group_start()
    call kolo_allreduce(mine(round, 1) * 2, x(1), KOLO_SUM, comm)
    call kolo_allreduce(mine(round, 2) + 3, x(2), KOLO_MAX, comm)
    call kolo_allreduce(merge(mine(round, 3), 0.0_real64, round > 0), x(3), 1, KOLO_REAL8, &
                        KOLO_SUM, comm)
    call kolo_allgather(mine(round, 4), got, comm)
    call kolo_allreduce(real(rank + round, real32), single, KOLO_SUM, comm)
    call spoil(20)
    call kolo_group_end()
    call expect(x(1) == 2 * sum_of(round, 1), 'a value in a group')
    call expect(x(2) == theirs(nranks - 1, round, 2) + 3, 'the largest value in a group')
    call expect(x(3) == sum_of(round, 3), 'a value with its type in a group')
    call expect(all(got == [(theirs(i, round, 4), i=0, nranks - 1)]), 'a value that all gather')
    call expect(single == real(nranks * (nranks - 1) / 2 + nranks * round, real32), &
                'a real(4) value')
    call kolo_group_start()
    call kolo_send(mine(round, 5) * 2, next, comm)
    call kolo_recv(x(5), before, comm)
    call kolo_send(7 * rank + round, next, comm)
    call kolo_recv(k(1), before, comm)
    call kolo_send(42 + round, next, comm)
    call kolo_recv(k(2), before, comm)
    call kolo_send('ab' // achar(97 + modulo(rank + round, 26)) // 'xyz', next, comm)
    call kolo_recv(text, before, comm)
    call spoil(20)
    call kolo_group_end()
    call expect(x(5) == 2 * theirs(before, round, 5), 'a value in a message of a group')
    call expect(all(k == [7 * before + round, 42 + round]), 'whole numbers in a group')
    call expect(text == 'ab' // achar(97 + modulo(before + round, 26)) // 'xyz', &
                'a string in a group')
  end subroutine in_groups

  subroutine with_requests(round)
    integer, intent(in) :: round
    integer, parameter :: n = 5
    type(kolo_request) :: requests(n)
    real(real64), target :: x(n)
    logical :: done
    integer :: i
    x = -1
    do i = 1, n
      call kolo_iallreduce(mine(round, i) * i, x(i), KOLO_SUM, comm, requests(i))
    end do
    call spoil(20)
    call kolo_wait(requests(1))
    done = .false.
    do while (.not. done)
      call kolo_test(requests(2), done)
    end do
    call kolo_waitall(requests(3:n))
    do i = 1, n
      call expect(x(i) == i * sum_of(round, i), 'a value with a request')
    end do
  end subroutine with_requests

  subroutine on_a_stream(round)
    integer, intent(in) :: round
    integer, parameter :: n = 4
    type(kolo_stream) :: stream
    real(real64), target :: x(n)
    integer(int64), target :: k
    integer :: i
    x = -1
    k = -1
    call kolo_stream_create(stream)
    do i = 1, n
      call kolo_allreduce(mine(round, i) - i, x(i), KOLO_SUM, comm, stream)
    end do
    call kolo_allreduce(int(rank, int64) + round, k, KOLO_SUM, comm, stream)
    call spoil(20)
    call kolo_stream_synchronize(stream)
    do i = 1, n
      call expect(x(i) == sum_of(round, i) - nranks * i, 'a value on a stream')
    end do
    call expect(k == nranks * (nranks - 1) / 2 + int(nranks, int64) * round, &
                'an integer on a stream')
    call kolo_group_start()
    do i = 1, n
      call kolo_allreduce(mine(round, i) - 2 * i, x(i), KOLO_SUM, comm, stream)
    end do
    call spoil(20)
    call kolo_group_end()
    call spoil(20)
    call kolo_stream_synchronize(stream)
    call kolo_stream_destroy(stream)
    do i = 1, n
      call expect(x(i) == sum_of(round, i) - 2 * nranks * i, 'a value of a group on a stream')
    end do
  end subroutine on_a_stream

  !> One variable that is sent and received into keeps its place.
  subroutine variables_in_place()
    real(real64), target :: x, y
    type(kolo_request) :: request
    x = rank + 1
    y = rank + 2
    call kolo_group_start()
    call kolo_allreduce(x, x, KOLO_SUM, comm)
    call kolo_allreduce(y, KOLO_SUM, comm)
    call kolo_group_end()
    call expect(x == nranks * (nranks + 1) / 2, 'one variable in a group')
    call expect(y == nranks * (nranks + 1) / 2 + nranks, 'one argument in a group')
    x = rank + 1
    call kolo_iallreduce(x, x, KOLO_SUM, comm, request)
    call kolo_wait(request)
    call expect(x == nranks * (nranks + 1) / 2, 'one variable with a request')
  end subroutine variables_in_place
end program values
