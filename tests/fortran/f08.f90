!> type(MPI_Comm) of module mpi_f08, and the integer handle beside it, in one generic.
program f08
  use mpi_f08
  use kolo_mpi_f08
  implicit none
  type(kolo_comm) :: comm, same
  integer :: ierror, mine, sum, other
  call MPI_Init()
  call kolo_comm_init(MPI_COMM_WORLD, comm)
  call kolo_comm_init(MPI_COMM_WORLD%mpi_val, same, ierror)
  if (ierror /= KOLO_SUCCESS) error stop 'the integer handle'
  call MPI_Comm_rank(MPI_COMM_WORLD, mine)
  sum = mine + 1
  call kolo_allreduce(sum, KOLO_SUM, comm)
  other = mine + 1
  call MPI_Allreduce(MPI_IN_PLACE, other, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  if (sum /= other) error stop 'the sum is not that of MPI'
  call kolo_allreduce(mine, KOLO_MAX, same)
  if (mine * (mine + 1) / 2 + mine + 1 /= sum) error stop 'the maximum'
  call kolo_comm_destroy(same)
  call kolo_comm_destroy(comm)
  call MPI_Comm_rank(MPI_COMM_WORLD, mine)
  if (mine == 0) print '(a)', 'f08: ok'
  call MPI_Finalize()
end program f08
