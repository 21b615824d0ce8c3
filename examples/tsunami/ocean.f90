! Where there is sea, how deep it is, and how the sea bed moves.
!
! Problem: real coast lines are small public data, real depths are not. Idea: take the coast from a
! mask and let the depth follow from the distance to it: a shelf, a slope, a basin. So waves bend
! and break up at the true places, but travel times are those of an idealised ocean.
!
! Everything here is on the whole grid and each rank computes it by itself: it is cheap, and equal
! on all ranks because it depends on nothing but the settings.
module ocean
  use comm_layer, only: rk
  use coast_data, only: mask_nx, mask_ny, mask_line, mask_text
  implicit none
  private
  public :: grid_t, make_grid, coast_mask, uplift_t, surface_uplift, wet_cell_near
  public :: earth_radius, degree, lat_edge

  real(rk), parameter :: earth_radius = 6371000.0_rk   !! m
  real(rk), parameter :: degree = acos(-1.0_rk) / 180.0_rk
  real(rk), parameter :: lat_edge = 72.0_rk            !! walls at 72 S and 72 N

  real(rk), parameter :: shelf_depth = 300.0_rk        !! m; shallower, half a degree is too coarse
  real(rk), parameter :: basin_depth = 4500.0_rk       !! m
  real(rk), parameter :: shelf_width = 40.0e3_rk       !! m
  real(rk), parameter :: slope_width = 260.0e3_rk      !! m

  type :: grid_t
    integer :: nx = 0, ny = 0
    real(rk) :: step = 0.0_rk                          !! degrees
    real(rk), allocatable :: lon(:), lat(:)            !! cell centres, degrees east and north
    logical, allocatable :: wet(:, :)
    real(rk), allocatable :: depth(:, :)               !! m, zero on land
  end type grid_t

  !> A tilted sea bed: up on one side of the fault, down on the other, both Gaussian.
  type :: uplift_t
    real(rk) :: lon = 143.6_rk, lat = 38.0_rk          !! middle of the fault, degrees
    real(rk) :: strike = 17.0_rk                       !! degrees east of north
    real(rk) :: up = 4.0_rk, down = 1.6_rk             !! m
    real(rk) :: along = 170.0e3_rk, across = 65.0e3_rk !! m, standard deviations
  end type uplift_t

contains

  !> True is land; row 1 begins at 72 S, column 1 at the Greenwich meridian. make_coast.py
  !> describes the format.
  subroutine coast_mask(land)
    logical, allocatable, intent(out) :: land(:, :)
    integer :: row, column, length, shift, code, at
    logical :: state
    character :: c
    allocate (land(mask_nx, mask_ny), source=.false.)
    row = 1
    column = 0
    length = 0
    shift = 0
    state = .false.
    do at = 0, size(mask_text) * mask_line - 1
      if (row > mask_ny) exit
      c = mask_text(at / mask_line + 1)(mod(at, mask_line) + 1:mod(at, mask_line) + 1)
      if (c == '~') then
        land(column + 1:, row) = state
        row = row + 1
        column = 0
        state = .false.
        cycle
      end if
      code = iachar(c) - 48
      length = length + shiftl(iand(code, 31), shift)
      shift = shift + 5
      if (code >= 32) cycle
      land(column + 1:column + length, row) = state
      column = column + length
      state = .not. state
      length = 0
      shift = 0
    end do
  end subroutine coast_mask

  subroutine make_grid(step, grid)
    real(rk), intent(in) :: step    !! degrees; divides 144 and 360
    type(grid_t), intent(out) :: grid
    integer :: i, j
    grid%step = step
    grid%nx = nint(360.0_rk / step)
    grid%ny = nint(2.0_rk * lat_edge / step)
    grid%lon = [((real(i, rk) - 0.5_rk) * step, i = 1, grid%nx)]
    grid%lat = [((real(j, rk) - 0.5_rk) * step - lat_edge, j = 1, grid%ny)]
    call find_wet_cells(grid)
    call find_depth(grid)
  end subroutine make_grid

  !> A cell is land where at least half of the mask's points in it are.
  subroutine find_wet_cells(grid)
    type(grid_t), intent(inout) :: grid
    logical, allocatable :: land(:, :)
    integer :: i, j, p, q, n, dry
    integer :: column, row
    real(rk) :: per_degree
    call coast_mask(land)
    per_degree = real(mask_nx, rk) / 360.0_rk
    n = max(1, nint(grid%step * per_degree))
    allocate (grid%wet(grid%nx, grid%ny))
    do j = 1, grid%ny
      do i = 1, grid%nx
        dry = 0
        do q = 1, n
          row = mask_index(j, q, mask_ny)
          do p = 1, n
            column = mask_index(i, p, mask_nx)
            if (land(column, row)) dry = dry + 1
          end do
        end do
        grid%wet(i, j) = 2 * dry < n * n
      end do
    end do

  contains

    !> The mask's row or column under sample `part` of n in a cell of the grid.
    pure integer function mask_index(cell, part, most)
      integer, intent(in) :: cell, part, most
      mask_index = 1 + int((real(cell - 1, rk) + (real(part, rk) - 0.5_rk) / real(n, rk)) &
                           * grid%step * per_degree)
      mask_index = min(mask_index, most)
    end function mask_index
  end subroutine find_wet_cells

  subroutine find_depth(grid)
    type(grid_t), intent(inout) :: grid
    real(rk), allocatable :: distance(:, :)
    real(rk) :: s
    integer :: i, j
    allocate (distance(grid%nx, grid%ny), grid%depth(grid%nx, grid%ny))
    call distance_to_coast(grid, distance)
    do j = 1, grid%ny
      do i = 1, grid%nx
        s = min(1.0_rk, max(0.0_rk, (distance(i, j) - shelf_width) / slope_width))
        s = s * s * (3.0_rk - 2.0_rk * s)
        grid%depth(i, j) = merge(shelf_depth + (basin_depth - shelf_depth) * s, 0.0_rk, &
                                 grid%wet(i, j))
      end do
    end do
  end subroutine find_depth

  !> Metres to the nearest land cell, by passing the nearest land cell's position from neighbour
  !> to neighbour in sweeps (P.-E. Danielsson, Euclidean distance mapping, Computer Graphics and
  !> Image Processing 14, 1980, DOI 10.1016/0146-664X(80)90054-4), with chords of the sphere.
  subroutine distance_to_coast(grid, distance)
    type(grid_t), intent(in) :: grid
    real(rk), intent(out) :: distance(:, :)
    real(rk), allocatable :: place(:, :, :), nearest(:, :, :)
    integer :: i, j, sweep
    allocate (place(3, grid%nx, grid%ny))
    do j = 1, grid%ny
      do i = 1, grid%nx
        place(:, i, j) = on_sphere(grid%lon(i), grid%lat(j))
      end do
    end do
    nearest = place
    distance = merge(1.0e9_rk, 0.0_rk, grid%wet)
    do sweep = 1, 2
      do j = 1, grid%ny
        call sweep_row(j, j - 1)
      end do
      do j = grid%ny, 1, -1
        call sweep_row(j, j + 1)
      end do
    end do

  contains

    subroutine sweep_row(j, from)
      integer, intent(in) :: j, from
      integer :: i, k
      if (from >= 1 .and. from <= grid%ny) then
        do i = 1, grid%nx
          do k = -1, 1
            call offer(i, j, modulo(i + k - 1, grid%nx) + 1, from)
          end do
        end do
      end if
      do i = 1, 2 * grid%nx   ! twice round, because a row has no beginning
        call offer(modulo(i - 1, grid%nx) + 1, j, modulo(i - 2, grid%nx) + 1, j)
      end do
      do i = 2 * grid%nx, 1, -1
        call offer(modulo(i - 1, grid%nx) + 1, j, modulo(i, grid%nx) + 1, j)
      end do
    end subroutine sweep_row

    subroutine offer(i, j, p, q)
      integer, intent(in) :: i, j, p, q
      real(rk) :: d
      if (distance(p, q) > 1.0e8_rk) return
      d = earth_radius * sqrt(sum((place(:, i, j) - nearest(:, p, q))**2))
      if (d < distance(i, j)) then
        distance(i, j) = d
        nearest(:, i, j) = nearest(:, p, q)
      end if
    end subroutine offer
  end subroutine distance_to_coast

  pure function on_sphere(lon, lat) result(x)
    real(rk), intent(in) :: lon, lat
    real(rk) :: x(3)
    x = [cos(lat * degree) * cos(lon * degree), cos(lat * degree) * sin(lon * degree), &
         sin(lat * degree)]
  end function on_sphere

  !> Height of the sea at the start (m): water follows a sudden movement of the sea bed. The uplift
  !> lies on the ocean's side of the fault, the subsidence on the land's.
  pure real(rk) function surface_uplift(u, lon, lat) result(height)
    type(uplift_t), intent(in) :: u
    real(rk), intent(in) :: lon, lat
    real(rk) :: x, y, along, across
    x = (modulo(lon - u%lon + 180.0_rk, 360.0_rk) - 180.0_rk) * cos(u%lat * degree)
    x = x * degree * earth_radius
    y = (lat - u%lat) * degree * earth_radius
    along = (x * sin(u%strike * degree) + y * cos(u%strike * degree)) / u%along
    across = (x * cos(u%strike * degree) - y * sin(u%strike * degree)) / u%across
    height = exp(-0.5_rk * along**2) * (u%up * exp(-0.5_rk * (across - 1.0_rk)**2) &
                                        - u%down * exp(-0.5_rk * (across + 1.0_rk)**2))
  end function surface_uplift

  !> Indices of the wet cell whose centre is nearest.
  pure function wet_cell_near(grid, lon, lat) result(ij)
    type(grid_t), intent(in) :: grid
    real(rk), intent(in) :: lon, lat
    integer :: ij(2), i, j
    real(rk) :: d, best
    best = huge(best)
    ij = 0
    do j = 1, grid%ny
      do i = 1, grid%nx
        if (.not. grid%wet(i, j)) cycle
        d = sum((on_sphere(grid%lon(i), grid%lat(j)) - on_sphere(lon, lat))**2)
        if (d < best) then
          best = d
          ij = [i, j]
        end if
      end do
    end do
  end function wet_cell_near
end module ocean
