! Shallow-water waves on the rotating sphere.
!
! Problem: for a tsunami (hundreds of km long, 4 km of water) the water moves as one column, so
! the height z of the surface and the column's velocity (u, v) obey the shallow-water equations,
! here in vector-invariant form (a Earth's radius, D = h + z depth of water, phi latitude, l
! longitude):
!
!   dz/dt = -1/(a cos phi) [ d(uD)/dl + d(vD cos phi)/dphi ]
!   du/dt =  q vD - 1/(a cos phi) dB/dl - c |u| u / D        q = (f + curl u) / D
!   dv/dt = -q uD - 1/a           dB/dphi - c |u| v / D      B = g z + (u^2 + v^2) / 2
!
! Scheme. Arakawa's C grid: z in the middle of a cell, u on its west face, v on its south face, q on
! its south-west corner (Arakawa and Lamb 1977, DOI 10.1016/B978-0-12-460817-7.50009-4). Rotation
! and the kinetic energy's gradient in Sadourny's form, which conserves energy (Sadourny 1975, DOI
! 10.1175/1520-0469(1975)032<0680:TDOFDM>2.0.CO;2), stepped by Adams and Bashforth's second order
! for unequal steps. Height and pressure by forward-backward: first z from old currents, then the
! currents from the new z (Mesinger and Arakawa 1976, GARP Publications Series 17), stable while a
! wave crosses less than a cell in a step. Bottom friction is implicit. No water passes a face whose
! neighbour is land, and currents slip along coasts.
!
! Results do not depend on how the globe is cut: each cell's update is the same arithmetic in the
! same order wherever the cell lies, and nothing but an exact maximum is shared. A step uses values
! two cells to the west and south (the flux into the cell next door, at the old time) and one to the
! east and north: therefore the halo is two cells wide, and one exchange a step is enough.
module waves
  use comm_layer, only: rk
  use decomposition, only: block_t, halo_width
  use ocean, only: grid_t, earth_radius, degree
  implicit none
  private
  public :: model_t, make_model, step_model, courant_rate, gravity
  public :: at_height, at_u, at_v

  integer, parameter :: at_height = 1, at_u = 2, at_v = 3
  real(rk), parameter :: gravity = 9.80665_rk           !! m s-2
  real(rk), parameter :: rotation = 7.292115e-5_rk      !! rad s-1
  real(rk), parameter :: arrival_height = 0.005_rk      !! m; a wave has arrived

  type :: model_t
    integer :: nx = 0, ny = 0
    real(rk) :: drag = 0.0_rk                           !! bottom friction, no unit
    real(rk), allocatable :: now(:, :, :)               !! height m, u and v m/s; with halo
    real(rk), allocatable :: depth(:, :)                !! m, with halo
    real(rk), allocatable :: open_u(:, :), open_v(:, :) !! 1 where water may pass a face, else 0
    real(rk), allocatable :: open_q(:, :)               !! 1 where the curl is complete, else 0
    real(rk), allocatable :: wet_q(:, :)                !! wet cells around a corner, 0 .. 4
    real(rk), allocatable :: cos_c(:), cos_v(:), f(:)   !! rows: centre, south face, Coriolis s-1
    real(rk), allocatable :: cell_rate(:)               !! 1/m: inverse of a cell's crossing length
    real(rk) :: dl = 0.0_rk                             !! cell size in radians
    real(rk), allocatable :: water(:, :), flux_u(:, :), flux_v(:, :), q(:, :), ke(:, :)
    real(rk), allocatable :: tend(:, :, :), tend_old(:, :, :)
    real(rk), allocatable :: highest(:, :)              !! m, since the start
    real(rk), allocatable :: arrival(:, :)              !! s, negative before
    real(rk) :: time = 0.0_rk, dt_old = 0.0_rk          !! s
  end type model_t

contains

  subroutine make_model(grid, b, drag, height, m)
    type(grid_t), intent(in) :: grid
    type(block_t), intent(in) :: b
    real(rk), intent(in) :: drag
    real(rk), intent(in) :: height(:, :)   !! of the surface at the start, on my block
    type(model_t), intent(out) :: m
    integer :: i, j, gi, gj, h, nx, ny
    h = halo_width
    nx = b%nx
    ny = b%ny
    m%nx = nx
    m%ny = ny
    m%drag = drag
    m%dl = grid%step * degree
    allocate (m%now(1 - h:nx + h, 1 - h:ny + h, 3), source=0.0_rk)
    allocate (m%depth(1 - h:nx + h, 1 - h:ny + h), source=0.0_rk)
    do j = 1 - h, ny + h
      gj = j + b%j0
      if (gj < 1 .or. gj > grid%ny) cycle
      do i = 1 - h, nx + h
        gi = modulo(i + b%i0 - 1, grid%nx) + 1
        m%depth(i, j) = grid%depth(gi, gj)
      end do
    end do
    m%now(1:nx, 1:ny, at_height) = merge(height, 0.0_rk, m%depth(1:nx, 1:ny) > 0.0_rk)
    allocate (m%water(1 - h:nx + h, 1 - h:ny + h), m%flux_u(0:nx + 1, 0:ny + 1), &
              m%flux_v(0:nx + 1, 0:ny + 1), m%q(1:nx + 1, 1:ny + 1), m%ke(0:nx, 0:ny), &
              m%tend(nx, ny, 2), m%tend_old(nx, ny, 2), source=0.0_rk)
    allocate (m%highest(nx, ny), source=0.0_rk)
    allocate (m%arrival(nx, ny), source=-1.0_rk)
    call make_rows(b, m)
    call make_faces(m)
  end subroutine make_model

  !> Lengths and rotation by row. From the global row number, so that every block has the same.
  subroutine make_rows(b, m)
    type(block_t), intent(in) :: b
    type(model_t), intent(inout) :: m
    integer :: j
    real(rk) :: phi_c, phi_v
    allocate (m%cos_c(-1:m%ny + 2), m%cos_v(-1:m%ny + 2), m%f(-1:m%ny + 2), m%cell_rate(m%ny))
    do j = -1, m%ny + 2
      phi_c = (real(j + b%j0, rk) - 0.5_rk - 0.5_rk * real(b%ny_global, rk)) * m%dl
      phi_v = (real(j + b%j0, rk) - 1.0_rk - 0.5_rk * real(b%ny_global, rk)) * m%dl
      m%cos_c(j) = cos(phi_c)
      m%cos_v(j) = cos(phi_v)
      m%f(j) = 2.0_rk * rotation * sin(phi_v)
    end do
    do j = 1, m%ny
      m%cell_rate(j) = sqrt(1.0_rk + 1.0_rk / m%cos_c(j)**2) / (earth_radius * m%dl)
    end do
  end subroutine make_rows

  subroutine make_faces(m)
    type(model_t), intent(inout) :: m
    integer :: i, j
    real(rk), allocatable :: wet(:, :)
    allocate (wet, mold=m%depth)
    wet = merge(1.0_rk, 0.0_rk, m%depth > 0.0_rk)
    allocate (m%open_u(0:m%nx + 1, 0:m%ny + 1), m%open_v(0:m%nx + 1, 0:m%ny + 1), &
              m%open_q(1:m%nx + 1, 1:m%ny + 1), m%wet_q(1:m%nx + 1, 1:m%ny + 1))
    do j = 0, m%ny + 1
      do i = 0, m%nx + 1
        m%open_u(i, j) = wet(i, j) * wet(i - 1, j)
        m%open_v(i, j) = wet(i, j) * wet(i, j - 1)
      end do
    end do
    do j = 1, m%ny + 1
      do i = 1, m%nx + 1
        m%wet_q(i, j) = wet(i, j) + wet(i - 1, j) + wet(i, j - 1) + wet(i - 1, j - 1)
        m%open_q(i, j) = merge(1.0_rk, 0.0_rk, m%wet_q(i, j) > 3.5_rk)
      end do
    end do
  end subroutine make_faces

  !> Greatest Courant number per second of step on this block, 1/s. The time step is what is
  !> allowed divided by the maximum over all ranks.
  pure real(rk) function courant_rate(m) result(rate)
    type(model_t), intent(in) :: m
    integer :: i, j
    real(rk) :: row
    rate = 0.0_rk
    do j = 1, m%ny
      row = 0.0_rk
      do i = 1, m%nx
        row = max(row, sqrt(gravity * (m%depth(i, j) + m%now(i, j, at_height))) &
                  + sqrt(m%now(i, j, at_u)**2 + m%now(i, j, at_v)**2))
      end do
      rate = max(rate, row * m%cell_rate(j))
    end do
  end function courant_rate

  !> One step of dt seconds. The halo of m%now must have been exchanged.
  subroutine step_model(m, dt)
    type(model_t), intent(inout) :: m
    real(rk), intent(in) :: dt
    real(rk) :: old_part
    call fluxes(m)
    call rotation_and_kinetic(m)
    old_part = 0.0_rk
    if (m%dt_old > 0.0_rk) old_part = 0.5_rk * dt / m%dt_old
    call new_height(m, dt)
    call new_currents(m, dt, old_part)
    call swap(m%tend, m%tend_old)
    m%time = m%time + dt
    m%dt_old = dt
    call remember(m)
  end subroutine step_model

  subroutine swap(a, b)
    real(rk), allocatable, intent(inout) :: a(:, :, :), b(:, :, :)
    real(rk), allocatable :: c(:, :, :)
    call move_alloc(a, c)
    call move_alloc(b, a)
    call move_alloc(c, b)
  end subroutine swap

  !> Depth of water, and water through each face (m2/s; times cos phi for the south face).
  subroutine fluxes(m)
    type(model_t), intent(inout) :: m
    integer :: i, j
    m%water = m%depth + m%now(:, :, at_height)
    do j = 0, m%ny + 1
      do i = 0, m%nx + 1
        m%flux_u(i, j) = m%open_u(i, j) * m%now(i, j, at_u) &
                         * (0.5_rk * (m%water(i - 1, j) + m%water(i, j)))
        m%flux_v(i, j) = m%open_v(i, j) * m%now(i, j, at_v) * m%cos_v(j) &
                         * (0.5_rk * (m%water(i, j - 1) + m%water(i, j)))
      end do
    end do
  end subroutine fluxes

  !> The tendencies (m/s2) that come from q and from the kinetic energy, at the old time.
  subroutine rotation_and_kinetic(m)
    type(model_t), intent(inout) :: m
    integer :: i, j
    real(rk) :: curl, per_lon, per_lat
    per_lat = 1.0_rk / (earth_radius * m%dl)
    do j = 1, m%ny + 1
      do i = 1, m%nx + 1
        curl = (m%now(i, j, at_v) - m%now(i - 1, j, at_v) - m%now(i, j, at_u) * m%cos_c(j) &
                + m%now(i, j - 1, at_u) * m%cos_c(j - 1)) * (per_lat / m%cos_v(j))
        ! The depth at a corner is the mean over its wet cells; a dry corner has no flux beside it.
        m%q(i, j) = (m%f(j) + m%open_q(i, j) * curl) * m%wet_q(i, j) &
                    / max(1.0_rk, (m%water(i, j) + m%water(i - 1, j)) &
                          + (m%water(i, j - 1) + m%water(i - 1, j - 1)))
      end do
    end do
    do j = 0, m%ny
      do i = 0, m%nx
        m%ke(i, j) = 0.25_rk * (m%now(i, j, at_u)**2 + m%now(i + 1, j, at_u)**2 &
                                + (m%now(i, j, at_v)**2 * m%cos_v(j) &
                                   + m%now(i, j + 1, at_v)**2 * m%cos_v(j + 1)) / m%cos_c(j))
      end do
    end do
    do j = 1, m%ny
      per_lon = per_lat / m%cos_c(j)
      do i = 1, m%nx
        m%tend(i, j, 1) = &
          0.25_rk * (m%q(i, j) * (m%flux_v(i - 1, j) + m%flux_v(i, j)) &
                     + m%q(i, j + 1) * (m%flux_v(i - 1, j + 1) + m%flux_v(i, j + 1))) &
          / m%cos_c(j) - (m%ke(i, j) - m%ke(i - 1, j)) * per_lon
        m%tend(i, j, 2) = &
          -0.25_rk * (m%q(i, j) * (m%flux_u(i, j - 1) + m%flux_u(i, j)) &
                      + m%q(i + 1, j) * (m%flux_u(i + 1, j - 1) + m%flux_u(i + 1, j))) &
          - (m%ke(i, j) - m%ke(i, j - 1)) * per_lat
      end do
    end do
  end subroutine rotation_and_kinetic

  !> Conservation of water. Also one row and column beyond the block, for the pressure there.
  subroutine new_height(m, dt)
    type(model_t), intent(inout) :: m
    real(rk), intent(in) :: dt
    integer :: i, j
    real(rk) :: scale
    do j = 0, m%ny
      scale = dt / (earth_radius * m%dl * m%cos_c(j))
      do i = 0, m%nx
        m%now(i, j, at_height) = m%now(i, j, at_height) &
                                 - scale * ((m%flux_u(i + 1, j) - m%flux_u(i, j)) &
                                            + (m%flux_v(i, j + 1) - m%flux_v(i, j)))
      end do
    end do
  end subroutine new_height

  subroutine new_currents(m, dt, old_part)
    type(model_t), intent(inout) :: m
    real(rk), intent(in) :: dt, old_part
    real(rk) :: u, v, speed, per_lon, per_lat, c_lon, c_lat, new_part
    real(rk) :: row(m%nx, 2)
    real(rk) :: u_south(m%nx + 1)
    integer :: i, j
    new_part = 1.0_rk + old_part
    per_lat = 1.0_rk / (earth_radius * m%dl)
    c_lat = dt * gravity * per_lat
    ! Friction takes the speed at the old time, whose rows are overwritten on the way north.
    u_south = m%now(1:m%nx + 1, 0, at_u)
    do j = 1, m%ny
      per_lon = per_lat / m%cos_c(j)
      c_lon = dt * gravity * per_lon
      do i = 1, m%nx
        u = m%now(i, j, at_u)
        v = 0.25_rk * ((m%now(i - 1, j, at_v) + m%now(i, j, at_v)) &
                       + (m%now(i - 1, j + 1, at_v) + m%now(i, j + 1, at_v)))
        speed = sqrt(u * u + v * v)
        row(i, 1) = m%open_u(i, j) &
                    * (u + dt * (new_part * m%tend(i, j, 1) - old_part * m%tend_old(i, j, 1)) &
                       - c_lon * (m%now(i, j, at_height) - m%now(i - 1, j, at_height))) &
                    / (1.0_rk + dt * m%drag * speed &
                       / max(1.0_rk, 0.5_rk * (m%water(i - 1, j) + m%water(i, j))))
        v = m%now(i, j, at_v)
        u = 0.25_rk * ((u_south(i) + u_south(i + 1)) &
                       + (m%now(i, j, at_u) + m%now(i + 1, j, at_u)))
        speed = sqrt(u * u + v * v)
        row(i, 2) = m%open_v(i, j) &
                    * (v + dt * (new_part * m%tend(i, j, 2) - old_part * m%tend_old(i, j, 2)) &
                       - c_lat * (m%now(i, j, at_height) - m%now(i, j - 1, at_height))) &
                    / (1.0_rk + dt * m%drag * speed &
                       / max(1.0_rk, 0.5_rk * (m%water(i, j - 1) + m%water(i, j))))
      end do
      u_south = m%now(1:m%nx + 1, j, at_u)
      m%now(1:m%nx, j, at_u) = row(1:m%nx, 1)
      m%now(1:m%nx, j, at_v) = row(1:m%nx, 2)
    end do
  end subroutine new_currents

  !> Keeps the highest water of each cell and the time when the first wave came.
  subroutine remember(m)
    type(model_t), intent(inout) :: m
    integer :: i, j
    do j = 1, m%ny
      do i = 1, m%nx
        m%highest(i, j) = max(m%highest(i, j), m%now(i, j, at_height))
        if (abs(m%now(i, j, at_height)) > arrival_height .and. m%arrival(i, j) < 0.0_rk) &
          m%arrival(i, j) = m%time
      end do
    end do
  end subroutine remember
end module waves
