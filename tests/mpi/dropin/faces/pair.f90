! MPI_MINLOC and MPI_MAXLOC with pairs of one type. fortran_dropin.sh puts in @NAME@, @TYPE@ and
! @MPI@ as for type.f90. Ranks have equal values, of which the one of the lowest place counts.
module of_@NAME@
    use faces
    implicit none
    private
    public :: places_@NAME@

contains

    subroutine places_@NAME@(n, root, inside)
        integer, intent(in) :: n, root
        logical, intent(in) :: inside
        call extremes(n, root, inside, -1)
        call extremes(n, root, inside, 1)
    end subroutine places_@NAME@

    ! `sign`: 1 for maxima, -1 for minima.
    subroutine extremes(n, root, inside, sign)
        integer, intent(in) :: n, root, sign
        logical, intent(in) :: inside
        @TYPE@ :: s(2, n + 1), r(2, n + 3)
        integer :: i
        most = 5
        call begin('MPI_Allreduce')
        call fill()
        if (inside) r(:, :n) = s(:, :n)
        if (inside .and. sign > 0) then
            call MPI_Allreduce(MPI_IN_PLACE, r, n, @MPI@, MPI_MAXLOC, comm, problem)
        else if (inside) then
            call MPI_Allreduce(MPI_IN_PLACE, r, n, @MPI@, MPI_MINLOC, comm, problem)
        else if (sign > 0) then
            call MPI_Allreduce(s, r, n, @MPI@, MPI_MAXLOC, comm, problem)
        else
            call MPI_Allreduce(s, r, n, @MPI@, MPI_MINLOC, comm, problem)
        end if
        call check(nranks - 1)

        call begin('MPI_Reduce')
        call fill()
        if (sign > 0) then
            call MPI_Reduce(s, r, n, @MPI@, MPI_MAXLOC, root, comm, problem)
        else
            call MPI_Reduce(s, r, n, @MPI@, MPI_MINLOC, root, comm, problem)
        end if
        if (me == root) call check(nranks - 1)

        call begin('MPI_Scan')
        call fill()
        if (sign > 0) then
            call MPI_Scan(s, r, n, @MPI@, MPI_MAXLOC, comm, problem)
        else
            call MPI_Scan(s, r, n, @MPI@, MPI_MINLOC, comm, problem)
        end if
        call check(me)
        most = 96

    contains

        subroutine fill()
            do i = 1, n + 1
                s(1, i) = real(value(me, i))
                s(2, i) = real(me * 100 + mod(i, 100))
            end do
            r = real(poison)
        end subroutine fill

        subroutine check(last)
            integer, intent(in) :: last
            integer :: k, best
            do i = 1, n
                best = 0
                do k = 1, last
                    if (sign * value(k, i) > sign * value(best, i)) best = k
                end do
                if (r(1, i) /= real(value(best, i))) call wrong('@NAME@, its value', i)
                if (r(2, i) /= real(best * 100 + mod(i, 100))) call wrong('@NAME@, its place', i)
            end do
            if (any(r(:, n + 1:) /= real(poison))) call wrong('@NAME@, beyond', n + 1)
        end subroutine check
    end subroutine extremes
end module of_@NAME@
