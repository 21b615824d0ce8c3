! Writes a true-colour PNG (ISO/IEC 15948) without a compression library.
!
! The pixels go into the "stored" blocks of a zlib stream (RFC 1950, RFC 1951): valid for every
! reader, as large as the picture has bytes. Any PNG optimiser makes the file small.
module png
  use, intrinsic :: iso_fortran_env, only: int8, int64
  implicit none
  private
  public :: write_png

  integer(int64), parameter :: low_bits = 4294967295_int64
  integer, parameter :: block_size = 65535   !! bytes a stored block can hold

contains

  !> `rgb` is (3, width, height) with values 0 .. 255. `status` is 0, or not and `reason` says why.
  subroutine write_png(path, rgb, title, status, reason)
    character(len=*), intent(in) :: path, title
    integer, intent(in) :: rgb(:, :, :)
    integer, intent(out) :: status
    character(len=*), intent(inout) :: reason
    integer(int8), allocatable :: lines(:, :)
    integer :: unit, y
    open (newunit=unit, file=path, access='stream', form='unformatted', status='replace', &
          action='write', iostat=status, iomsg=reason)
    if (status /= 0) return
    allocate (lines(1 + 3 * size(rgb, 2), size(rgb, 3)))
    do y = 1, size(rgb, 3)
      lines(1, y) = 0_int8   ! no filter
      lines(2:, y) = to_bytes(reshape(rgb(:, :, y), [3 * size(rgb, 2)]))
    end do
    write (unit, iostat=status, iomsg=reason) to_bytes([137, 80, 78, 71, 13, 10, 26, 10])
    if (status == 0) then
      call write_chunk(unit, 'IHDR', [big_endian(int(size(rgb, 2), int64)), &
                                      big_endian(int(size(rgb, 3), int64)), &
                                      to_bytes([8, 2, 0, 0, 0])])
      call write_chunk(unit, 'tEXt', text_bytes('Title'//char(0)//title))
      call write_chunk(unit, 'IDAT', zlib_stored(reshape(lines, [size(lines)])))
      call write_chunk(unit, 'IEND', [integer(int8) ::])
      close (unit, iostat=status, iomsg=reason)
    end if
  end subroutine write_png

  subroutine write_chunk(unit, name, data)
    integer, intent(in) :: unit
    character(len=4), intent(in) :: name
    integer(int8), intent(in) :: data(:)
    integer(int8), allocatable :: body(:)
    body = [text_bytes(name), data]
    write (unit) big_endian(int(size(data), int64)), body, big_endian(crc32(body))
  end subroutine write_chunk

  pure function zlib_stored(data) result(stream)
    integer(int8), intent(in) :: data(:)
    integer(int8), allocatable :: stream(:)
    integer :: blocks, k, at, first, n, last
    blocks = max(1, (size(data) + block_size - 1) / block_size)
    allocate (stream(2 + 5 * blocks + size(data) + 4))
    stream(1:2) = to_bytes([120, 1])   ! deflate, no dictionary
    at = 2
    do k = 1, blocks
      first = (k - 1) * block_size
      n = min(block_size, size(data) - first)
      last = merge(1, 0, k == blocks)
      stream(at + 1:at + 5) = to_bytes([last, iand(n, 255), shiftr(n, 8), &
                                        255 - iand(n, 255), 255 - shiftr(n, 8)])
      stream(at + 6:at + 5 + n) = data(first + 1:first + n)
      at = at + 5 + n
    end do
    stream(at + 1:) = big_endian(adler32(data))
  end function zlib_stored

  pure integer(int64) function adler32(data)
    integer(int8), intent(in) :: data(:)
    integer(int64) :: a, b
    integer :: k
    a = 1_int64
    b = 0_int64
    do k = 1, size(data)
      a = mod(a + iand(int(data(k), int64), 255_int64), 65521_int64)
      b = mod(b + a, 65521_int64)
    end do
    adler32 = ior(shiftl(b, 16), a)
  end function adler32

  pure integer(int64) function crc32(data)
    integer(int8), intent(in) :: data(:)
    integer(int64) :: table(0:255), c
    integer :: k, bit
    do k = 0, 255
      c = int(k, int64)
      do bit = 1, 8
        c = merge(ieor(shiftr(c, 1), 3988292384_int64), shiftr(c, 1), btest(c, 0))
      end do
      table(k) = c
    end do
    c = low_bits
    do k = 1, size(data)
      c = ieor(table(int(iand(ieor(c, int(data(k), int64)), 255_int64))), shiftr(c, 8))
    end do
    crc32 = ieor(c, low_bits)
  end function crc32

  pure function big_endian(x) result(b)
    integer(int64), intent(in) :: x
    integer(int8) :: b(4)
    b = to_bytes(int(iand(shiftr(x, [24, 16, 8, 0]), 255_int64)))
  end function big_endian

  !> Values 0 .. 255 as the signed bytes that Fortran has.
  elemental integer(int8) function to_byte(x)
    integer, intent(in) :: x
    to_byte = int(merge(x - 256, x, x > 127), int8)
  end function to_byte

  pure function to_bytes(x) result(b)
    integer, intent(in) :: x(:)
    integer(int8) :: b(size(x))
    b = to_byte(x)
  end function to_bytes

  pure function text_bytes(text) result(b)
    character(len=*), intent(in) :: text
    integer(int8) :: b(len(text))
    integer :: k
    b = [(to_byte(ichar(text(k:k))), k = 1, len(text))]
  end function text_bytes
end module png
