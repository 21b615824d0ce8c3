! A stream instead of a communicator.
program stream_for_comm
  use kolo
  implicit none
  type(kolo_comm) :: comm
  type(kolo_stream) :: stream
  real(8) :: a(3), b(3)
  call kolo_barrier(stream)
end program stream_for_comm
