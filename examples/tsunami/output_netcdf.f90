! The run as a NetCDF file after the CF conventions 1.8, written by rank 0.
module output_netcdf
  use netcdf
  use comm_layer, only: rk
  use ocean, only: grid_t
  implicit none
  private
  public :: history_t

  real, parameter :: fill = 1.0e20

  type :: history_t
    integer, private :: file = 0, time = 0, height = 0, highest = 0, arrival = 0, records = 0
    character(len=:), allocatable :: complaint   !! set by the first call that failed
  contains
    procedure :: open => open_history
    procedure :: add
    procedure :: close => close_history
    procedure, private :: try
  end type history_t

contains

  subroutine try(self, status, doing)
    class(history_t), intent(inout) :: self
    integer, intent(in) :: status
    character(len=*), intent(in) :: doing
    if (status == nf90_noerr .or. allocated(self%complaint)) return
    self%complaint = 'NetCDF, while '//doing//': '//trim(nf90_strerror(status))
  end subroutine try

  subroutine open_history(self, path, grid, title)
    class(history_t), intent(inout) :: self
    character(len=*), intent(in) :: path, title
    type(grid_t), intent(in) :: grid
    integer :: lon, lat, clock, lon_var, lat_var, mask, depth
    call self%try(nf90_create(path, ior(nf90_netcdf4, nf90_clobber), self%file), &
                  'creating '//path)
    if (allocated(self%complaint)) return
    call self%try(nf90_def_dim(self%file, 'time', nf90_unlimited, clock), 'defining time')
    call self%try(nf90_def_dim(self%file, 'lat', grid%ny, lat), 'defining lat')
    call self%try(nf90_def_dim(self%file, 'lon', grid%nx, lon), 'defining lon')
    call variable('time', nf90_double, [clock], self%time, 'time', 'time', 's')
    call self%try(nf90_put_att(self%file, self%time, 'units', &
                               'seconds since 2011-03-11 05:46:00'), 'describing time')
    call self%try(nf90_put_att(self%file, self%time, 'calendar', 'standard'), 'describing time')
    call self%try(nf90_put_att(self%file, self%time, 'axis', 'T'), 'describing time')
    call variable('lat', nf90_double, [lat], lat_var, 'latitude', 'latitude', 'degrees_north')
    call self%try(nf90_put_att(self%file, lat_var, 'axis', 'Y'), 'describing lat')
    call variable('lon', nf90_double, [lon], lon_var, 'longitude', 'longitude', 'degrees_east')
    call self%try(nf90_put_att(self%file, lon_var, 'axis', 'X'), 'describing lon')
    call variable('land_mask', nf90_byte, [lon, lat], mask, 'land_binary_mask', &
                  'land where 1, sea where 0', '1')
    call variable('depth', nf90_float, [lon, lat], depth, 'sea_floor_depth_below_mean_sea_level', &
                  'idealised depth: shelf, slope and basin by distance to the coast', 'm')
    call variable('height', nf90_float, [lon, lat, clock], self%height, &
                  'sea_surface_height_above_mean_sea_level', 'height of the sea surface', 'm')
    call variable('highest', nf90_float, [lon, lat], self%highest, '', &
                  'highest sea surface since the start', 'm')
    call variable('arrival', nf90_float, [lon, lat], self%arrival, '', &
                  'time from the start until the surface first moved by 5 mm', 's')
    call describe_file(self, title)
    call self%try(nf90_enddef(self%file), 'ending the definitions')
    call self%try(nf90_put_var(self%file, lon_var, grid%lon), 'writing lon')
    call self%try(nf90_put_var(self%file, lat_var, grid%lat), 'writing lat')
    call self%try(nf90_put_var(self%file, mask, merge(0, 1, grid%wet)), 'writing land_mask')
    call self%try(nf90_put_var(self%file, depth, on_sea(grid, grid%depth)), 'writing depth')

  contains

    subroutine variable(name, kind, dims, id, standard, long, units)
      character(len=*), intent(in) :: name, standard, long, units
      integer, intent(in) :: kind, dims(:)
      integer, intent(out) :: id
      call self%try(nf90_def_var(self%file, name, kind, dims, id), 'defining '//name)
      if (standard /= '') call self%try(nf90_put_att(self%file, id, 'standard_name', standard), &
                                        'describing '//name)
      call self%try(nf90_put_att(self%file, id, 'long_name', long), 'describing '//name)
      call self%try(nf90_put_att(self%file, id, 'units', units), 'describing '//name)
      if (size(dims) == 1) return
      call self%try(nf90_def_var_deflate(self%file, id, 1, 1, 1), 'compressing '//name)
      if (kind == nf90_float) call self%try(nf90_put_att(self%file, id, '_FillValue', fill), &
                                            'describing '//name)
    end subroutine variable
  end subroutine open_history

  subroutine describe_file(self, title)
    class(history_t), intent(inout) :: self
    character(len=*), intent(in) :: title
    call global('Conventions', 'CF-1.8')
    call global('title', title)
    call global('source', 'kolo example tsunami: shallow-water equations on the sphere, C grid')
    call global('references', 'Arakawa and Lamb 1977, DOI 10.1016/B978-0-12-460817-7.50009-4; '// &
                'Sadourny 1975, DOI 10.1175/1520-0469(1975)032<0680:TDOFDM>2.0.CO;2')
    call global('comment', 'Coast lines: PyPI global-land-mask 1.0.0 (MIT), from GLOBE '// &
                '(DOI 10.7289/V52R3PMS, public domain). The depth is idealised, so heights and '// &
                'travel times are not those of the real ocean.')

  contains

    subroutine global(name, text)
      character(len=*), intent(in) :: name, text
      call self%try(nf90_put_att(self%file, nf90_global, name, text), 'describing the file')
    end subroutine global
  end subroutine describe_file

  pure function on_sea(grid, field) result(values)
    type(grid_t), intent(in) :: grid
    real(rk), intent(in) :: field(:, :)
    real :: values(size(field, 1), size(field, 2))
    values = merge(real(field), fill, grid%wet)
  end function on_sea

  !> One more record of the height (m) at `seconds` after the start.
  subroutine add(self, grid, seconds, height)
    class(history_t), intent(inout) :: self
    type(grid_t), intent(in) :: grid
    real(rk), intent(in) :: seconds, height(:, :)
    if (allocated(self%complaint)) return
    self%records = self%records + 1
    call self%try(nf90_put_var(self%file, self%time, [seconds], start=[self%records]), &
                  'writing time')
    call self%try(nf90_put_var(self%file, self%height, on_sea(grid, height), &
                               start=[1, 1, self%records], count=[grid%nx, grid%ny, 1]), &
                  'writing height')
  end subroutine add

  subroutine close_history(self, grid, highest, arrival)
    class(history_t), intent(inout) :: self
    type(grid_t), intent(in) :: grid
    real(rk), intent(in) :: highest(:, :), arrival(:, :)
    if (allocated(self%complaint)) return
    call self%try(nf90_put_var(self%file, self%highest, on_sea(grid, highest)), 'writing highest')
    call self%try(nf90_put_var(self%file, self%arrival, &
                               merge(on_sea(grid, arrival), fill, arrival >= 0.0_rk)), &
                  'writing arrival')
    call self%try(nf90_close(self%file), 'closing the file')
  end subroutine close_history
end module output_netcdf
