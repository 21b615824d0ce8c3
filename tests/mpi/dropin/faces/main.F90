! Runs every collective that libkolo_pmpi.so takes, through one face of MPI for Fortran, with each
! type, against results that are known exactly. Ranks stand in reverse order. The last line of rank
! 0 says how many collectives there were.
!
!   main SEED
program main
    use faces
    use of_integer1
    use of_integer2
    use of_integer4
    use of_integer8
    use of_real4
    use of_real8
    use of_double
    use of_complex8
    use of_complex16
    use of_logical
    use of_character
    use of_2integer
    use of_2real
    use of_2double
    implicit none
#if FACE == 3
#define DATATYPE type(MPI_Datatype)
#define REQUEST type(MPI_Request)
#else
#define DATATYPE integer
#define REQUEST integer
#endif
    integer :: lengths(4) = [0, 1, 13, 0], i, root
    logical :: inside
    call start()
    lengths(4) = 1000 + drawn(3000)
    do i = 1, 8
        root = drawn(nranks)
        inside = mod(i, 2) == 0
        call all_types(lengths((i + 1) / 2), root, inside)
        call rows(lengths((i + 1) / 2), root)
        call anywhere(root)
        call sentinels()
        call begin('MPI_Barrier')
        call MPI_Barrier(comm, problem)
    end do
    call MPI_Op_free(ops(11), problem)
    call MPI_Op_free(ops(12), problem)
    call MPI_Comm_free(comm, problem)
    call MPI_Finalize(problem)
    if (me == 0) print '(a, i0, a)', 'all ', number, ' are right'

contains

    subroutine all_types(n, root, inside)
        integer, intent(in) :: n, root
        logical, intent(in) :: inside
        integer :: op
        most = 96
        call moves_integer1(n, root, inside)
        call moves_integer2(n, root, inside)
        call moves_integer4(n, root, inside)
        call moves_integer8(n, root, inside)
        call moves_real4(n, root, inside)
        call moves_real8(n, root, inside)
        call moves_double(n, root, inside)
        call moves_complex8(n, root, inside)
        call moves_complex16(n, root, inside)
        call moves_logical(n, root, inside)
        call moves_character(n, root, inside)
        most = 3
        do op = 1, 7
            call folds_integer1(op, n, root, inside)
            call folds_integer2(op, n, root, inside)
            call folds_integer4(op, n, root, inside)
            call folds_integer8(op, n, root, inside)
            if (op > 4) cycle
            call folds_real4(op, n, root, inside)
            call folds_real8(op, n, root, inside)
            call folds_double(op, n, root, inside)
            if (op > 2) cycle
            call folds_complex8(op, n, root, inside)
            call folds_complex16(op, n, root, inside)
        end do
        do op = 8, 10
            call folds_logical(op, n, root, inside)
        end do
        most = 997 * 997
        call folds_integer8(11, n, root, inside)
        most = 96
        call folds_character(12, n, root, inside)
        call places_2integer(n, root, inside)
        call places_2real(n, root, inside)
        call places_2double(n, root, inside)
    end subroutine all_types

    ! Rows of a matrix, which do not lie in one piece; the other side has them in one.
    subroutine rows(n, root)
        integer, intent(in) :: n, root
        real(8) :: matrix(0:nranks, 0:n), line(0:n)
        DATATYPE :: row, one_place_on
        integer :: k, j
        integer(MPI_ADDRESS_KIND) :: none, place
        none = 0
        place = 8
        call MPI_Type_vector(n, 1, nranks + 1, MPI_DOUBLE_PRECISION, row, problem)
        call MPI_Type_create_resized(row, none, place, one_place_on, problem)
        call MPI_Type_commit(one_place_on, problem)

        call begin('MPI_Scatter')
        line = poison
        matrix = reshape([((value(me, k * 1000 + j), k=0, nranks), j=0, n)], shape(matrix))
        call MPI_Scatter(matrix, 1, one_place_on, line, n, MPI_REAL8, root, comm, problem)
        do j = 0, n - 1
            if (line(j) /= value(root, me * 1000 + j)) call wrong('a row', j)
        end do
        if (line(n) /= poison) call wrong('a row, beyond', n)

        call begin('MPI_Allgather')
        line = [(value(me, j), j=0, n)]
        matrix = poison
        call MPI_Allgather(line, n, MPI_DOUBLE_PRECISION, matrix, 1, one_place_on, comm, problem)
        do k = 0, nranks - 1
            do j = 0, n - 1
                if (matrix(k, j) /= value(k, j)) call wrong('rows', j)
            end do
        end do
        if (any(matrix(nranks, :) /= poison) .or. any(matrix(:, n) /= poison)) then
            call wrong('rows, beside', n)
        end if

        call begin('MPI_Bcast')
        matrix = poison
        if (me == root) matrix(1, :) = [(value(me, j), j=0, n)]
        call MPI_Bcast(matrix(1, 0), 1, one_place_on, root, comm, problem)
        do j = 0, n - 1
            if (matrix(1, j) /= value(root, j)) call wrong('one row', j)
        end do
        if (any(matrix(0, :) /= poison)) call wrong('one row, beside', 0)
        call MPI_Type_free(one_place_on, problem)
        call MPI_Type_free(row, problem)
    end subroutine rows

    ! Places in memory that are named by their addresses.
    subroutine anywhere(root)
        integer, intent(in) :: root
        DATATYPE :: at
        integer(MPI_ADDRESS_KIND) :: addresses(2)
        integer :: k
        call begin('MPI_Bcast')
        apart(1:5) = [(value(me, k), k=1, 5)]
        call MPI_Get_address(apart(4), addresses(1), problem)
        call MPI_Get_address(apart(1), addresses(2), problem)
        call MPI_Type_create_hindexed(2, [1, 2], addresses, MPI_INTEGER, at, problem)
        call MPI_Type_commit(at, problem)
        call MPI_Bcast(MPI_BOTTOM, 1, at, root, comm, problem)
        do k = 1, 5
            if (k == 3 .or. k == 5) then
                if (apart(k) /= value(me, k)) call wrong('places, between', k)
            else if (apart(k) /= value(root, k)) then
                call wrong('places', k)
            end if
        end do
        call begin('MPI_Allgather')
        apart(1:5) = [(value(me, k), k=1, 5)]
        gathered = poison
        call MPI_Allgather(MPI_BOTTOM, 1, at, gathered, 3, MPI_INTEGER, comm, problem)
        do k = 0, nranks - 1
            if (any(gathered(3 * k + 1:3 * k + 3) /= [value(k, 4), value(k, 1), value(k, 2)])) then
                call wrong('places', 3 * k)
            end if
        end do
        call MPI_Type_free(at, problem)
    end subroutine anywhere

    ! Constants of MPI that are known by their addresses, in calls that stay with it.
    subroutine sentinels()
        REQUEST :: requests(2)
        integer :: got, next, before
        next = mod(me + 1, nranks)
        before = mod(me + nranks - 1, nranks)
        got = -1
        call MPI_Sendrecv(me, 1, MPI_INTEGER, next, 3, got, 1, MPI_INTEGER, before, 3, comm, &
            MPI_STATUS_IGNORE, problem)
        if (got /= before) call wrong('MPI_Sendrecv', 0)
        gathered(1) = -1
        call MPI_Irecv(gathered, 1, MPI_INTEGER, next, 4, comm, requests(1), problem)
        call MPI_Isend(me, 1, MPI_INTEGER, before, 4, comm, requests(2), problem)
        call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, problem)
        if (gathered(1) /= next) call wrong('MPI_Waitall', 0)
    end subroutine sentinels
end program main
