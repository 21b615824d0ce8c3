!> The halo exchange of docs/fortran.md, on a grid that has no edge in one
!! direction and closed edges in the other.
program halo
  use kolo
  use start
  use checks
  implicit none
  include 'mpif.h'
  integer, parameter :: nx = 4, ny = 3
  type(kolo_comm) :: grid
  real(8), target :: u(0:nx + 1, 0:ny + 1)
  integer :: cart, west, east, south, north, ierror, dims(2), place(2), i, j, round
  logical :: periods(2)

  call begin(comm)
  call know_ranks()
  dims = 0
  call mpi_dims_create(nranks, 2, dims, ierror)
  periods = [.true., .false.]
  call mpi_cart_create(MPI_COMM_WORLD, 2, dims, periods, .false., cart, ierror)
  call kolo_comm_init(cart, grid)
  call mpi_cart_coords(cart, rank, 2, place, ierror)
  do round = 1, 3
    u = -1
    do j = 1, ny
      do i = 1, nx
        u(i, j) = at(i, j)
      end do
    end do
    call exchange()
    do j = 0, ny + 1
      do i = 0, nx + 1
        if ((i == 0 .or. i == nx + 1) .and. (j == 0 .or. j == ny + 1)) then
          call expect(u(i, j) == -1, 'a corner')
        else
          call expect(u(i, j) == at(i, j), 'an element')
        end if
      end do
    end do
  end do
  call kolo_comm_destroy(grid)
  call mpi_comm_free(cart, ierror)
  if (rank == 0) print '(a)', 'halo: ok'
  call finish(comm)

contains

  subroutine exchange()
    call mpi_cart_shift(cart, 0, 1, west, east, ierror)
    call mpi_cart_shift(cart, 1, 1, south, north, ierror)
    call kolo_group_start()
    call kolo_sendrecv(u(nx, 1:ny), east, u(0, 1:ny), west, grid)
    call kolo_sendrecv(u(1, 1:ny), west, u(nx + 1, 1:ny), east, grid)
    call kolo_sendrecv(u(1:nx, ny), north, u(1:nx, 0), south, grid)
    call kolo_sendrecv(u(1:nx, 1), south, u(1:nx, ny + 1), north, grid)
    call kolo_group_end()
  end subroutine exchange

  !> What the whole field has at this element of this rank; nothing beyond the edges.
  real(8) function at(i, j)
    integer, intent(in) :: i, j
    integer :: x, y
    x = modulo(place(1) * nx + i - 1, dims(1) * nx)
    y = place(2) * ny + j - 1
    at = merge(-1, 1000 * round + 50 * x + y, y < 0 .or. y >= dims(2) * ny)
  end function at
end program halo
