! Draws fields of the globe as a Pacific-centred map in Robinson's projection.
!
! The map is painted backwards: for each point of the sheet, where on Earth is it, and what is
! there? (A. H. Robinson, A new map projection, International Yearbook of Cartography 14, 1974,
! gives the projection as a table every five degrees.)
module map
  use comm_layer, only: rk
  use ocean, only: grid_t, coast_mask
  use coast_data, only: mask_nx, mask_ny
  use canvas, only: canvas_t, oversampling, mix
  use palette, only: diverging, sequential, compress, land_colour, coast_colour, faint
  implicit none
  private
  public :: map_t, layer_t, fill_land, to_sheet

  !> A window on the projected plane and its place on the sheet.
  type :: map_t
    real :: x = 0.0, y = 0.0, w = 0.0, h = 0.0      !! pixels on the sheet
    real :: lon = 195.0                             !! degrees east in the middle
    real :: south = -52.0, north = 65.0             !! degrees at the edges
    real, allocatable :: land(:, :)                 !! share of land, 0 .. 1, finer than the model
    real, allocatable :: inland(:, :)               !! the same, blurred, for shading
  contains
    procedure :: prepare
    procedure :: paint
    procedure :: isochrones
  end type map_t

  !> What the sea shows. The field has no holes: fill_land has closed them.
  type :: layer_t
    real, allocatable :: field(:, :)
    real :: top = 1.0                               !! value of the last colour
    logical :: both_signs = .true.
  end type layer_t

  real, parameter :: table_x(0:18) = [1.0000, 0.9986, 0.9954, 0.9900, 0.9822, 0.9730, 0.9600, &
                                      0.9427, 0.9216, 0.8962, 0.8679, 0.8350, 0.7986, 0.7597, &
                                      0.7186, 0.6732, 0.6213, 0.5722, 0.5322]
  real, parameter :: table_y(0:18) = [0.0000, 0.0620, 0.1240, 0.1860, 0.2480, 0.3100, 0.3720, &
                                      0.4340, 0.4958, 0.5571, 0.6176, 0.6769, 0.7346, 0.7903, &
                                      0.8435, 0.8936, 0.9394, 0.9761, 1.0000]
  real, parameter :: x_unit = 0.8487 * 3.14159265 / 180.0, y_unit = 1.3523

contains

  pure real function robinson_x(lat)
    real, intent(in) :: lat
    integer :: k
    k = min(17, int(abs(lat) / 5.0))
    robinson_x = table_x(k) + (table_x(k + 1) - table_x(k)) * (abs(lat) / 5.0 - real(k))
  end function robinson_x

  pure real function robinson_y(lat)
    real, intent(in) :: lat
    integer :: k
    k = min(17, int(abs(lat) / 5.0))
    robinson_y = y_unit * (table_y(k) + (table_y(k + 1) - table_y(k)) * (abs(lat) / 5.0 - real(k)))
    robinson_y = sign(robinson_y, lat)
  end function robinson_y

  pure real function latitude_of(y)
    real, intent(in) :: y
    integer :: k
    do k = 0, 16
      if (y_unit * table_y(k + 1) > abs(y)) exit
    end do
    latitude_of = 5.0 * (real(k) + (abs(y) / y_unit - table_y(k)) / (table_y(k + 1) - table_y(k)))
    latitude_of = sign(latitude_of, y)
  end function latitude_of

  !> Pixels a unit of the projected plane.
  pure real function scale_of(self)
    class(map_t), intent(in) :: self
    scale_of = self%h / (robinson_y(self%north) - robinson_y(self%south))
  end function scale_of

  pure subroutine to_sheet(self, lon, lat, x, y)
    class(map_t), intent(in) :: self
    real, intent(in) :: lon, lat
    real, intent(out) :: x, y
    x = modulo(lon - self%lon + 180.0, 360.0) - 180.0
    x = self%x + 0.5 * self%w + scale_of(self) * x_unit * robinson_x(lat) * x
    y = self%y + scale_of(self) * (robinson_y(self%north) - robinson_y(lat))
  end subroutine to_sheet

  pure subroutine to_globe(self, x, y, lon, lat)
    class(map_t), intent(in) :: self
    real, intent(in) :: x, y
    real, intent(out) :: lon, lat
    lat = latitude_of(robinson_y(self%north) - (y - self%y) / scale_of(self))
    lon = self%lon + (x - self%x - 0.5 * self%w) / (scale_of(self) * x_unit * robinson_x(lat))
    lon = modulo(lon, 360.0)
  end subroutine to_globe

  subroutine prepare(self, x, y, w, h)
    class(map_t), intent(inout) :: self
    real, intent(in) :: x, y, w, h
    logical, allocatable :: mask(:, :)
    self%x = x
    self%y = y
    self%w = w
    self%h = h
    call coast_mask(mask)
    self%land = merge(1.0, 0.0, mask)
    self%land = blur(self%land, 1)
    self%inland = blur(blur(self%land, 5), 5)
  end subroutine prepare

  !> Mean over a square of 2r+1 cells; longitude closes on itself.
  function blur(a, r) result(b)
    real, intent(in) :: a(:, :)
    integer, intent(in) :: r
    real, allocatable :: b(:, :), c(:, :)
    integer :: k, j
    allocate (b, c, mold=a)
    c = 0.0
    do k = -r, r
      c = c + cshift(a, k, 1)
    end do
    do j = 1, size(a, 2)
      b(:, j) = sum(c(:, max(1, j - r):min(size(a, 2), j + r)), 2) &
                / real((2 * r + 1) * (min(size(a, 2), j + r) - max(1, j - r) + 1))
    end do
  end function blur

  !> Replaces land by the mean of what lies around it, several rings deep, so that interpolation
  !> near a coast sees the sea alone.
  subroutine fill_land(field, wet)
    real, intent(inout) :: field(:, :)
    logical, intent(in) :: wet(:, :)
    logical, allocatable :: known(:, :), before(:, :)
    real, allocatable :: old(:, :)
    integer :: ring, i, j, p, q, n, nx
    real :: total
    nx = size(field, 1)
    known = wet
    do ring = 1, 4
      before = known
      old = field
      do j = 1, size(field, 2)
        do i = 1, nx
          if (before(i, j)) cycle
          n = 0
          total = 0.0
          do q = max(1, j - 1), min(size(field, 2), j + 1)
            do p = i - 1, i + 1
              if (.not. before(modulo(p - 1, nx) + 1, q)) cycle
              n = n + 1
              total = total + old(modulo(p - 1, nx) + 1, q)
            end do
          end do
          field(i, j) = 0.0
          if (n > 0) field(i, j) = total / real(n)
          known(i, j) = n > 0
        end do
      end do
    end do
  end subroutine fill_land

  !> Value at a place, by cubic convolution (R. Keys, IEEE Transactions on Acoustics, Speech and
  !> Signal Processing 29, 1981, DOI 10.1109/TASSP.1981.1163711) or linear.
  pure real function sample(field, lon, lat, cubic)
    real, intent(in) :: field(:, :), lon, lat
    logical, intent(in) :: cubic
    real :: x, y, wx(-1:2), wy(-1:2)
    integer :: i, j, p, q, nx, ny
    nx = size(field, 1)
    ny = size(field, 2)
    x = lon * real(nx) / 360.0 + 0.5
    y = (lat + 72.0) * real(ny) / 144.0 + 0.5
    i = floor(x)
    j = floor(y)
    wx = weights(x - real(i), cubic)
    wy = weights(y - real(j), cubic)
    sample = 0.0
    do q = -1, 2
      do p = -1, 2
        sample = sample + wx(p) * wy(q) &
                 * field(modulo(i + p - 1, nx) + 1, min(ny, max(1, j + q)))
      end do
    end do
  end function sample

  pure function weights(t, cubic) result(w)
    real, intent(in) :: t
    logical, intent(in) :: cubic
    real :: w(-1:2)
    w = [0.0, 1.0 - t, t, 0.0]
    if (cubic) w = 0.5 * [-t + 2.0 * t**2 - t**3, 2.0 - 5.0 * t**2 + 3.0 * t**3, &
                          t + 4.0 * t**2 - 3.0 * t**3, -t**2 + t**3]
  end function weights

  !> The sea in the colours of the layer, lit from the north-west as if waves were hills; the land
  !> in grey with a bright coast.
  subroutine paint(self, sheet, layer)
    class(map_t), intent(in) :: self
    type(canvas_t), intent(inout) :: sheet
    type(layer_t), intent(in) :: layer
    integer :: i, j, s, i1, j1
    real :: lon, lat, t, share, light, deep, colour(3), x, y
    s = oversampling
    i1 = nint(self%x * s)
    j1 = nint(self%y * s)
    do j = 1, nint(self%h * s)
      do i = 1, nint(self%w * s)
        x = self%x + (real(i) - 0.5) / s
        y = self%y + (real(j) - 0.5) / s
        call to_globe(self, x, y, lon, lat)
        share = sample(self%land, lon, lat, .false.)
        deep = sample(self%inland, lon, lat, .false.)
        t = compress(sample(layer%field, lon, lat, .true.), layer%top)
        light = t - compress(sample(layer%field, lon + 0.35, lat - 0.35, .true.), layer%top)
        if (layer%both_signs) then
          colour = diverging(t) * (1.0 + max(-0.30, min(0.35, 1.1 * light)))
          colour = colour + 0.07 * deep * [0.45, 0.75, 0.8]   ! shallow water is a little lighter
        else
          colour = sequential(max(0.0, t))
        end if
        if (mod(lon + 0.12, 30.0) < 0.24 .or. mod(abs(lat) + 0.12, 30.0) < 0.24) &
          colour = mix(colour, [0.7, 0.8, 0.9], 0.07)
        colour = mix(colour, mix(coast_colour, land_colour, 4.0 * (deep - 0.38)), &
                     (share - 0.38) / 0.24)
        sheet%rgb(:, i1 + i, j1 + j) = min(1.0, max(0.0, colour))
      end do
    end do
    call sheet%frame(self%x, self%y, self%w, self%h, faint)
  end subroutine paint

  !> Lines of equal arrival time, one every `every` hours.
  subroutine isochrones(self, sheet, hours, reached, every, pen, colour)
    class(map_t), intent(in) :: self
    type(canvas_t), intent(inout) :: sheet
    real, intent(in) :: hours(:, :)          !! arrival in hours, land closed
    real, intent(in) :: reached(:, :)        !! 0 in the sea that no wave has reached, else 1
    integer, intent(in) :: every
    real, intent(in) :: pen, colour(3)
    integer :: i, j, s, w, h
    real, allocatable :: t(:, :)
    real :: lon, lat, slope, gap, step
    s = oversampling
    w = nint(self%w * s)
    h = nint(self%h * s)
    allocate (t(0:w + 1, 0:h + 1))
    do j = 0, h + 1
      do i = 0, w + 1
        call to_globe(self, self%x + (real(i) - 0.5) / s, self%y + (real(j) - 0.5) / s, lon, lat)
        t(i, j) = sample(hours, lon, lat, .false.)
        if (sample(self%land, lon, lat, .false.) > 0.3) t(i, j) = -1.0
        if (sample(reached, lon, lat, .false.) < 0.999) t(i, j) = -1.0
      end do
    end do
    step = real(every)
    do j = 1, h
      do i = 1, w
        if (min(t(i, j), t(i + 1, j), t(i - 1, j), t(i, j + 1), t(i, j - 1)) <= 0.0) cycle
        if (t(i, j) < 0.5 * step) cycle
        slope = 0.5 * sqrt((t(i + 1, j) - t(i - 1, j))**2 + (t(i, j + 1) - t(i, j - 1))**2)
        if (slope > 0.2 * step) cycle   ! not a front: noise, or the edge of what has been reached
        gap = abs(t(i, j) - step * anint(t(i, j) / step)) / max(slope, 1.0e-4)
        gap = 0.5 * pen * s + 0.5 - gap
        if (gap > 0.0) sheet%rgb(:, nint(self%x * s) + i, nint(self%y * s) + j) = &
          mix(sheet%rgb(:, nint(self%x * s) + i, nint(self%y * s) + j), colour, 0.8 * min(1.0, gap))
      end do
    end do
  end subroutine isochrones
end module map
