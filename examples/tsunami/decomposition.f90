! How the globe is cut into one block a rank, and how blocks talk to their neighbours.
!
! Problem: any number of ranks, primes too, shall share nx x ny cells. Idea: ranks form a px x py
! chequer-board; column c of it owns cells 1 + c*nx/px .. (c+1)*nx/px, so widths differ by at most
! one. Of all boards the one with the shortest rim is taken: blocks as square as they can be.
! Longitude closes on itself, the north and south edges are walls.
!
! Terms: a block's halo is the rim of `halo_width` cells around it that repeats its neighbours'
! cells. One exchange fills it, corners too, by one message to each of eight directions.
module decomposition
  use comm_layer, only: comm_t, message_t, rk
  implicit none
  private
  public :: block_t, halo_t, make_block, make_halo, gather_field, halo_width

  !> Two cells: waves.f90 says why.
  integer, parameter :: halo_width = 2

  type :: block_t
    integer :: nx_global = 0, ny_global = 0
    integer :: px = 0, py = 0     !! ranks along longitude and latitude
    integer :: cx = 0, cy = 0     !! my place among them, from 0
    integer :: i0 = 0, j0 = 0     !! global index of my first cell, minus one
    integer :: nx = 0, ny = 0     !! my cells
  end type block_t

  type :: halo_t
    type(message_t) :: messages(8)
    integer :: box(4, 2, 8) = 0   !! i1, i2, j1, j2 of what I send, and of what I receive
    logical :: own(8) = .false.   !! the neighbour is this rank itself
    integer :: fields = 0
  contains
    procedure :: exchange
  end type halo_t

  integer, parameter :: step_x(8) = [-1, 0, 1, -1, 1, -1, 0, 1]
  integer, parameter :: step_y(8) = [-1, -1, -1, 0, 0, 1, 1, 1]

contains

  !> The block of `rank`. `px` = 0 in the result means that so many ranks do not fit the grid.
  pure function make_block(nx, ny, nranks, rank) result(b)
    integer, intent(in) :: nx, ny, nranks, rank
    type(block_t) :: b
    integer :: px, py, rim, best
    best = huge(best)
    b%nx_global = nx
    b%ny_global = ny
    do px = 1, nranks
      if (mod(nranks, px) /= 0) cycle
      py = nranks / px
      if (nx / px < halo_width .or. ny / py < halo_width) cycle
      rim = (nx + px - 1) / px + (ny + py - 1) / py
      if (rim < best) then
        best = rim
        b%px = px
        b%py = py
      end if
    end do
    if (b%px == 0) return
    b%cx = mod(rank, b%px)
    b%cy = rank / b%px
    b%i0 = b%cx * nx / b%px
    b%j0 = b%cy * ny / b%py
    b%nx = (b%cx + 1) * nx / b%px - b%i0
    b%ny = (b%cy + 1) * ny / b%py - b%j0
  end function make_block

  !> The rank that lies one step away, or -1 beyond a wall.
  pure integer function neighbour(b, dx, dy) result(rank)
    type(block_t), intent(in) :: b
    integer, intent(in) :: dx, dy
    rank = -1
    if (b%cy + dy < 0 .or. b%cy + dy >= b%py) return
    rank = modulo(b%cx + dx, b%px) + b%px * (b%cy + dy)
  end function neighbour

  !> Cells (lo:hi) along one axis of n cells: those to send towards `d`, or the halo they fill,
  !> which lies on the other side of the receiver.
  pure function span(n, d, receive) result(lohi)
    integer, intent(in) :: n, d
    logical, intent(in) :: receive
    integer :: lohi(2)
    select case (d)
    case (0)
      lohi = [1, n]
    case (1)
      lohi = merge([1 - halo_width, 0], [n - halo_width + 1, n], receive)
    case default
      lohi = merge([n + 1, n + halo_width], [1, halo_width], receive)
    end select
  end function span

  !> Message k goes one step along direction k and comes from one step against it. So between two
  !> ranks that meet in several directions (a ring of two) the order of messages is the same on
  !> both sides, and no tags are needed.
  subroutine make_halo(b, rank, fields, halo)
    type(block_t), intent(in) :: b
    integer, intent(in) :: rank, fields
    type(halo_t), intent(out) :: halo
    integer :: k, n(2)
    halo%fields = fields
    do k = 1, 8
      halo%box(1:2, 1, k) = span(b%nx, step_x(k), .false.)
      halo%box(3:4, 1, k) = span(b%ny, step_y(k), .false.)
      halo%box(1:2, 2, k) = span(b%nx, step_x(k), .true.)
      halo%box(3:4, 2, k) = span(b%ny, step_y(k), .true.)
      n = (halo%box(2, :, k) - halo%box(1, :, k) + 1) * (halo%box(4, :, k) - halo%box(3, :, k) + 1)
      allocate (halo%messages(k)%out(n(1) * fields), halo%messages(k)%in(n(2) * fields))
      halo%messages(k)%to = neighbour(b, step_x(k), step_y(k))
      halo%messages(k)%from = neighbour(b, -step_x(k), -step_y(k))
      halo%own(k) = halo%messages(k)%to == rank
      if (halo%own(k)) then
        halo%messages(k)%to = -1
        halo%messages(k)%from = -1
      end if
    end do
  end subroutine make_halo

  !> Fills the halo of every field. Beyond a wall it stays as it is.
  subroutine exchange(self, comm, nx, ny, f)
    class(halo_t), intent(inout) :: self
    class(comm_t), intent(inout) :: comm
    integer, intent(in) :: nx, ny
    real(rk), intent(inout) :: f(1 - halo_width:nx + halo_width, 1 - halo_width:ny + halo_width, &
                                 self%fields)
    integer :: k, b(4)
    do k = 1, 8
      b = self%box(:, 1, k)
      if (self%messages(k)%to >= 0 .or. self%own(k)) then
        self%messages(k)%out = reshape(f(b(1):b(2), b(3):b(4), :), [size(self%messages(k)%out)])
      end if
    end do
    call comm%exchange(self%messages)
    do k = 1, 8
      b = self%box(:, 2, k)
      if (self%own(k)) self%messages(k)%in = self%messages(k)%out
      if (self%messages(k)%from >= 0 .or. self%own(k)) then
        f(b(1):b(2), b(3):b(4), :) = reshape(self%messages(k)%in, &
                                    [b(2) - b(1) + 1, b(4) - b(3) + 1, self%fields])
      end if
    end do
  end subroutine exchange

  !> Brings the blocks of one field together on rank 0. Blocks differ in size and the collective
  !> wants equal parts, so each travels in a frame of the largest block's size.
  subroutine gather_field(comm, b, mine, whole)
    class(comm_t), intent(inout) :: comm
    type(block_t), intent(in) :: b
    real(rk), intent(in) :: mine(b%nx, b%ny)
    real(rk), intent(inout) :: whole(:, :)   !! nx_global x ny_global on rank 0, unused elsewhere
    real(rk), allocatable :: part(:), parts(:)
    type(block_t) :: other
    integer :: frame, rank, first
    frame = ((b%nx_global + b%px - 1) / b%px) * ((b%ny_global + b%py - 1) / b%py)
    allocate (part(frame), source=0.0_rk)
    allocate (parts(frame * merge(comm%nranks, 1, comm%rank == 0)))
    part(1:b%nx * b%ny) = reshape(mine, [b%nx * b%ny])
    call comm%gather(part, parts)
    if (comm%rank /= 0) return
    do rank = 0, comm%nranks - 1
      other = make_block(b%nx_global, b%ny_global, comm%nranks, rank)
      first = rank * frame
      whole(other%i0 + 1:other%i0 + other%nx, other%j0 + 1:other%j0 + other%ny) = &
        reshape(parts(first + 1:first + other%nx * other%ny), [other%nx, other%ny])
    end do
  end subroutine gather_field
end module decomposition
