! What a modeller checks a run by: mass, energy, extremes, and a checksum of the field's bits.
module diagnostics
  use comm_layer, only: comm_t, rk, int64
  use decomposition, only: block_t
  use ocean, only: earth_radius
  use waves, only: model_t, gravity, at_height, at_u, at_v
  implicit none
  private
  public :: budget_t, take_budget, field_checksum

  type :: budget_t
    real(rk) :: mass = 0.0_rk       !! m3 of water above the undisturbed surface
    real(rk) :: moved = 0.0_rk      !! m3, the same without signs: what rounding is measured by
    real(rk) :: energy = 0.0_rk     !! J, potential and kinetic
    real(rk) :: highest = 0.0_rk    !! m
    real(rk) :: lowest = 0.0_rk     !! m
    real(rk) :: shallowest = 0.0_rk !! m of water in the shallowest wet cell
    logical :: finite = .true.
  end type budget_t

  real(rk), parameter :: density = 1025.0_rk   !! kg m-3
  integer(int64), parameter :: low_bits = 4294967295_int64

contains

  !> Sums and extremes over all ranks. The halo of m%now must have been exchanged.
  !>
  !> Currents are half a step ahead of heights. So the potential energy takes the product of this
  !> height and the next: with it, forward-backward stepping keeps the energy of linear waves
  !> exactly, where the plain square would wobble by the step's length.
  subroutine take_budget(comm, m, total)
    class(comm_t), intent(inout) :: comm
    type(model_t), intent(in) :: m
    type(budget_t), intent(out) :: total
    real(rk), allocatable :: cells(:, :, :)
    logical, allocatable :: wet(:, :)
    real(rk) :: extremes(3), area, z, water
    integer :: i, j
    allocate (cells(m%nx, m%ny, 3))
    wet = m%depth(1:m%nx, 1:m%ny) > 0.0_rk
    extremes = -huge(1.0_rk)
    do j = 1, m%ny
      area = (earth_radius * m%dl)**2 * m%cos_c(j)
      do i = 1, m%nx
        if (.not. wet(i, j)) cycle
        z = m%now(i, j, at_height)
        water = m%depth(i, j) + z
        cells(i, j, 1) = area * z
        cells(i, j, 2) = area * abs(z)
        cells(i, j, 3) = 0.5_rk * density * area &
                         * (gravity * z * (z - m%dt_old * outflow(m, i, j)) &
                            + 0.5_rk * (water + m%depth(i - 1, j) + m%now(i - 1, j, at_height)) &
                            * m%now(i, j, at_u)**2 &
                            + 0.5_rk * (water + m%depth(i, j - 1) + m%now(i, j - 1, at_height)) &
                            * m%now(i, j, at_v)**2 * (m%cos_v(j) / m%cos_c(j)))
        extremes = max(extremes, [z, -z, -water])
      end do
    end do
    total%mass = comm%sum_cells(cells(:, :, 1), wet)
    total%moved = comm%sum_cells(cells(:, :, 2), wet)
    total%energy = comm%sum_cells(cells(:, :, 3), wet)
    call comm%max_real(extremes)
    total%highest = extremes(1)
    total%lowest = -extremes(2)
    total%shallowest = -extremes(3)
    ! A comparison with a NaN is false, so this also catches one.
    total%finite = abs(total%energy) < huge(1.0_rk) .and. total%shallowest > 0.0_rk
  end subroutine take_budget

  !> How fast the surface of a cell falls, m/s.
  pure real(rk) function outflow(m, i, j)
    type(model_t), intent(in) :: m
    integer, intent(in) :: i, j
    outflow = (face(i + 1, j, i, j) * m%now(i + 1, j, at_u) &
               - face(i, j, i - 1, j) * m%now(i, j, at_u) &
               + face(i, j + 1, i, j) * m%now(i, j + 1, at_v) * m%cos_v(j + 1) &
               - face(i, j, i, j - 1) * m%now(i, j, at_v) * m%cos_v(j)) &
              / (earth_radius * m%dl * m%cos_c(j))

  contains

    !> Depth of water between two cells.
    pure real(rk) function face(i1, j1, i2, j2)
      integer, intent(in) :: i1, j1, i2, j2
      face = 0.5_rk * (m%depth(i1, j1) + m%now(i1, j1, at_height) &
                       + m%depth(i2, j2) + m%now(i2, j2, at_height))
    end function face
  end function outflow

  !> 16 hexadecimal digits that depend on every bit of height and currents and on the place of each
  !> number, and on neither the number of ranks nor the order of the sum: each number is hashed
  !> together with its global index into two words of 32 bits, and the words are added as integers.
  subroutine field_checksum(comm, b, m, text)
    class(comm_t), intent(inout) :: comm
    type(block_t), intent(in) :: b
    type(model_t), intent(in) :: m
    character(len=16), intent(out) :: text
    integer(int64) :: sums(2), bits, place, word(3)
    integer :: i, j, k
    sums = 0_int64
    do k = 1, 3
      do j = 1, m%ny
        do i = 1, m%nx
          bits = transfer(m%now(i, j, k), bits)
          place = int(b%i0 + i - 1, int64) &
                  + int(b%nx_global, int64) * (int(b%j0 + j - 1, int64) &
                                               + int(b%ny_global, int64) * int(k - 1, int64))
          word = [place, iand(bits, low_bits), iand(shiftr(bits, 32), low_bits)]
          sums(1) = sums(1) + hash(word, 374761393_int64)
          sums(2) = sums(2) + hash(word, 1274126177_int64)
        end do
      end do
    end do
    ! 2**32 numbers of 32 bits are needed to overflow these sums.
    call comm%sum_integer(sums)
    write (text, '(2z8.8)') iand(sums(1), low_bits), iand(sums(2), low_bits)
  end subroutine field_checksum

  integer(int64) pure function hash(words, odd)
    integer(int64), intent(in) :: words(:), odd   !! odd below 2**31: no product overflows
    integer :: k
    hash = odd
    do k = 1, size(words)
      hash = iand(ieor(hash, words(k)) * odd, low_bits)
      hash = ieor(hash, shiftr(hash, 15))
    end do
    hash = iand(hash * 668265263_int64, low_bits)
    hash = ieor(hash, shiftr(hash, 13))
  end function hash
end module diagnostics
