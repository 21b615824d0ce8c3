!> MPI_IN_PLACE is an error with its remedy, in short forms and in explicit ones; an integer of the
!! program is none.
program mpis_in_place
  use kolo
  implicit none
  include 'mpif.h'

  type(kolo_comm) :: comm
  integer :: ierror, rank, nranks, x(6), one, total
  call MPI_Init(ierror)
  call kolo_comm_init(MPI_COMM_WORLD, comm)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, nranks, ierror)
  x = rank + 1
  call kolo_allreduce(MPI_IN_PLACE, x, 6, KOLO_INTEGER4, KOLO_SUM, comm, ierror)
  call expect('explicit')
  call kolo_allreduce(MPI_IN_PLACE, x, KOLO_SUM, comm, ierror)
  call expect('short')
  call kolo_allgather(MPI_IN_PLACE, 1, KOLO_INTEGER4, x, 1, KOLO_INTEGER4, comm, ierror)
  call expect('all-gather')
  if (any(x /= rank + 1)) error stop 'the array has changed'
  one = rank + 1
  call kolo_allreduce(one, total, KOLO_SUM, comm)
  if (total /= nranks * (nranks + 1) / 2) error stop 'the sum of single integers'
  call kolo_allreduce(one, total, 1, KOLO_INTEGER4, KOLO_SUM, comm)
  if (total /= nranks * (nranks + 1) / 2) error stop 'the explicit sum of single integers'
  call kolo_comm_destroy(comm)
  call MPI_Finalize(ierror)
  if (rank == 0) print '(a)', 'mpis_in_place: ok'

contains

  subroutine expect(form)
    character(len=*), intent(in) :: form
    character(len=1000) :: text
    call kolo_get_last_error(comm, text)
    if (ierror == KOLO_SUCCESS .or. index(text, 'MPI_IN_PLACE') == 0 .or. &
        index(text, 'KOLO_IN_PLACE') == 0) then
      print '(a,i0,1x,a)', form // ': ', ierror, trim(text)
      error stop 'no error that names both'
    end if
  end subroutine expect
end program mpis_in_place
