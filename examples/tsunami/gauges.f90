! Tide gauges: the height of the sea at a few places, sampled as time passes.
!
! Each place lies in one rank's block. The others keep zeros, so a sum over ranks brings all series
! together without changing a bit.
module gauges
  use comm_layer, only: comm_t, rk
  use decomposition, only: block_t
  use ocean, only: grid_t, wet_cell_near
  use waves, only: model_t, at_height
  implicit none
  private
  public :: gauges_t, gauge_count

  integer, parameter :: gauge_count = 4

  type :: gauges_t
    character(len=24) :: name(gauge_count) = [character(len=24) :: &
      'Off Tohoku', 'Midway', 'Hilo, Hawaii', 'Crescent City']
    real(rk) :: lon(gauge_count) = [147.5_rk, 182.6_rk, 205.5_rk, 234.5_rk]
    real(rk) :: lat(gauge_count) = [37.0_rk, 28.2_rk, 20.2_rk, 41.7_rk]
    integer :: cell(2, gauge_count) = 0          !! on my block; 0 where another rank has it
    integer :: samples = 0
    real(rk) :: interval = 120.0_rk              !! s
    real(rk), allocatable :: hours(:)
    real(rk), allocatable :: height(:, :)        !! m, (gauge, sample)
  contains
    procedure :: start
    procedure :: listen
    procedure :: share
  end type gauges_t

contains

  subroutine start(self, grid, b, hours)
    class(gauges_t), intent(inout) :: self
    type(grid_t), intent(in) :: grid
    type(block_t), intent(in) :: b
    real(rk), intent(in) :: hours
    integer :: k, ij(2)
    do k = 1, gauge_count
      ij = wet_cell_near(grid, self%lon(k), self%lat(k)) - [b%i0, b%j0]
      if (all(ij >= 1) .and. ij(1) <= b%nx .and. ij(2) <= b%ny) self%cell(:, k) = ij
    end do
    k = int(hours * 3600.0_rk / self%interval) + 2
    allocate (self%hours(k), self%height(gauge_count, k), source=0.0_rk)
  end subroutine start

  !> Takes a sample when one is due.
  subroutine listen(self, m)
    class(gauges_t), intent(inout) :: self
    type(model_t), intent(in) :: m
    integer :: k
    if (self%samples == size(self%hours)) return
    if (m%time < real(self%samples, rk) * self%interval) return
    self%samples = self%samples + 1
    self%hours(self%samples) = m%time / 3600.0_rk
    do k = 1, gauge_count
      if (self%cell(1, k) > 0) self%height(k, self%samples) = &
        m%now(self%cell(1, k), self%cell(2, k), at_height)
    end do
  end subroutine listen

  !> Afterwards every rank has all series.
  subroutine share(self, comm)
    class(gauges_t), intent(inout) :: self
    class(comm_t), intent(inout) :: comm
    real(rk), allocatable :: flat(:)
    flat = reshape(self%height, [size(self%height)])
    call comm%sum_real(flat)
    self%height = reshape(flat, shape(self%height))
  end subroutine share
end module gauges
