! All collectives with elements of one type. fortran_dropin.sh puts in
!   @NAME@ a name, @TYPE@ the type of Fortran, @MPI@ that of MPI, @MADE@ a value made of the number
!   v, @IS@ the operator that compares, @CLASS@ the file with the operations
module of_@NAME@
    use faces
    implicit none
    private
    public :: moves_@NAME@, folds_@NAME@
    @TYPE@, allocatable, save :: s(:), r(:)

contains

    elemental function made(v) result(x)
        integer, intent(in) :: v
        @TYPE@ :: x
        x = @MADE@
    end function made

    elemental function folded(which, a, b) result(x)
        integer, intent(in) :: which
        @TYPE@, intent(in) :: a, b
        @TYPE@ :: x
        x = a
        select case (which)
        include '@CLASS@.inc'
        end select
    end function folded

    ! `length` elements to send, and as many poisoned ones and some more to receive into.
    subroutine fill(what, length)
        character(len=*), intent(in) :: what
        integer, intent(in) :: length
        integer :: i
        call begin(what)
        if (allocated(s)) deallocate (s, r)
        allocate (s(0:length), r(0:length + 7))
        do i = 0, length
            s(i) = made(value(me, i))
        end do
        r = made(poison)
    end subroutine fill

    ! Elements `at` and so on of what was received are those that `from` sent as `first` and so on.
    subroutine came(at, length, from, first)
        integer, intent(in) :: at, length, from, first
        integer :: i
        do i = 0, length - 1
            if (.not. (r(at + i) @IS@ made(value(from, first + i)))) call wrong('@NAME@', at + i)
        end do
    end subroutine came

    ! Nothing was written there.
    subroutine quiet(at, length)
        integer, intent(in) :: at, length
        integer :: i
        do i = at, at + length - 1
            if (.not. (r(i) @IS@ made(poison))) call wrong('@NAME@, beyond', i)
        end do
    end subroutine quiet

    subroutine moves_@NAME@(n, root, inside)
        integer, intent(in) :: n, root
        logical, intent(in) :: inside
        call equal(n, root, inside)
        call unequal(n, root, inside)
        call each_its_own(n, inside)
    end subroutine moves_@NAME@

    subroutine equal(n, root, inside)
        integer, intent(in) :: n, root
        logical, intent(in) :: inside
        integer :: k
        call fill('MPI_Bcast', n)
        if (me == root) r(0:n - 1) = s(0:n - 1)
        call MPI_Bcast(r, n, @MPI@, root, comm, problem)
        call came(0, n, root, 0)
        call quiet(n, 7)

        call fill('MPI_Gather', n * nranks)
        if (me == root .and. inside) then
            r(me * n:me * n + n - 1) = s(0:n - 1)
            call MPI_Gather(MPI_IN_PLACE, 0, @MPI@, r, n, @MPI@, root, comm, problem)
        else
            call MPI_Gather(s, n, @MPI@, r, n, @MPI@, root, comm, problem)
        end if
        do k = 0, nranks - 1
            if (me == root) call came(k * n, n, k, 0)
        end do
        if (me /= root) call quiet(0, n * nranks)
        call quiet(n * nranks, 7)

        call fill('MPI_Scatter', n * nranks)
        if (me == root .and. inside) then
            call MPI_Scatter(s, n, @MPI@, MPI_IN_PLACE, n, @MPI@, root, comm, problem)
            call quiet(0, n)
        else
            call MPI_Scatter(s, n, @MPI@, r, n, @MPI@, root, comm, problem)
            call came(0, n, root, me * n)
        end if
        call quiet(n, 7)

        call fill('MPI_Allgather', n * nranks)
        if (inside) then
            r(me * n:me * n + n - 1) = s(0:n - 1)
            call MPI_Allgather(MPI_IN_PLACE, 0, @MPI@, r, n, @MPI@, comm, problem)
        else
            call MPI_Allgather(s, n, @MPI@, r, n, @MPI@, comm, problem)
        end if
        do k = 0, nranks - 1
            call came(k * n, n, k, 0)
        end do
        call quiet(n * nranks, 7)

        call fill('MPI_Alltoall', n * nranks)
        if (inside) then
            r(0:n * nranks - 1) = s(0:n * nranks - 1)
            call MPI_Alltoall(MPI_IN_PLACE, 0, @MPI@, r, n, @MPI@, comm, problem)
        else
            call MPI_Alltoall(s, n, @MPI@, r, n, @MPI@, comm, problem)
        end if
        do k = 0, nranks - 1
            call came(k * n, n, k, me * n)
        end do
        call quiet(n * nranks, 7)
    end subroutine equal

    ! Blocks of n, n + 1 and so on, with a gap of one element behind each.
    subroutine unequal(n, root, inside)
        integer, intent(in) :: n, root
        logical, intent(in) :: inside
        integer :: k, mine, counts(0:nranks - 1), at(0:nranks - 1), all
        all = 0
        do k = 0, nranks - 1
            counts(k) = n + k
            at(k) = all
            all = all + counts(k) + 1
        end do
        mine = counts(me)

        call fill('MPI_Gatherv', all)
        if (me == root .and. inside) then
            r(at(me):at(me) + mine - 1) = s(0:mine - 1)
            call MPI_Gatherv(MPI_IN_PLACE, 0, @MPI@, r, counts, at, @MPI@, root, comm, problem)
        else
            call MPI_Gatherv(s, mine, @MPI@, r, counts, at, @MPI@, root, comm, problem)
        end if
        do k = 0, nranks - 1
            if (me == root) call came(at(k), counts(k), k, 0)
            call quiet(at(k) + counts(k), 1)
        end do
        if (me /= root) call quiet(0, all)

        call fill('MPI_Scatterv', all)
        if (me == root .and. inside) then
            call MPI_Scatterv(s, counts, at, @MPI@, MPI_IN_PLACE, mine, @MPI@, root, comm, problem)
            call quiet(0, all)
        else
            call MPI_Scatterv(s, counts, at, @MPI@, r, mine, @MPI@, root, comm, problem)
            call came(0, mine, root, at(me))
        end if
        call quiet(mine, 7)

        call fill('MPI_Allgatherv', all)
        if (inside) then
            r(at(me):at(me) + mine - 1) = s(0:mine - 1)
            call MPI_Allgatherv(MPI_IN_PLACE, 0, @MPI@, r, counts, at, @MPI@, comm, problem)
        else
            call MPI_Allgatherv(s, mine, @MPI@, r, counts, at, @MPI@, comm, problem)
        end if
        do k = 0, nranks - 1
            call came(at(k), counts(k), k, 0)
            call quiet(at(k) + counts(k), 1)
        end do
    end subroutine unequal

    ! What two ranks send each other is as long in both directions.
    subroutine each_its_own(n, inside)
        integer, intent(in) :: n
        logical, intent(in) :: inside
        integer :: k, counts(0:nranks - 1), at(0:nranks - 1), all
        all = place(me, nranks)
        do k = 0, nranks - 1
            counts(k) = n + mod(me + k, 3)
            at(k) = place(me, k)
        end do
        call fill('MPI_Alltoallv', all)
        if (inside) then
            do k = 0, nranks - 1
                r(at(k):at(k) + counts(k) - 1) = s(at(k):at(k) + counts(k) - 1)
            end do
            call MPI_Alltoallv(MPI_IN_PLACE, counts, at, @MPI@, r, counts, at, @MPI@, comm, problem)
        else
            call MPI_Alltoallv(s, counts, at, @MPI@, r, counts, at, @MPI@, comm, problem)
        end if
        do k = 0, nranks - 1
            call came(at(k), counts(k), k, place(k, me))
            call quiet(at(k) + counts(k), 1)
        end do

    contains

        ! Where a rank has the block that it shares with another.
        integer function place(rank, other)
            integer, intent(in) :: rank, other
            integer :: before
            place = 0
            do before = 0, other - 1
                place = place + n + mod(rank + before, 3) + 1
            end do
        end function place
    end subroutine each_its_own

    ! Element `at` of what was received is element `of` of what the ranks up to `last` sent, folded.
    subroutine is_fold(which, at, of, last)
        integer, intent(in) :: which, at, of, last
        @TYPE@ :: x
        integer :: k
        x = made(value(0, of))
        do k = 1, last
            x = folded(which, x, made(value(k, of)))
        end do
        if (.not. (r(at) @IS@ x)) call wrong('@NAME@', at)
    end subroutine is_fold

    subroutine folds_@NAME@(which, n, root, inside)
        integer, intent(in) :: which, n, root
        logical, intent(in) :: inside
        integer :: i
        call fill('MPI_Allreduce', n)
        if (inside) then
            r(0:n - 1) = s(0:n - 1)
            call MPI_Allreduce(MPI_IN_PLACE, r, n, @MPI@, ops(which), comm, problem)
        else
            call MPI_Allreduce(s, r, n, @MPI@, ops(which), comm, problem)
        end if
        do i = 0, n - 1
            call is_fold(which, i, i, nranks - 1)
        end do
        call quiet(n, 7)

        call fill('MPI_Reduce', n)
        if (inside .and. me == root) then
            r(0:n - 1) = s(0:n - 1)
            call MPI_Reduce(MPI_IN_PLACE, r, n, @MPI@, ops(which), root, comm, problem)
        else
            call MPI_Reduce(s, r, n, @MPI@, ops(which), root, comm, problem)
        end if
        do i = 0, n - 1
            if (me == root) call is_fold(which, i, i, nranks - 1)
        end do
        if (me /= root) call quiet(0, n)
        call quiet(n, 7)

        call fill('MPI_Scan', n)
        if (inside) then
            r(0:n - 1) = s(0:n - 1)
            call MPI_Scan(MPI_IN_PLACE, r, n, @MPI@, ops(which), comm, problem)
        else
            call MPI_Scan(s, r, n, @MPI@, ops(which), comm, problem)
        end if
        do i = 0, n - 1
            call is_fold(which, i, i, me)
        end do
        call quiet(n, 7)

        call fill('MPI_Exscan', n)
        if (inside) then
            r(0:n - 1) = s(0:n - 1)
            call MPI_Exscan(MPI_IN_PLACE, r, n, @MPI@, ops(which), comm, problem)
        else
            call MPI_Exscan(s, r, n, @MPI@, ops(which), comm, problem)
        end if
        do i = 0, n - 1
            if (me > 0) call is_fold(which, i, i, me - 1)
        end do
        call quiet(n, 7)
        call folds_of_blocks(which, n, inside)
    end subroutine folds_@NAME@

    subroutine folds_of_blocks(which, n, inside)
        integer, intent(in) :: which, n
        logical, intent(in) :: inside
        integer :: i, k, counts(0:nranks - 1), at(0:nranks)
        call fill('MPI_Reduce_scatter_block', n * nranks)
        if (inside) then
            r(0:n * nranks - 1) = s(0:n * nranks - 1)
            call MPI_Reduce_scatter_block(MPI_IN_PLACE, r, n, @MPI@, ops(which), comm, problem)
        else
            call MPI_Reduce_scatter_block(s, r, n, @MPI@, ops(which), comm, problem)
            call quiet(n, 7)
        end if
        do i = 0, n - 1
            call is_fold(which, i, me * n + i, nranks - 1)
        end do

        at(0) = 0
        do k = 0, nranks - 1
            counts(k) = n + mod(k, 2)
            at(k + 1) = at(k) + counts(k)
        end do
        call fill('MPI_Reduce_scatter', at(nranks))
        if (inside) then
            r(0:at(nranks) - 1) = s(0:at(nranks) - 1)
            call MPI_Reduce_scatter(MPI_IN_PLACE, r, counts, @MPI@, ops(which), comm, problem)
        else
            call MPI_Reduce_scatter(s, r, counts, @MPI@, ops(which), comm, problem)
            call quiet(counts(me), 7)
        end if
        do i = 0, counts(me) - 1
            call is_fold(which, i, at(me) + i, nranks - 1)
        end do
    end subroutine folds_of_blocks
end module of_@NAME@
