! What the user may choose: the command line over a namelist file over defaults.
!
! Rank 0 reads and checks everything, then broadcasts it; only --comm is read by every rank, because
! it decides what to broadcast with.
module settings
  use, intrinsic :: iso_fortran_env, only: output_unit, error_unit, iostat_end
  use comm_layer, only: comm_t, rk
  use comm_kolo, only: kolo_is_built
  use ocean, only: uplift_t
  implicit none
  private
  public :: settings_t, comm_choice, read_settings

  integer, parameter :: text_length = 256

  type :: settings_t
    real(rk) :: hours = 10.0_rk           !! simulated time
    real(rk) :: resolution = 0.5_rk       !! degrees
    real(rk) :: courant = 0.8_rk          !! cells a wave may cross in a step
    real(rk) :: drag = 2.5e-3_rk          !! bottom friction, no unit
    integer :: output_minutes = 30        !! simulated time between two records
    logical :: quiet = .false.
    logical :: netcdf = .true.
    logical :: picture = .true.
    character(len=text_length) :: out = 'tsunami-out'
    character(len=text_length) :: title = 'A tsunami crosses the Pacific'
    type(uplift_t) :: uplift
  end type settings_t

contains

  !> 'kolo' or 'mpi', or the empty text when the word after --comm is neither.
  function comm_choice() result(choice)
    character(len=4) :: choice
    character(len=text_length) :: word
    integer :: k
    choice = merge('kolo', 'mpi ', kolo_is_built)
    do k = 1, command_argument_count()
      call get_command_argument(k, word)
      if (word == '--comm') then
        call get_command_argument(k + 1, word)
      else if (word(1:7) == '--comm=') then
        word = word(8:)
      else
        cycle
      end if
      choice = ''
      if (word == 'kolo' .or. word == 'mpi') choice = word(1:4)
    end do
  end function comm_choice

  !> `go` is false when the program has nothing to do; `status` is then its exit status.
  subroutine read_settings(comm, s, go, status)
    class(comm_t), intent(inout) :: comm
    type(settings_t), intent(out) :: s
    logical, intent(out) :: go
    integer, intent(out) :: status
    character(len=text_length) :: complaint
    go = .true.
    status = 0
    if (comm%rank == 0) then
      complaint = ''
      call read_command_line(s, go, complaint)
      if (complaint == '' .and. go) call check(s, complaint)
      if (complaint /= '') then
        write (error_unit, '(2a)') 'tsunami: ', trim(complaint)
        write (error_unit, '(a)') 'Try: tsunami --help'
        go = .false.
        status = 2
      end if
    end if
    call comm%bcast(go)
    call comm%bcast(status)
    if (go) call share(comm, s)
  end subroutine read_settings

  subroutine share(comm, s)
    class(comm_t), intent(inout) :: comm
    type(settings_t), intent(inout) :: s
    real(rk) :: x(11)
    x = [s%hours, s%resolution, s%courant, s%drag, s%uplift%lon, s%uplift%lat, s%uplift%strike, &
         s%uplift%up, s%uplift%down, s%uplift%along, s%uplift%across]
    call comm%bcast(x)
    s%hours = x(1)
    s%resolution = x(2)
    s%courant = x(3)
    s%drag = x(4)
    s%uplift = uplift_t(x(5), x(6), x(7), x(8), x(9), x(10), x(11))
    call comm%bcast(s%output_minutes)
    call comm%bcast(s%quiet)
    call comm%bcast(s%netcdf)
    call comm%bcast(s%picture)
    call comm%bcast(s%out)
    call comm%bcast(s%title)
  end subroutine share

  subroutine read_command_line(s, go, complaint)
    type(settings_t), intent(inout) :: s
    logical, intent(inout) :: go
    character(len=*), intent(inout) :: complaint
    character(len=text_length) :: word, value
    integer :: k, pass
    ! Two passes, so that options win over the namelist wherever they stand.
    do pass = 1, 2
      k = 1
      do while (k <= command_argument_count() .and. complaint == '')
        call next_option(k, word, value)
        select case (word)
        case ('--help', '-h')
          if (pass == 1) call help()
          go = .false.
          return
        case ('--quiet', '-q')
          s%quiet = .true.
        case ('--no-picture')
          s%picture = .false.
        case ('--no-netcdf')
          s%netcdf = .false.
        case ('--namelist')
          if (pass == 1) call read_namelist(value, s, complaint)
        case ('--hours')
          if (pass == 2) call number(word, value, s%hours, complaint)
        case ('--resolution')
          if (pass == 2) call number(word, value, s%resolution, complaint)
        case ('--out')
          if (pass == 2) s%out = value
          if (value == '') complaint = '--out needs the name of a folder.'
        case ('--comm')
          continue   ! comm_choice has read it
        case default
          complaint = 'unknown option "'//trim(word)//'".'
        end select
      end do
    end do
  end subroutine read_command_line

  !> Takes "--option value" or "--option=value"; k moves to the next word.
  subroutine next_option(k, word, value)
    integer, intent(inout) :: k
    character(len=*), intent(out) :: word, value
    integer :: at
    call get_command_argument(k, word)
    k = k + 1
    value = ''
    at = index(word, '=')
    if (word(1:2) == '--' .and. at > 0) then
      value = word(at + 1:)
      word = word(:at - 1)
      return
    end if
    if (any(word == [character(len=12) :: '--hours', '--resolution', '--out', '--comm', &
                     '--namelist'])) then
      if (k <= command_argument_count()) call get_command_argument(k, value)
      k = k + 1
    end if
  end subroutine next_option

  subroutine number(word, value, x, complaint)
    character(len=*), intent(in) :: word, value
    real(rk), intent(inout) :: x
    character(len=*), intent(inout) :: complaint
    integer :: status
    status = 1
    if (verify(trim(value), '0123456789.+-eE') == 0 .and. value /= '') then
      read (value, *, iostat=status) x
    end if
    if (status /= 0) complaint = trim(word)//' needs a number, but got "'//trim(value)//'".'
  end subroutine number

  subroutine read_namelist(file, s, complaint)
    character(len=*), intent(in) :: file
    type(settings_t), intent(inout) :: s
    character(len=*), intent(inout) :: complaint
    real(rk) :: hours, resolution, courant, drag, source_lon, source_lat, strike, up, down
    real(rk) :: along_km, across_km
    integer :: output_minutes, unit, status
    logical :: quiet, netcdf, picture
    character(len=text_length) :: out, title, reason
    namelist /tsunami/ hours, resolution, courant, drag, output_minutes, quiet, netcdf, picture, &
      out, title, source_lon, source_lat, strike, up, down, along_km, across_km
    hours = s%hours
    resolution = s%resolution
    courant = s%courant
    drag = s%drag
    output_minutes = s%output_minutes
    quiet = s%quiet
    netcdf = s%netcdf
    picture = s%picture
    out = s%out
    title = s%title
    source_lon = s%uplift%lon
    source_lat = s%uplift%lat
    strike = s%uplift%strike
    up = s%uplift%up
    down = s%uplift%down
    along_km = s%uplift%along / 1000.0_rk
    across_km = s%uplift%across / 1000.0_rk
    open (newunit=unit, file=trim(file), status='old', action='read', iostat=status, iomsg=reason)
    if (status == 0) read (unit, nml=tsunami, iostat=status, iomsg=reason)
    if (status == iostat_end) reason = 'it has no group &tsunami ... /'
    if (status /= 0) then
      complaint = 'cannot use the namelist file "'//trim(file)//'": '//trim(reason)//'.'
      return
    end if
    close (unit)
    s = settings_t(hours, resolution, courant, drag, output_minutes, quiet, netcdf, picture, out, &
                   title, uplift_t(source_lon, source_lat, strike, up, down, along_km * 1000.0_rk, &
                                   across_km * 1000.0_rk))
  end subroutine read_namelist

  subroutine check(s, complaint)
    type(settings_t), intent(in) :: s
    character(len=*), intent(inout) :: complaint
    if (.not. (s%hours > 0.0_rk .and. s%hours <= 72.0_rk)) then
      complaint = '--hours must lie above 0 and not above 72.'
    else if (.not. (s%resolution >= 0.1_rk .and. s%resolution <= 4.0_rk)) then
      complaint = '--resolution must lie between 0.1 and 4 degrees.'
    else if (.not. (divides(s%resolution, 144.0_rk) .and. divides(s%resolution, 360.0_rk))) then
      complaint = '--resolution must divide 144 and 360 degrees, as 0.25, 0.4, 0.5, 1 and 2 do.'
    else if (.not. (s%courant > 0.0_rk .and. s%courant < 1.0_rk)) then
      complaint = 'courant must lie between 0 and 1.'
    else if (.not. (s%drag >= 0.0_rk .and. s%drag < 0.1_rk)) then
      complaint = 'drag must lie between 0 and 0.1.'
    else if (s%output_minutes < 1) then
      complaint = 'output_minutes must be at least 1.'
    else if (.not. (abs(s%uplift%up) <= 30.0_rk .and. abs(s%uplift%down) <= 30.0_rk)) then
      complaint = 'up and down must lie between -30 and 30 metres.'
    else if (.not. (s%uplift%along > 0.0_rk .and. s%uplift%across > 0.0_rk)) then
      complaint = 'along_km and across_km must be positive.'
    end if
  end subroutine check

  pure logical function divides(step, whole)
    real(rk), intent(in) :: step, whole
    divides = abs(whole / step - anint(whole / step)) < 1.0e-6_rk
  end function divides

  subroutine help()
    integer :: k
    character(len=80), parameter :: lines(20) = [character(len=80) :: &
      'tsunami - shallow-water waves over the real coast lines of the Pacific', '', &
      'Usage: mpirun -n RANKS tsunami [options]', '', &
      '  --comm kolo|mpi    which library carries the messages', &
      '                     (kolo where it was built with it)', &
      '  --hours H          simulated time, 10 when not given, at most 72', &
      '  --resolution DEG   size of a cell in degrees, 0.5 when not given;', &
      '                     from 0.1 to 4, and it must divide 144 and 360', &
      '  --out DIR          where tsunami.nc and tsunami.png go: tsunami-out', &
      '  --namelist FILE    a Fortran namelist, group &tsunami; README.md lists its', &
      '                     names; options on the command line win over it', &
      '  --no-netcdf        write no tsunami.nc', &
      '  --no-picture       write no tsunami.png', &
      '  --quiet            print only the last lines', &
      '  --help             this text', '', &
      'The field has the same bits on any number of ranks and with either library;', &
      'the line "checksum" at the end says so.', '']
    do k = 1, size(lines)
      write (output_unit, '(a)') trim(lines(k))
    end do
  end subroutine help
end module settings
