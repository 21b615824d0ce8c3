! What the programs of fortran_dropin.sh share: one of MPI's three faces, by FACE (1: mpif.h, 2: use
! mpi, 3: use mpi_f08), the job, and operations that are written in Fortran.
module faces
#if FACE == 3
    use mpi_f08
#elif FACE == 2
    use mpi
#endif
    implicit none
#if FACE == 1
    include 'mpif.h'
#endif
#if FACE == 3
    type(MPI_Comm) :: comm
    type(MPI_Op) :: ops(12)
#else
    integer :: comm, ops(12)
#endif
    ! Of all ranks alike: which collective this is, counted from 1.
    integer :: number = 0
    integer :: me, nranks, problem
    ! Values lie below it.
    integer :: most = 96
    character(len=24) :: doing = ' '
    integer(8), private :: state = 0
    ! MPI writes here behind the compiler's back, which any procedure of another file may do.
    integer :: apart(5), gathered(300)
    integer, parameter :: poison = 96

contains

    ! The value of an element that a rank sends in this collective.
    pure integer function value(rank, element)
        integer, intent(in) :: rank, element
        value = mod(mod(rank * 31 + element * 7 + number * 13, 100003) * 7919, most)
        if (most < 10) value = value + 1
    end function value

    subroutine begin(what)
        character(len=*), intent(in) :: what
        number = number + 1
        doing = what
    end subroutine begin

    subroutine wrong(of, element)
        character(len=*), intent(in) :: of
        integer, intent(in) :: element
        print '(a, i0, 5a, i0, a, i0)', 'rank ', me, ': ', trim(doing), ' of ', of, ': element ', &
            element, ' in collective ', number
        flush (6)
        call MPI_Abort(MPI_COMM_WORLD, 1, problem)
    end subroutine wrong

    ! A number below `below`, the same on all ranks.
    integer function drawn(below)
        integer, intent(in) :: below
        state = mod(state * 48271_8, 2147483647_8)
        drawn = int(mod(state / 7, int(below, 8)))
    end function drawn

    subroutine start()
        character(len=20) :: seed
        call MPI_Init(problem)
        call get_command_argument(1, seed)
        read (seed, *) state
        state = mod(state, 2147483645_8) + 1
        call MPI_Comm_rank(MPI_COMM_WORLD, me, problem)
        call MPI_Comm_split(MPI_COMM_WORLD, 0, -me, comm, problem)
        call MPI_Comm_rank(comm, me, problem)
        call MPI_Comm_size(comm, nranks, problem)
        ops(1:7) = [MPI_SUM, MPI_PROD, MPI_MAX, MPI_MIN, MPI_BAND, MPI_BOR, MPI_BXOR]
        ops(8:10) = [MPI_LAND, MPI_LOR, MPI_LXOR]
        call MPI_Op_create(weave, .false., ops(11), problem)
        call MPI_Op_create(latest, .true., ops(12), problem)
    end subroutine start

    ! Each number stands for t -> m t + c modulo 997: which stands first matters.
    elemental integer(8) function after(a, b)
        integer(8), intent(in) :: a, b
        integer(8), parameter :: p = 997
        after = mod((a / p) * (b / p), p) * p + mod((a / p) * mod(b, p) + mod(a, p), p)
    end function after

#if FACE == 3
    subroutine weave(left, right, length, datatype)
        use, intrinsic :: iso_c_binding
        type(c_ptr), value :: left, right
        integer :: length
        type(MPI_Datatype) :: datatype
        integer(8), pointer :: a(:), b(:)
        call c_f_pointer(left, a, [length])
        call c_f_pointer(right, b, [length])
        if (datatype /= MPI_INTEGER8) call wrong('another type', 0)
        b = after(a, b)
    end subroutine weave

    subroutine latest(left, right, length, datatype)
        use, intrinsic :: iso_c_binding
        type(c_ptr), value :: left, right
        integer :: length
        type(MPI_Datatype) :: datatype
        character, pointer :: a(:), b(:)
        call c_f_pointer(left, a, [length])
        call c_f_pointer(right, b, [length])
        if (datatype /= MPI_CHARACTER) call wrong('another type', 0)
        where (a > b) b = a
    end subroutine latest
#else
    subroutine weave(a, b, length, datatype)
        integer :: length, datatype
        integer(8) :: a(length), b(length)
        if (datatype /= MPI_INTEGER8) call wrong('another type', 0)
        b = after(a, b)
    end subroutine weave

    subroutine latest(a, b, length, datatype)
        integer :: length, datatype
        character :: a(length), b(length)
        if (datatype /= MPI_CHARACTER) call wrong('another type', 0)
        where (a > b) b = a
    end subroutine latest
#endif
end module faces
