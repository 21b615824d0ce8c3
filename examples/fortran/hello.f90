! mpif90 hello.f90 $(pkg-config --cflags --libs kolo-fortran kolo-mpi) -o hello
! mpirun -n 4 ./hello
program hello
  use mpi
  use kolo
  implicit none
  type(kolo_comm) :: comm
  integer :: rank, nranks, ierror
  real(8) :: x
  call mpi_init(ierror)
  call kolo_comm_init(MPI_COMM_WORLD, comm)
  call kolo_comm_rank(comm, rank)
  call kolo_comm_size(comm, nranks)
  x = rank + 1
  call kolo_allreduce(x, KOLO_SUM, comm)
  print '(a,i0,a,i0,a,i0)', 'rank ', rank, ' of ', nranks, ': the sum is ', nint(x)
  call kolo_comm_destroy(comm)
  call mpi_finalize(ierror)
end program hello
