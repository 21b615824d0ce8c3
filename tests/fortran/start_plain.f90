!> How the test programs start without MPI: rank and number of ranks from the environment, the id
!! through a file that rank 0 writes.
module start
  use kolo
  implicit none
  private
  public :: begin, finish
  !> What this way to start calls a rank that is not there.
  integer, parameter, public :: nobody = KOLO_NO_RANK
  logical, parameter, public :: with_mpi = .false.

contains

  subroutine begin(comm)
    type(kolo_comm), intent(out) :: comm
    type(kolo_unique_id) :: id
    character(len=256) :: path
    integer :: rank, nranks
    rank = number_of('KOLO_TEST_RANK', 0)
    nranks = number_of('KOLO_TEST_RANKS', 1)
    call get_environment_variable('KOLO_TEST_ID', path)
    if (rank == 0) then
      call kolo_get_unique_id(id)
      if (nranks > 1) call write_id(trim(path), id)
    else
      call read_id(trim(path), id)
    end if
    call kolo_comm_init_rank(nranks, id, rank, comm)
  end subroutine begin

  subroutine finish(comm)
    type(kolo_comm), intent(inout) :: comm
    call kolo_comm_destroy(comm)
  end subroutine finish

  integer function number_of(name, default)
    character(len=*), intent(in) :: name
    integer, intent(in) :: default
    character(len=32) :: text
    integer :: status
    number_of = default
    call get_environment_variable(name, text, status=status)
    if (status == 0) read (text, *) number_of
  end function number_of

  subroutine write_id(path, id)
    character(len=*), intent(in) :: path
    type(kolo_unique_id), intent(in) :: id
    integer :: unit, i
    open (newunit=unit, file=path // '.part', status='replace', action='write')
    write (unit, '(128(i0,1x))') (ichar(id%internal(i)), i = 1, 128)
    close (unit)
    ! A complete file appears at once.
    call execute_command_line('mv ' // path // '.part ' // path)
  end subroutine write_id

  subroutine read_id(path, id)
    character(len=*), intent(in) :: path
    type(kolo_unique_id), intent(out) :: id
    integer :: unit, i, try, codes(128)
    logical :: there
    do try = 1, 200
      inquire (file=path, exist=there)
      if (there) exit
      call execute_command_line('sleep 0.05')
    end do
    open (newunit=unit, file=path, status='old', action='read')
    read (unit, *) codes
    close (unit)
    do i = 1, 128
      id%internal(i) = char(codes(i))
    end do
  end subroutine read_id

end module start
