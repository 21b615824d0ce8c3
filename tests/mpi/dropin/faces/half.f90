! The ranks in Fortran of a job whose other ranks are half.c, which says what they do.
program half
    use mpi_f08
    implicit none
    integer, parameter :: most = 64, ranks = 16, room = most * ranks
    integer :: me, nranks, number, calls, n, root, i, k, done
    integer :: s(0:room - 1), r(0:room - 1), counts(0:ranks - 1), at(0:ranks - 1)
    character(len=20) :: word
    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, me)
    call MPI_Comm_size(MPI_COMM_WORLD, nranks)
    call get_command_argument(1, word)
    read (word, *) calls
    done = 0
    do number = 1, calls
        n = mod(number * 37, most)
        root = mod(number / 16, nranks)
        counts = n
        at = [(k * most, k=0, ranks - 1)]
        s = [(value(me, i), i=0, room - 1)]
        r = -1
        if (mod(number, 16) < 10) call moved()
        if (mod(number, 16) >= 10) call folded()
        done = done + 1
        if (mod(number, 5) /= 0) cycle
        call other_types()
        done = done + 3
    end do
    call MPI_Finalize()
    if (me == 0) print '(a, i0, a)', 'all ', done, ' are right'

contains

    pure integer function value(of, element)
        integer, intent(in) :: of, element
        value = mod(of * 31 + element * 7 + number * 13, 101) + 1
    end function value

    subroutine must(good, what)
        logical, intent(in) :: good
        character(len=*), intent(in) :: what
        if (good) return
        print '(a, i0, 3a, i0)', 'half.f90: rank ', me, ': ', what, ' in call ', number
        flush (6)
        call MPI_Abort(MPI_COMM_WORLD, 1)
    end subroutine must

    pure integer function sums(element, till)
        integer, intent(in) :: element, till
        integer :: one
        sums = 0
        do one = 0, till - 1
            sums = sums + value(one, element)
        end do
    end function sums

    subroutine moved()
        type(MPI_Comm) :: comm
        logical :: apart, on_root, own
        integer :: to, from
        comm = MPI_COMM_WORLD
        select case (mod(number, 16))
        case (0)
            call MPI_Barrier(comm)
            return
        case (1)
            if (me == root) r = s
            call MPI_Bcast(r, n, MPI_INTEGER, root, comm)
            do i = 0, n - 1
                call must(r(i) == value(root, i), 'bcast')
            end do
            return
        case (2)
            call MPI_Gather(s, n, MPI_INTEGER, r, n, MPI_INTEGER, root, comm)
        case (3)
            call MPI_Gatherv(s, n, MPI_INTEGER, r, counts, at, MPI_INTEGER, root, comm)
        case (4)
            call MPI_Scatter(s, n, MPI_INTEGER, r, n, MPI_INTEGER, root, comm)
            do i = 0, n - 1
                call must(r(i) == value(root, me * n + i), 'scatter')
            end do
            return
        case (5)
            call MPI_Scatterv(s, counts, at, MPI_INTEGER, r, n, MPI_INTEGER, root, comm)
            do i = 0, n - 1
                call must(r(i) == value(root, at(me) + i), 'scatterv')
            end do
            return
        case (6)
            call MPI_Allgather(s, n, MPI_INTEGER, r, n, MPI_INTEGER, comm)
        case (7)
            call MPI_Allgatherv(s, n, MPI_INTEGER, r, counts, at, MPI_INTEGER, comm)
        case (8)
            call MPI_Alltoall(s, n, MPI_INTEGER, r, n, MPI_INTEGER, comm)
        case (9)
            call MPI_Alltoallv(s, counts, at, MPI_INTEGER, r, counts, at, MPI_INTEGER, comm)
        end select
        apart = any(mod(number, 16) == [3, 7, 9])
        on_root = mod(number, 16) <= 3
        own = mod(number, 16) >= 8
        do k = 0, nranks - 1
            if (on_root .and. me /= root) cycle
            do i = 0, n - 1
                to = k * n + i
                from = i
                if (apart) to = at(k) + i
                if (own) from = me * n + i
                if (own .and. apart) from = at(me) + i
                call must(r(to) == value(k, from), 'a block')
            end do
        end do
    end subroutine moved

    subroutine folded()
        type(MPI_Comm) :: comm
        integer :: till, first
        comm = MPI_COMM_WORLD
        till = nranks
        first = 0
        select case (mod(number, 16))
        case (10)
            call MPI_Reduce(s, r, n, MPI_INTEGER, MPI_SUM, root, comm)
            if (me /= root) return
        case (11)
            call MPI_Allreduce(s, r, n, MPI_INTEGER, MPI_SUM, comm)
        case (12)
            call MPI_Reduce_scatter(s, r, counts, MPI_INTEGER, MPI_SUM, comm)
            first = me * n
        case (13)
            call MPI_Reduce_scatter_block(s, r, n, MPI_INTEGER, MPI_SUM, comm)
            first = me * n
        case (14)
            call MPI_Scan(s, r, n, MPI_INTEGER, MPI_SUM, comm)
            till = me + 1
        case (15)
            call MPI_Exscan(s, r, n, MPI_INTEGER, MPI_SUM, comm)
            till = me
        end select
        do i = 0, n - 1
            if (till > 0) call must(r(i) == sums(first + i, till), 'a sum')
        end do
    end subroutine folded

    subroutine other_types()
        real(8) :: d, all
        integer(8) :: wide, largest
        integer :: pair(2), best(2), expected
        d = value(me, 0)
        call MPI_Allreduce(d, all, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD)
        call must(all == sums(0, nranks), 'a sum of floats')
        wide = value(me, 1)
        call MPI_Reduce(wide, largest, 1, MPI_INTEGER8, MPI_MAX, root, MPI_COMM_WORLD)
        expected = maxval([(value(k, 1), k=0, nranks - 1)])
        call must(me /= root .or. largest == expected, 'a maximum')
        pair = [mod(value(me, 2), 3), me]
        call MPI_Allreduce(pair, best, 1, MPI_2INTEGER, MPI_MINLOC, MPI_COMM_WORLD)
        expected = 0
        do k = 1, nranks - 1
            if (mod(value(k, 2), 3) < mod(value(expected, 2), 3)) expected = k
        end do
        call must(all_equal(best, [mod(value(expected, 2), 3), expected]), 'a place')
    end subroutine other_types

    pure logical function all_equal(one, other)
        integer, intent(in) :: one(:), other(:)
        all_equal = all(one == other)
    end function all_equal
end program half
