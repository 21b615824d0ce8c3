! A sheet to paint on: rectangles, strokes with a round pen, and text.
!
! Everything is painted twice as large as it will be seen and then averaged, so edges are smooth.
! Coordinates are pixels of the finished picture, x to the right, y downwards.
module canvas
  use font, only: glyph_t, find_glyph, text_units
  implicit none
  private
  public :: canvas_t, oversampling, mix

  integer, parameter :: oversampling = 2

  type :: canvas_t
    integer :: width = 0, height = 0
    real, allocatable :: rgb(:, :, :)   !! (3, x, y), 0 .. 1, oversampled
  contains
    procedure :: start
    procedure :: box
    procedure :: frame
    procedure :: stroke
    procedure :: text
    procedure :: pixels
  end type canvas_t

contains

  subroutine start(self, width, height, colour)
    class(canvas_t), intent(inout) :: self
    integer, intent(in) :: width, height
    real, intent(in) :: colour(3)
    self%width = width
    self%height = height
    allocate (self%rgb(3, width * oversampling, height * oversampling))
    call self%box(0.0, 0.0, real(width), real(height), colour)
  end subroutine start

  pure function mix(a, b, share) result(c)
    real, intent(in) :: a(3), b(3), share   !! 0: a, 1: b
    real :: c(3)
    c = a + (b - a) * min(1.0, max(0.0, share))
  end function mix

  subroutine box(self, x, y, w, h, colour)
    class(canvas_t), intent(inout) :: self
    real, intent(in) :: x, y, w, h, colour(3)
    integer :: i, j, s
    s = oversampling
    do j = max(1, nint(y * s) + 1), min(size(self%rgb, 3), nint((y + h) * s))
      do i = max(1, nint(x * s) + 1), min(size(self%rgb, 2), nint((x + w) * s))
        self%rgb(:, i, j) = colour
      end do
    end do
  end subroutine box

  subroutine frame(self, x, y, w, h, colour)
    class(canvas_t), intent(inout) :: self
    real, intent(in) :: x, y, w, h, colour(3)
    call self%box(x, y, w, 1.0, colour)
    call self%box(x, y + h - 1.0, w, 1.0, colour)
    call self%box(x, y, 1.0, h, colour)
    call self%box(x + w - 1.0, y, 1.0, h, colour)
  end subroutine frame

  !> A line from (x1, y1) to (x2, y2) with round ends, `pen` pixels wide.
  subroutine stroke(self, x1, y1, x2, y2, pen, colour, opacity)
    class(canvas_t), intent(inout) :: self
    real, intent(in) :: x1, y1, x2, y2, pen, colour(3), opacity
    real :: s, ax, ay, bx, by, r, dx, dy, t, length2, cover
    integer :: i, j
    s = real(oversampling)
    ax = x1 * s
    ay = y1 * s
    bx = x2 * s
    by = y2 * s
    r = 0.5 * pen * s
    length2 = (bx - ax)**2 + (by - ay)**2
    do j = max(1, floor(min(ay, by) - r)), min(size(self%rgb, 3), ceiling(max(ay, by) + r) + 1)
      do i = max(1, floor(min(ax, bx) - r)), min(size(self%rgb, 2), ceiling(max(ax, bx) + r) + 1)
        dx = real(i) - 0.5 - ax
        dy = real(j) - 0.5 - ay
        t = 0.0
        if (length2 > 0.0) t = min(1.0, max(0.0, (dx * (bx - ax) + dy * (by - ay)) / length2))
        cover = r + 0.5 - sqrt((dx - t * (bx - ax))**2 + (dy - t * (by - ay))**2)
        if (cover <= 0.0) cycle
        self%rgb(:, i, j) = mix(self%rgb(:, i, j), colour, opacity * min(1.0, cover))
      end do
    end do
  end subroutine stroke

  !> Text with its base line at y; capitals are 6 units high. `align` is -1 (x is the left end),
  !> 0 (the middle) or 1 (the right end).
  subroutine text(self, words, x, y, unit, colour, align, halo)
    class(canvas_t), intent(inout) :: self
    character(len=*), intent(in) :: words
    real, intent(in) :: x, y, unit, colour(3)
    integer, intent(in) :: align
    real, intent(in), optional :: halo(3)   !! colour of a rim that sets text off from a map
    real :: left
    integer :: k, pass
    type(glyph_t) :: g
    do pass = merge(1, 2, present(halo)), 2
      left = x - 0.5 * real(align + 1) * unit * real(text_units(words) - 1)
      do k = 1, len_trim(words)
        g = find_glyph(words(k:k))
        if (pass == 1) call draw_glyph(self, g, left, y, unit, 3.2 * unit, halo, 0.55)
        if (pass == 2) call draw_glyph(self, g, left, y, unit, 0.95 * unit, colour, 1.0)
        left = left + real(g%width + 1) * unit
      end do
    end do
  end subroutine text

  !> Joins points that touch; two that touch at a corner only where no side joins them already.
  subroutine draw_glyph(self, g, left, base, unit, pen, colour, opacity)
    class(canvas_t), intent(inout) :: self
    type(glyph_t), intent(in) :: g
    real, intent(in) :: left, base, unit, pen, colour(3), opacity
    integer :: i, j
    logical :: alone
    do j = 1, ubound(g%dot, 2) - 1
      do i = 1, ubound(g%dot, 1) - 1
        if (.not. g%dot(i, j)) cycle
        alone = .true.
        call join(1, 0, g%dot(i + 1, j))
        call join(0, 1, g%dot(i, j + 1))
        call join(1, 1, g%dot(i + 1, j + 1) .and. .not. (g%dot(i + 1, j) .or. g%dot(i, j + 1)))
        call join(-1, 1, g%dot(i - 1, j + 1) .and. .not. (g%dot(i - 1, j) .or. g%dot(i, j + 1)))
        if (alone) call join(0, 0, .true.)
      end do
    end do

  contains

    subroutine join(di, dj, really)
      integer, intent(in) :: di, dj
      logical, intent(in) :: really
      if (.not. really) return
      alone = .false.
      call self%stroke(left + real(i - 1) * unit, base + real(j - 7) * unit, &
                       left + real(i - 1 + di) * unit, base + real(j - 7 + dj) * unit, &
                       pen, colour, opacity)
    end subroutine join
  end subroutine draw_glyph

  !> The finished picture, (3, width, height), 0 .. 255.
  function pixels(self) result(rgb)
    class(canvas_t), intent(in) :: self
    integer :: rgb(3, self%width, self%height)
    integer :: i, j, k, s
    s = oversampling
    do j = 1, self%height
      do i = 1, self%width
        do k = 1, 3
          rgb(k, i, j) = nint(255.0 / real(s * s) &
                              * sum(self%rgb(k, s * (i - 1) + 1:s * i, s * (j - 1) + 1:s * j)))
        end do
      end do
    end do
    rgb = min(255, max(0, rgb))
  end function pixels
end module canvas
