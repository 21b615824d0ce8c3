! The picture of a run: the sea now, the highest water with the hours of arrival, and four gauges.
module picture
  use comm_layer, only: rk
  use ocean, only: grid_t
  use gauges, only: gauges_t, gauge_count
  use canvas, only: canvas_t, mix
  use palette
  use map, only: map_t, layer_t, fill_land, to_sheet
  use png, only: write_png
  implicit none
  private
  public :: scene_t, draw_picture

  !> What rank 0 knows at the end of a run.
  type :: scene_t
    real(rk), allocatable :: height(:, :), highest(:, :), arrival(:, :)   !! m, m, s
    real(rk) :: hours = 0.0_rk
    real(rk) :: source_lon = 0.0_rk, source_lat = 0.0_rk
    integer :: ranks = 0, px = 1, py = 1                                  !! px x py blocks
    character(len=:), allocatable :: title, carrier, checksum
  end type scene_t

  integer, parameter :: sheet_width = 1600, sheet_height = 900
  real, parameter :: left = 40.0, top = 126.0, main_w = 1010.0, main_h = 670.0
  real, parameter :: side_x = 1090.0, side_w = 470.0, side_h = 312.0
  real, parameter :: gauge_top = 545.0, gauge_step = 72.0

contains

  subroutine draw_picture(path, grid, scene, g, status, reason)
    character(len=*), intent(in) :: path
    type(grid_t), intent(in) :: grid
    type(scene_t), intent(in) :: scene
    type(gauges_t), intent(in) :: g
    integer, intent(out) :: status
    character(len=*), intent(inout) :: reason
    type(canvas_t) :: sheet
    integer, allocatable :: rgb(:, :, :)
    call sheet%start(sheet_width, sheet_height, ink)
    call draw_words(sheet, grid, scene)
    call draw_sea(sheet, grid, scene, g)
    call draw_highest(sheet, grid, scene)
    call draw_gauges(sheet, scene, g)
    allocate (rgb(3, sheet_width, sheet_height))
    rgb = sheet%pixels()
    call write_png(path, rgb, scene%title, status, reason)
  end subroutine draw_picture

  pure function clock_text(hours) result(text)
    real(rk), intent(in) :: hours
    character(len=:), allocatable :: text
    character(len=24) :: buffer
    integer :: minutes
    minutes = nint(hours * 60.0_rk)
    write (buffer, '(i0,a,i2.2,a)') minutes / 60, ' h ', mod(minutes, 60), ' min'
    text = trim(buffer)
  end function clock_text

  subroutine draw_words(sheet, grid, scene)
    type(canvas_t), intent(inout) :: sheet
    type(grid_t), intent(in) :: grid
    type(scene_t), intent(in) :: scene
    character(len=160) :: line
    call sheet%text(scene%title, left, 62.0, 4.6, paper, -1)
    write (line, '(5a,i0,a,i0,a)') 'Sea surface ', clock_text(scene%hours), &
      ' after an earthquake-like uplift off Tohoku.  ', '', 'Shallow-water waves on ', &
      grid%nx, ' x ', grid%ny, ' cells.'
    call sheet%text(line, left, 98.0, 2.0, muted, -1)
    write (line, '(i0,3a)') scene%ranks, merge(' ranks, ', ' rank,  ', scene%ranks > 1), &
      'messages by ', scene%carrier
    call sheet%text(line, side_x + side_w, 56.0, 2.0, paper, 1)
    call sheet%text('Field checksum '//scene%checksum, side_x + side_w, 84.0, 1.5, muted, 1)
    call sheet%text('Coast lines: global-land-mask (GLOBE, public data). Depth idealised by '// &
                    'distance to the coast: heights and times are not a forecast.', &
                    left, 884.0, 1.5, muted, -1)
    call sheet%text('Robinson projection. Dotted: the blocks of the ranks.', &
                    side_x + side_w, 884.0, 1.5, muted, 1)
  end subroutine draw_words

  !> The value that all but the highest `share` of the sea's cells in view stay below.
  real function upper_level(values, wet, share)
    real, intent(in) :: values(:, :)
    logical, intent(in) :: wet(:, :)
    real, intent(in) :: share
    real :: low, high, middle
    integer :: k
    low = 0.0
    high = max(maxval(values, mask=wet), 1.0e-6)
    do k = 1, 40
      middle = 0.5 * (low + high)
      if (real(count(wet .and. values > middle)) > share * real(count(wet))) then
        low = middle
      else
        high = middle
      end if
    end do
    upper_level = high
  end function upper_level

  subroutine draw_sea(sheet, grid, scene, g)
    type(canvas_t), intent(inout) :: sheet
    type(grid_t), intent(in) :: grid
    type(scene_t), intent(in) :: scene
    type(gauges_t), intent(in) :: g
    type(map_t) :: m
    type(layer_t) :: layer
    real :: x, y
    integer :: k
    layer%field = real(scene%height)
    layer%top = nice_above(upper_level(abs(layer%field), grid%wet, 0.01))
    call fill_land(layer%field, grid%wet)
    call m%prepare(left, top, main_w, main_h)
    call m%paint(sheet, layer)
    call draw_blocks(sheet, m, grid, scene)
    call to_sheet(m, real(scene%source_lon), real(scene%source_lat), x, y)
    call star(sheet, x, y)
    call sheet%text('uplift', x - 14.0, y - 8.0, 1.5, paper, 1, halo=ink)
    do k = 1, gauge_count
      call to_sheet(m, real(g%lon(k)), real(g%lat(k)), x, y)
      call sheet%stroke(x, y, x, y, 11.0, ink, 0.8)
      call sheet%stroke(x, y, x, y, 7.0, accent, 1.0)
      if (k > 1) call sheet%text(trim(g%name(k)), x + 11.0, y + 4.0, 1.5, paper, -1, halo=ink)
    end do
    call colour_bar(sheet, left, top + main_h + 14.0, main_w, layer)
  end subroutine draw_sea

  !> Dotted lines where one rank's block ends and the next begins.
  subroutine draw_blocks(sheet, m, grid, scene)
    type(canvas_t), intent(inout) :: sheet
    type(map_t), intent(in) :: m
    type(grid_t), intent(in) :: grid
    type(scene_t), intent(in) :: scene
    integer :: c
    real :: degree_of
    do c = 0, merge(scene%px, 0, scene%px > 1) - 1
      degree_of = real(c * grid%nx / scene%px) * real(grid%step)
      call dots(degree_of, degree_of, -72.0, 72.0)
    end do
    do c = 1, scene%py - 1
      degree_of = real(c * grid%ny / scene%py) * real(grid%step) - 72.0
      call dots(0.0, 360.0, degree_of, degree_of)
    end do

  contains

    subroutine dots(lon1, lon2, lat1, lat2)
      real, intent(in) :: lon1, lon2, lat1, lat2
      real :: x, y, t
      integer :: k, n
      n = nint(max(lon2 - lon1, lat2 - lat1))
      do k = 0, n
        t = real(k) / real(n)
        call to_sheet(m, lon1 + t * (lon2 - lon1), lat1 + t * (lat2 - lat1), x, y)
        if (x < m%x + 2.0 .or. x > m%x + m%w - 2.0) cycle
        if (y < m%y + 2.0 .or. y > m%y + m%h - 2.0) cycle
        call sheet%stroke(x, y, x, y, 1.6, paper, 0.55)
      end do
    end subroutine dots
  end subroutine draw_blocks

  subroutine star(sheet, x, y)
    type(canvas_t), intent(inout) :: sheet
    real, intent(in) :: x, y
    integer :: k
    real :: a, dx, dy
    do k = 0, 3
      a = real(k) * 0.785398
      dx = 9.0 * cos(a)
      dy = 9.0 * sin(a)
      call sheet%stroke(x - dx, y - dy, x + dx, y + dy, 2.2, paper, 1.0)
    end do
  end subroutine star

  !> A bar with its ticks at round values, spaced as compress spaces them.
  subroutine colour_bar(sheet, x, y, w, layer)
    type(canvas_t), intent(inout) :: sheet
    real, intent(in) :: x, y, w
    type(layer_t), intent(in) :: layer
    character(len=16) :: words
    real, parameter :: shares(5) = [0.0, 0.05, 0.2, 0.5, 1.0]
    real :: t, at, bar
    integer :: k, sign_of, align
    bar = 12.0
    do k = 0, nint(2.0 * w) - 1
      t = (real(k) + 0.5) / (2.0 * w)
      if (layer%both_signs) then
        call sheet%box(x + 0.5 * real(k), y, 0.5, bar, diverging(2.0 * t - 1.0))
      else
        call sheet%box(x + 0.5 * real(k), y, 0.5, bar, sequential(t))
      end if
    end do
    call sheet%frame(x, y, w, bar, faint)
    do sign_of = merge(-1, 1, layer%both_signs), 1, 2
      do k = 1, size(shares)
        t = real(sign_of) * compress(shares(k), 1.0)
        at = x + t * w
        if (layer%both_signs) at = x + (0.5 + 0.5 * t) * w
        call sheet%stroke(at, y + bar, at, y + bar + 4.0, 1.0, muted, 1.0)
        words = short(real(sign_of) * shares(k) * layer%top * 100.0)
        if (k == size(shares)) words = trim(words)//' cm'
        align = 0
        if (at < x + 10.0) align = -1
        if (at > x + w - 10.0) align = 1
        call sheet%text(trim(words), at, y + bar + 20.0, 1.5, muted, align)
      end do
    end do
  end subroutine colour_bar

  !> As few digits as say it.
  pure function short(x) result(text)
    real, intent(in) :: x
    character(len=:), allocatable :: text
    character(len=16) :: buffer
    if (abs(x) >= 20.0 .or. abs(x - anint(x)) < 0.005 * max(1.0, abs(x))) then
      write (buffer, '(i0)') nint(x)
    else if (abs(x) >= 1.0 .or. abs(10.0 * x - anint(10.0 * x)) < 0.01) then
      write (buffer, '(f8.1)') x
    else
      write (buffer, '(f8.2)') x
    end if
    text = trim(adjustl(buffer))
    if (text(1:1) == '.') text = '0'//text
    if (len(text) > 1) then
      if (text(1:2) == '-.') text = '-0'//text(2:)
    end if
  end function short

  subroutine draw_highest(sheet, grid, scene)
    type(canvas_t), intent(inout) :: sheet
    type(grid_t), intent(in) :: grid
    type(scene_t), intent(in) :: scene
    type(map_t) :: m
    type(layer_t) :: layer
    real, allocatable :: hours(:, :), reached(:, :)
    integer :: every
    call sheet%text('Highest water, and hours until the wave arrives', side_x, top - 10.0, 1.5, &
                    paper, -1)
    layer%field = real(scene%highest)
    layer%both_signs = .false.
    layer%top = nice_above(upper_level(layer%field, grid%wet, 0.004))
    call fill_land(layer%field, grid%wet)
    hours = real(scene%arrival) / 3600.0
    reached = merge(0.0, 1.0, grid%wet .and. hours < 0.0)
    call fill_land(hours, hours >= 0.0)
    call m%prepare(side_x, top, side_w, side_h)
    call m%paint(sheet, layer)
    every = max(1, nint(real(scene%hours) / 12.0))
    call m%isochrones(sheet, hours, reached, every, 1.1, paper)
    call label_hours(sheet, m, hours, scene, every)
    call colour_bar(sheet, side_x, top + side_h + 14.0, side_w, layer)
  end subroutine draw_highest

  !> Writes the hour on each line where a course from the source to southern Chile meets it.
  subroutine label_hours(sheet, m, hours, scene, every)
    type(canvas_t), intent(inout) :: sheet
    type(map_t), intent(in) :: m
    real, intent(in) :: hours(:, :)
    type(scene_t), intent(in) :: scene
    integer, intent(in) :: every
    real :: lon, lat, x, y
    character(len=4) :: digits
    integer :: k, i, j, next
    next = every
    if (next == 1) next = 2
    do k = 0, 400
      lon = real(scene%source_lon) + (265.0 - real(scene%source_lon)) * real(k) / 400.0
      lat = real(scene%source_lat) + (-45.0 - real(scene%source_lat)) * real(k) / 400.0
      i = min(size(hours, 1), 1 + int(modulo(lon, 360.0) * real(size(hours, 1)) / 360.0))
      j = min(size(hours, 2), 1 + int((lat + 72.0) * real(size(hours, 2)) / 144.0))
      if (hours(i, j) < real(next)) cycle
      if (hours(i, j) > real(next) + 0.3 * real(every)) exit
      call to_sheet(m, lon, lat, x, y)
      write (digits, '(i0)') next
      call sheet%text(trim(digits), x, y + 4.0, 1.5, paper, 0, halo=ink)
      next = next + max(every, merge(2, every, every == 1))
    end do
  end subroutine label_hours

  subroutine draw_gauges(sheet, scene, g)
    type(canvas_t), intent(inout) :: sheet
    type(scene_t), intent(in) :: scene
    type(gauges_t), intent(in) :: g
    integer :: k, hour, every
    real :: x, bottom
    character(len=8) :: digits
    call sheet%text('Four gauges (dots on the map), cm', side_x, gauge_top - 24.0, 1.5, paper, -1)
    bottom = gauge_top + gauge_step * real(gauge_count) - 22.0
    every = max(1, nint(real(scene%hours) / 10.0))
    do hour = 0, int(scene%hours + 0.001_rk), every
      x = side_x + side_w * real(hour) / real(scene%hours)
      call sheet%stroke(x, gauge_top - 12.0, x, bottom, 1.0, faint, 0.7)
      write (digits, '(i0)') hour
      if (hour + every > int(scene%hours + 0.001_rk)) digits = trim(digits)//' h'
      call sheet%text(trim(digits), min(x, side_x + side_w - 8.0), bottom + 18.0, 1.5, muted, 0)
    end do
    do k = 1, gauge_count
      call draw_series(sheet, real(scene%hours), g, k, gauge_top + gauge_step * real(k - 1))
    end do
  end subroutine draw_gauges

  subroutine draw_series(sheet, hours, g, k, y)
    type(canvas_t), intent(inout) :: sheet
    real, intent(in) :: hours, y
    type(gauges_t), intent(in) :: g
    integer, intent(in) :: k
    real :: middle, reach, x1, x2, y1, y2
    real, parameter :: room = 20.0
    integer :: n
    middle = y + 26.0
    reach = 100.0 * max(0.01, real(maxval(abs(g%height(k, :g%samples)))))
    call sheet%stroke(side_x, middle, side_x + side_w, middle, 1.0, faint, 1.0)
    do n = 2, g%samples
      x1 = side_x + side_w * real(g%hours(n - 1)) / hours
      x2 = side_x + side_w * real(g%hours(n)) / hours
      y1 = middle - room * 100.0 * real(g%height(k, n - 1)) / reach
      y2 = middle - room * 100.0 * real(g%height(k, n)) / reach
      call sheet%stroke(x1, y1, x2, y2, 1.8, diverging(sign(0.72, 2.0 * middle - y1 - y2)), 1.0)
    end do
    call sheet%text(trim(g%name(k)), side_x + 6.0, y - 2.0, 1.5, paper, -1, halo=ink)
    call sheet%text('highest '//short(100.0 * real(maxval(g%height(k, :g%samples)))), &
                    side_x + side_w - 4.0, y - 2.0, 1.5, muted, 1, halo=ink)
  end subroutine draw_series
end module picture
