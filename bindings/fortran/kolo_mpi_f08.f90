!> kolo for programs that use module mpi_f08: kolo_comm_init also takes type(MPI_Comm).
!!
!! Compile it with the compiler whose mpi_f08 the MPI library has; `use kolo_mpi_f08` gives all of
!! module kolo. It holds an interface only, so nothing more needs to be linked.
module kolo_mpi_f08
  use kolo
  implicit none
  public

  !> Makes a communicator of the ranks of an MPI communicator, which the program keeps.
  interface kolo_comm_init
    subroutine kolo_f_comm_init_f08(mpi_comm_handle, comm, ierror) &
      bind(C, name="kolo_f_comm_init_f08")
      use, intrinsic :: iso_c_binding, only: c_int32_t
      use mpi_f08, only: MPI_Comm
      import :: kolo_comm
      type(MPI_Comm), intent(in) :: mpi_comm_handle
      type(kolo_comm), intent(out) :: comm
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_comm_init_f08
  end interface kolo_comm_init
end module kolo_mpi_f08
