! The main program: reads settings, cuts the globe into blocks, steps the waves, and reports.
! README.md says how to build and run it.
program tsunami
  use, intrinsic :: iso_fortran_env, only: output_unit, error_unit
  use comm_layer, only: comm_t, rk, int64
  use comm_mpi, only: make_mpi_comm
  use comm_kolo, only: make_kolo_comm, kolo_is_built
  use decomposition, only: block_t, halo_t, make_block, make_halo, gather_field
  use settings, only: settings_t, comm_choice, read_settings
  use ocean, only: grid_t, make_grid, surface_uplift
  use waves, only: model_t, make_model, step_model, courant_rate, at_height
  use diagnostics, only: budget_t, take_budget, field_checksum
  use gauges, only: gauges_t
  use output_netcdf, only: history_t
  use picture, only: scene_t, draw_picture
  implicit none

  !> Mass may drift by rounding alone: this share of the water that was moved.
  real(rk), parameter :: allowed_drift = 1.0e-10_rk

  class(comm_t), allocatable :: comm
  type(settings_t) :: s
  type(grid_t) :: grid
  type(block_t) :: b
  type(halo_t) :: halo
  type(model_t) :: m
  type(gauges_t) :: g
  type(history_t) :: history
  type(budget_t) :: first, last
  real(rk), allocatable :: whole(:, :)
  integer :: status, steps
  logical :: go
  real(rk) :: seconds, dt

  call open_comm(go)
  status = 2
  if (go) call read_settings(comm, s, go, status)
  if (go) call prepare(go, status)
  if (go) then
    call run()
    call conclude(status)
  end if
  call comm%finish()
  if (status /= 0) stop status, quiet = .true.

contains

  subroutine open_comm(go)
    logical, intent(out) :: go
    character(len=4) :: choice
    choice = comm_choice()
    go = choice == 'mpi' .or. (choice == 'kolo' .and. kolo_is_built)
    if (choice == 'kolo' .and. kolo_is_built) then
      call make_kolo_comm(comm)
    else
      call make_mpi_comm(comm)
    end if
    call comm%start()
    if (go .or. comm%rank /= 0) return
    if (choice == 'kolo') then
      write (error_unit, '(a)') 'tsunami: this program was built without kolo. Build it with '// &
        '"make KOLO_PREFIX=/where/kolo/is/installed", or run it with "--comm mpi".'
    else
      write (error_unit, '(a)') 'tsunami: --comm takes kolo or mpi. Try: tsunami --help'
    end if
  end subroutine open_comm

  subroutine prepare(go, status)
    logical, intent(out) :: go
    integer, intent(out) :: status
    real(rk), allocatable :: start(:, :)
    integer :: i, j
    status = 0
    call make_grid(s%resolution, grid)
    b = make_block(grid%nx, grid%ny, comm%nranks, comm%rank)
    go = b%px > 0
    if (.not. go) then
      status = 2
      if (comm%rank == 0) write (error_unit, '(3(a,i0),a)') 'tsunami: ', comm%nranks, &
        ' ranks cannot share ', grid%nx, ' x ', grid%ny, ' cells. Use fewer ranks or more cells.'
      return
    end if
    allocate (start(b%nx, b%ny))
    do j = 1, b%ny
      do i = 1, b%nx
        start(i, j) = surface_uplift(s%uplift, grid%lon(i + b%i0), grid%lat(j + b%j0))
      end do
    end do
    call make_model(grid, b, s%drag, start, m)
    call make_halo(b, comm%rank, 3, halo)
    call g%start(grid, b, s%hours)
    allocate (whole(merge(grid%nx, 1, comm%rank == 0), merge(grid%ny, 1, comm%rank == 0)))
    if (comm%rank == 0 .and. (s%netcdf .or. s%picture)) call make_folder()
  end subroutine prepare

  subroutine make_folder()
    integer :: failed
    character(len=len(s%out)) :: quoted
    ! Fortran cannot make folders. A name with a quote in it must exist already.
    quoted = s%out
    if (index(quoted, "'") == 0) then
      call execute_command_line("mkdir -p -- '"//trim(quoted)//"' 2>/dev/null", exitstat=failed)
    end if
    if (s%netcdf) call history%open(trim(s%out)//'/tsunami.nc', grid, trim(s%title))
    call complain_about_history()
  end subroutine make_folder

  subroutine complain_about_history()
    if (allocated(history%complaint)) call comm%stop_all(history%complaint// &
      '. Choose another folder by --out DIR, or run with --no-netcdf.')
  end subroutine complain_about_history

  subroutine run()
    integer(int64) :: before, after, rate
    real(rk) :: next, left(1)
    integer :: record
    steps = 0
    dt = 0.0_rk
    call report(first, 0.0_rk)
    call system_clock(before, rate)
    comm%seconds = 0.0_rk
    record = 0
    do while (m%time < s%hours * 3600.0_rk)
      record = record + 1
      next = min(real(record * s%output_minutes, rk) * 60.0_rk, s%hours * 3600.0_rk)
      do while (m%time < next)
        call g%listen(m)
        left = courant_rate(m)
        call comm%max_real(left)
        dt = s%courant / left(1)
        ! As many equal steps as reach the next record exactly.
        dt = (next - m%time) / real(max(1, ceiling((next - m%time) / dt)), rk)
        call halo%exchange(comm, m%nx, m%ny, m%now)
        call step_model(m, dt)
        steps = steps + 1
        if (next - m%time < 0.5_rk * dt) m%time = next
      end do
      call report(last, first%mass)
    end do
    call g%listen(m)
    call system_clock(after)
    seconds = real(after - before, rk) / real(rate, rk)
  end subroutine run

  !> Budget, progress line, one record in the file, and the run's end if it went wrong.
  subroutine report(now, mass_at_start)
    type(budget_t), intent(out) :: now
    real(rk), intent(in) :: mass_at_start
    real(rk) :: drift
    call halo%exchange(comm, m%nx, m%ny, m%now)
    call take_budget(comm, m, now)
    if (steps == 0) first = now
    drift = merge(0.0_rk, (now%mass - mass_at_start) / first%moved, steps == 0)
    if (.not. s%quiet .and. comm%rank == 0) then
      if (steps == 0) call headline()
      write (output_unit, '(f8.2,a,f8.2,a,2(f9.3,a),es10.2)') m%time / 3600.0_rk, ' h', dt, &
        ' s', now%highest, ' m', now%lowest, ' m', drift
      flush (output_unit)
    end if
    if (.not. now%finite) call comm%stop_all('the field is no longer finite, or the sea fell '// &
                                             'dry. A smaller "courant" in the namelist may help.')
    if (.not. abs(drift) < allowed_drift) call comm%stop_all('water was made or lost: mass '// &
                                                             'drifted by more than rounding.')
    if (.not. s%netcdf) return
    call gather_field(comm, b, m%now(1:b%nx, 1:b%ny, at_height), whole)
    if (comm%rank == 0) then
      call history%add(grid, m%time, whole)
      call complain_about_history()
    end if
  end subroutine report

  subroutine headline()
    write (output_unit, '(a,i0,3a,4(a,i0),a)') 'tsunami: ', comm%nranks, &
      trim(merge(' rank ', ' ranks', comm%nranks == 1)), ' on ', comm%name, ', blocks ', &
      b%px, ' x ', b%py, ' of ', grid%nx, ' x ', grid%ny, ' cells'
    write (output_unit, '(a)') '    time        step     highest    lowest      mass drift'
  end subroutine headline

  subroutine conclude(status)
    integer, intent(out) :: status
    character(len=16) :: checksum
    real(rk) :: spent(2)
    status = 0
    spent = [comm%seconds, seconds - comm%seconds]
    call comm%max_real(spent)
    call field_checksum(comm, b, m, checksum)
    call write_results(checksum)
    if (comm%rank /= 0) return
    write (output_unit, '(a,es22.15,a,es9.1,a)') 'mass      ', last%mass, ' m3, drift', &
      (last%mass - first%mass) / first%moved, ' of the water moved'
    write (output_unit, '(a,es22.15,a,f6.2,a)') 'energy    ', last%energy, ' J,', &
      100.0_rk * last%energy / first%energy, ' % of the start'
    write (output_unit, '(2(a,z16.16))') 'bits      mass ', transfer(last%mass, 0_int64), &
      ' energy ', transfer(last%energy, 0_int64)
    write (output_unit, '(a,i0,3(a,f6.2),a)') 'time      ', steps, ' steps in ', seconds, &
      ' s; at most ', spent(1), ' s of it in communication and ', spent(2), ' s in computing'
    write (output_unit, '(2a)') 'checksum  ', checksum
  end subroutine conclude

  subroutine write_results(checksum)
    character(len=*), intent(in) :: checksum
    type(scene_t) :: scene
    character(len=256) :: reason
    integer :: failed
    if (.not. (s%netcdf .or. s%picture)) return
    call g%share(comm)
    call gather_field(comm, b, m%now(1:b%nx, 1:b%ny, at_height), whole)
    scene%height = whole
    call gather_field(comm, b, m%highest, whole)
    scene%highest = whole
    call gather_field(comm, b, m%arrival, whole)
    scene%arrival = whole
    if (comm%rank /= 0) return
    if (s%netcdf) then
      call history%close(grid, scene%highest, scene%arrival)
      call complain_about_history()
      write (output_unit, '(3a)') 'fields    ', trim(s%out), '/tsunami.nc'
    end if
    if (.not. s%picture) return
    scene%hours = s%hours
    scene%ranks = comm%nranks
    scene%px = b%px
    scene%py = b%py
    scene%title = trim(s%title)
    scene%carrier = comm%name
    scene%checksum = checksum
    scene%source_lon = s%uplift%lon
    scene%source_lat = s%uplift%lat
    call draw_picture(trim(s%out)//'/tsunami.png', grid, scene, g, failed, reason)
    if (failed /= 0) call comm%stop_all('cannot write the picture: '//trim(reason)// &
                                        '. Choose another folder by --out DIR.')
    write (output_unit, '(3a)') 'picture   ', trim(s%out), '/tsunami.png'
  end subroutine write_results
end program tsunami
