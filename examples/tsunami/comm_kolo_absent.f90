! Stands in for comm_kolo where the model is built without kolo (make without KOLO_PREFIX).
module comm_kolo
  use comm_layer, only: comm_t
  implicit none
  private
  public :: kolo_is_built, make_kolo_comm

  logical, parameter :: kolo_is_built = .false.

contains

  !> Leaves `comm` unallocated; the main program asks kolo_is_built first.
  subroutine make_kolo_comm(comm)
    class(comm_t), allocatable, intent(out) :: comm
    if (allocated(comm)) deallocate (comm)
  end subroutine make_kolo_comm
end module comm_kolo
