!> What docs/fortran.md shows in the place of calls that kolo does not have yet.
program recipes
  use, intrinsic :: iso_fortran_env, only: real64
  use kolo
  use start
  use checks
  implicit none

  call begin(comm)
  call know_ranks()
  call ragged_gather()
  call least_and_owner()
  if (rank == 0) print '(a)', 'recipes: ok'
  call finish(comm)

contains

  subroutine ragged_gather()
    real(real64), allocatable :: mine(:), all(:)
    integer :: counts(nranks), first, r, i
    ! Rank 1 has nothing.
    allocate (mine(merge(0, 3 * rank + 1, rank == 1)))
    mine = [(val(rank, i), i=1, size(mine))]
    call kolo_gather(size(mine), counts, 0, comm)
    if (rank == 0) allocate (all(sum(counts)))
    call kolo_group_start()
    if (rank == 0) then
      first = 1
      do r = 0, nranks - 1
        call kolo_recv(all(first:first + counts(r + 1) - 1), r, comm)
        first = first + counts(r + 1)
      end do
    end if
    call kolo_send(mine, 0, comm)
    call kolo_group_end()
    if (rank > 0) return
    first = 1
    do r = 0, last
      call expect(counts(r + 1) == merge(0, 3 * r + 1, r == 1), 'counts')
      do i = 1, counts(r + 1)
        call expect(nint(all(first)) == val(r, i), 'ragged gather')
        first = first + 1
      end do
    end do
  end subroutine ragged_gather

  subroutine least_and_owner()
    real(real64) :: value, least
    integer :: owner
    value = abs(rank - 2)
    least = value
    call kolo_allreduce(least, KOLO_MIN, comm)
    owner = merge(rank, huge(owner), value == least)
    call kolo_allreduce(owner, KOLO_MIN, comm)
    call expect(owner == min(2, last) .and. least == abs(owner - 2), 'least and owner')
  end subroutine least_and_owner

end program recipes
