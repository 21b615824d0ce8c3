! Colours of the picture, and the scale that gives small waves and large ones room.
module palette
  use canvas, only: mix
  implicit none
  private
  public :: diverging, sequential, compress, nice_above
  public :: ink, paper, muted, faint, land_colour, coast_colour, accent

  real, parameter :: ink(3) = [0.039, 0.055, 0.086]           !! behind everything
  real, parameter :: paper(3) = [0.93, 0.92, 0.88]            !! main text
  real, parameter :: muted(3) = [0.62, 0.66, 0.70]            !! second text
  real, parameter :: faint(3) = [0.22, 0.27, 0.34]            !! frames
  real, parameter :: land_colour(3) = [0.345, 0.325, 0.300]
  real, parameter :: coast_colour(3) = [0.78, 0.73, 0.65]
  real, parameter :: accent(3) = [0.98, 0.75, 0.36]

  !> Dark in the middle, so that still water recedes and both signs shine.
  real, parameter :: crest(3, 5) = reshape([0.045, 0.085, 0.150, 0.45, 0.12, 0.16, &
                                            0.86, 0.30, 0.20, 0.99, 0.68, 0.34, &
                                            1.00, 0.96, 0.80], [3, 5])
  real, parameter :: trough(3, 5) = reshape([0.045, 0.085, 0.150, 0.06, 0.24, 0.45, &
                                             0.12, 0.47, 0.74, 0.42, 0.76, 0.93, &
                                             0.88, 0.98, 1.00], [3, 5])
  real, parameter :: heat(3, 7) = reshape([0.035, 0.055, 0.110, 0.10, 0.10, 0.30, &
                                           0.32, 0.12, 0.45, 0.64, 0.18, 0.42, &
                                           0.90, 0.36, 0.30, 0.99, 0.68, 0.30, &
                                           0.99, 0.97, 0.75], [3, 7])

contains

  pure function ramp(colours, t) result(c)
    real, intent(in) :: colours(:, :), t   !! t from 0 to 1
    real :: c(3), x
    integer :: k
    x = min(1.0, max(0.0, t)) * real(size(colours, 2) - 1)
    k = min(size(colours, 2) - 1, 1 + int(x))
    c = mix(colours(:, k), colours(:, k + 1), x - real(k - 1))
  end function ramp

  !> Colour of t from -1 (lowest) to 1 (highest).
  pure function diverging(t) result(c)
    real, intent(in) :: t
    real :: c(3)
    if (t >= 0.0) then
      c = ramp(crest, t)
    else
      c = ramp(trough, -t)
    end if
  end function diverging

  !> Colour of t from 0 to 1.
  pure function sequential(t) result(c)
    real, intent(in) :: t
    real :: c(3)
    c = ramp(heat, t)
  end function sequential

  !> -1 .. 1 for -top .. top by a signed power; colour bars are drawn with the same function.
  elemental real function compress(x, top)
    real, intent(in) :: x, top
    compress = sign(min(1.0, abs(x) / top)**0.68, x)
  end function compress

  !> The next of 1, 2, 5 times a power of ten that is not below x.
  pure real function nice_above(x)
    real, intent(in) :: x
    real :: power
    integer :: k
    real, parameter :: steps(4) = [1.0, 2.0, 5.0, 10.0]
    power = 10.0**floor(log10(max(x, 1.0e-6)))
    do k = 1, size(steps)
      nice_above = steps(k) * power
      if (nice_above >= 0.999 * x) return
    end do
  end function nice_above
end module palette
