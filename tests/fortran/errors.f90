!> Wrong calls with ierror: a code, and a sentence with rank, call and remedy. All of them are found
!! before anything is sent, so every rank can make them alone.
program errors
  use, intrinsic :: iso_fortran_env, only: int16, int64, real64
  use kolo
  use start
  use checks
  implicit none

  integer :: ierror
  call begin(comm)
  call know_ranks()
  call types()
  call sizes()
  call numbers()
  call life()
  call sentences()
  call disagreements()
  if (rank == 0) print '(a)', 'errors: ok'
  call finish(comm)
  if (with_mpi) call too_late()

contains

  subroutine types()
    logical :: l
    character(len=5) :: word
    integer(int16) :: i2(2)
    integer, parameter :: quad = selected_real_kind(30)
    real(quad) :: r16
    complex :: z(2)
    real :: r4(3)
    real(real64) :: r8(3)
    l = .true.; word = 'words'; i2 = 1; r16 = 1; z = 1; r4 = 1; r8 = 1
    call kolo_allreduce(l, KOLO_SUM, comm, ierror)
    call expect_error(ierror, ['operation KOLO_SUM', 'logical(4)        '], 'logical')
    call kolo_allreduce(word, KOLO_SUM, comm, ierror)
    call expect_error(ierror, ['character(len=5)'], 'character')
    call kolo_allreduce(i2, KOLO_SUM, comm, ierror)
    call expect_error(ierror, ['integer(2)', 'integer(4)'], 'integer(2)')
    call kolo_allreduce(r16, KOLO_SUM, comm, ierror)
    call expect_error(ierror, ['real(16)'], 'real(16)')
    call kolo_allreduce(z, KOLO_MAX, comm, ierror)
    call expect_error(ierror, ['complex(4)', 'KOLO_SUM  '], 'maximum of complex')
    call kolo_allreduce(r4, r8, KOLO_SUM, comm, ierror)
    call expect_error(ierror, ['real(4)', 'real(8)'], 'two types')
    call kolo_allreduce(r4, r4, 3, KOLO_REAL8, KOLO_SUM, comm, ierror)
    call expect_error(ierror, ['KOLO_REAL8', 'real(4)   '], 'a wrong data type')
    call kolo_bcast(r4, 3, KOLO_INTEGER4, 0, comm, ierror)
    call expect_error(ierror, ['KOLO_INTEGER4', 'real(4)      '], 'a wrong data type of that size')
    call kolo_allreduce(l, l, 1, KOLO_LOGICAL, KOLO_SUM, comm, ierror)
    call expect_error(ierror, ['KOLO_LOGICAL4'], 'KOLO_LOGICAL')
    call expect(all(r8 == 1) .and. all(r4 == 1), 'nothing was touched')
  end subroutine types

  subroutine sizes()
    real(real64) :: a(6), b(7)
    real(real64), allocatable :: large(:)
    a = 1; b = -1
    allocate (large(6 * nranks + 1))
    call kolo_allreduce(a, b, KOLO_SUM, comm, ierror)
    call expect_error(ierror, ['6 elements', 'has 7     '], 'two sizes')
    call kolo_allgather(a, large, comm, ierror)
    call expect_error(ierror, ['6 elements    ', 'kolo_allgather'], 'a wrong allgather')
    if (nranks > 1) then
      call kolo_allgather(a, a, comm, ierror)
      call expect_error(ierror, ['ranks x 6'], 'a small allgather')
      call kolo_alltoall(a(1:1), b(1:1), comm, ierror)
      call expect_error(ierror, ['cannot share'], 'an alltoall that does not divide')
    end if
    call kolo_reduce_scatter(large, a, KOLO_SUM, comm, ierror)
    call expect_error(ierror, ['6 elements'], 'a wrong reduce_scatter')
    call old_code(a)
    call kolo_allreduce(a, b, 8, KOLO_REAL8, KOLO_SUM, comm, ierror)
    call expect_error(ierror, ['64 bytes', 'has 48  '], 'a count beyond the array')
    call kolo_allreduce(a, b, -3, KOLO_REAL8, KOLO_SUM, comm, ierror)
    call expect_error(ierror, ['count is -3'], 'a negative count')
    call kolo_allreduce(a(1), b(1), huge(1_int64), KOLO_REAL8, KOLO_SUM, comm, ierror)
    call expect_error(ierror, ['address space'], 'a count that overflows')
    call kolo_allgather(a, 2, KOLO_REAL8, large, 3, KOLO_REAL8, comm, ierror)
    call expect_error(ierror, ['2 elements are sent', 'differ             '], 'two counts')
    call expect(all(b == -1), 'nothing was written')
  end subroutine sizes

  subroutine old_code(a)
    real(real64) :: a(*)
    call kolo_allreduce(a, KOLO_SUM, comm, ierror)
    call expect_error(ierror, ['assumed-size ', 'a(1:n)       ', 'count        '], 'assumed-size')
    call kolo_bcast(a, 0, comm, ierror)
    call expect_error(ierror, ['assumed-size'], 'assumed-size broadcast')
  end subroutine old_code

  subroutine numbers()
    integer :: a(4), b(4)
    type(kolo_comm) :: none
    a = 1; b = -1
    call kolo_bcast(a, nranks, comm, ierror)
    call expect_error(ierror, ['rank'], 'a root beyond the ranks')
    call kolo_reduce(a, b, KOLO_SUM, -1, comm, ierror)
    call expect_error(ierror, ['rank'], 'a negative root')
    call kolo_send(a, nranks + 5, comm, ierror)
    call expect_error(ierror, ['rank'], 'a peer beyond the ranks')
    call kolo_alltoall(KOLO_IN_PLACE, 1, KOLO_INTEGER4, b, 1, KOLO_INTEGER4, comm, ierror)
    call expect_error(ierror, ['KOLO_IN_PLACE'], 'an in-place call that does not exist')
    call kolo_allreduce(KOLO_IN_PLACE, b, KOLO_SUM, comm, ierror)
    call expect_error(ierror, ['KOLO_IN_PLACE'], 'in place in the short form')
    call kolo_group_start()
    call kolo_comm_split(comm, 0, 0, none, ierror)
    call expect_error(ierror, ['group'], 'a split in a group')
    call kolo_group_end(ierror)
    call expect(ierror == KOLO_INVALID_USAGE .and. kolo_comm_is_null(none), 'its group')
    ! The end of a group that was forgotten.
    call kolo_group_start()
    call kolo_bcast(a, 0, comm)
    call kolo_comm_finalize(comm, ierror)
    call expect_error(ierror, ['1 call waits in a group', 'kolo_group_end         '], 'finalize')
    call kolo_bcast(a, 0, comm)
    none = comm
    call kolo_comm_destroy(none, ierror)
    call expect_error(ierror, ['2 calls wait in a group', 'kolo_comm_destroy      '], 'destroy')
    call expect(.not. kolo_comm_is_null(none), 'the communicator stays')
    call kolo_group_end()
    none = kolo_comm()
    ! A wrong call in a group: the end of the group reports it, and nothing ran.
    call kolo_group_start()
    call kolo_allreduce(a, b, KOLO_SUM, comm, ierror)
    call expect(ierror == KOLO_SUCCESS, 'a call in a group')
    call kolo_allreduce(a, b(1:3), KOLO_SUM, comm, ierror)
    call expect_error(ierror, ['4 elements'], 'a wrong call in a group')
    call kolo_group_end(ierror)
    call expect(ierror == KOLO_INVALID_ARGUMENT .and. all(b == -1), 'a group with a wrong call')
    call kolo_group_end(ierror)
    call expect_error(ierror, ['kolo_group_end: ', 'kolo_group_start'], 'an end without a start')
  end subroutine numbers

  subroutine life()
    type(kolo_comm) :: none, copy
    character(len=300) :: message
    character(len=*), parameter :: gone = &
      'comm was not initialised (kolo_comm_init) or is already destroyed'
    integer :: a
    a = 1
    call kolo_allreduce(a, KOLO_SUM, none, ierror)
    call expect(ierror == KOLO_INVALID_ARGUMENT, 'no communicator')
    call kolo_get_last_error(none, message)
    call expect(index(message, gone) > 0, 'no communicator: ' // message)
    call kolo_comm_split(comm, rank, 0, none)
    copy = none
    call kolo_comm_destroy(none)
    call kolo_allreduce(a, KOLO_SUM, copy, ierror)
    call expect(ierror == KOLO_INVALID_ARGUMENT, 'a destroyed communicator')
    call kolo_get_last_error(copy, message)
    call expect(index(message, gone) > 0, 'a destroyed communicator: ' // message)
    call kolo_comm_destroy(copy, ierror)
    call kolo_get_last_error(copy, message)
    call expect(ierror == KOLO_INVALID_ARGUMENT .and. index(message, gone) > 0, 'destroyed twice')
    call kolo_comm_destroy(none, ierror)
    call kolo_get_last_error(none, message)
    call expect(ierror == KOLO_INVALID_ARGUMENT .and. index(message, gone) > 0, 'and none')
    if (.not. with_mpi) then
      call kolo_comm_init(0, none, ierror)
      call kolo_get_last_error(none, message)
      call expect(ierror == KOLO_INVALID_USAGE .and. index(message, '-lkolo_mpi of') > 0, &
        'no libkolo_mpi: ' // message)
    end if
    call expect(a == 1, 'nothing was touched')
  end subroutine life

  subroutine sentences()
    character(len=12) :: short
    character(len=600) :: long
    character(len=16) :: who
    character(len=:), allocatable :: named
    integer :: a(2), version
    named = ': '
    if (with_mpi) named = ' on communicator MPI_COMM_WORLD: '
    call kolo_bcast(a, -7, comm, ierror)
    call kolo_get_last_error(comm, short)
    call kolo_get_last_error(comm, long)
    call expect(short == long(1:12) .and. len_trim(long) > 20, 'a sentence that is cut')
    write (who, '(a,i0,a)') 'rank ', rank, ':'
    call expect(index(long, trim(who)) > 0, 'the sentence names the rank: ' // long)
    call expect(index(long, 'kolo_bcast' // named) > 0 .and. index(long, 'Broadcast') == 0, &
      'the sentence has the names of Fortran: ' // long)
    ! Found by Fortran's own layer, and with the same words.
    call kolo_bcast(a, -7_int64, KOLO_INTEGER4, 0, comm, ierror)
    call kolo_get_last_error(comm, long)
    call expect(index(long, 'kolo: ' // trim(who) // ' kolo_bcast' // named // 'the count is -7') &
      == 1, 'a sentence of the Fortran layer: ' // long)
    call kolo_version(version)
    call expect(version >= 100, 'version')
  end subroutine sentences

  !> Ranks that call different things hear it in the words of Fortran, also by way of a stream.
  subroutine disagreements()
    type(kolo_comm) :: whole
    type(kolo_stream) :: stream
    character(len=600) :: message
    real(real64), asynchronous :: a(2)
    integer :: i
    if (nranks == 1) return
    a = 1
    do i = 1, 2
      call kolo_comm_split(comm, 0, rank, whole)
      if (i == 1) then
        call kolo_allreduce(a(1:1 + mod(rank, 2)), KOLO_SUM, whole, ierror)
      else
        call kolo_stream_create(stream)
        call kolo_allreduce(a(1:1 + mod(rank, 2)), KOLO_SUM, whole, stream, ierror)
        if (ierror == KOLO_SUCCESS) call kolo_stream_synchronize(stream, ierror)
      end if
      call kolo_get_last_error(whole, message)
      call expect(ierror /= KOLO_SUCCESS, 'ranks that disagree')
      call expect(index(message, 'kolo_allreduce of 2 real(8), KOLO_SUM') > 0 .and. &
        index(message, 'kolo_allreduce of 1 real(8), KOLO_SUM') > 0, &
        'two calls in the words of Fortran: ' // message)
      if (i == 2) call kolo_stream_destroy(stream, ierror)
      call kolo_comm_destroy(whole)
    end do
  end subroutine disagreements

  !> MPI has ended.
  subroutine too_late()
    type(kolo_comm) :: none
    character(len=300) :: message
    call kolo_comm_init(0, none, ierror)
    call kolo_get_last_error(none, message)
    call expect(ierror == KOLO_INVALID_USAGE .and. &
        index(message, 'kolo: kolo_comm_init: MPI is ' // &
      'finalised already. Remedy: make the communicator before MPI_Finalize') == 1, message)
  end subroutine too_late

end program errors
