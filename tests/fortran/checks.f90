!> Expectations of the test programs: the first that does not hold stops the job and says which.
module checks
  use, intrinsic :: iso_fortran_env, only: error_unit, int64
  use kolo
  implicit none
  public

  type(kolo_comm) :: comm
  integer :: rank = -1, nranks = -1, last = -1

contains

  subroutine know_ranks()
    call kolo_comm_rank(comm, rank)
    call kolo_comm_size(comm, nranks)
    last = nranks - 1
  end subroutine know_ranks

  subroutine expect(holds, what)
    logical, intent(in) :: holds
    character(len=*), intent(in) :: what
    if (holds) return
    write (error_unit, '(a,i0,a,i0,2a)') 'rank ', rank, ' of ', nranks, ': wrong: ', what
    error stop 1
  end subroutine expect

  !> The call failed, and its sentence has all the words.
  subroutine expect_error(ierror, words, what)
    integer, intent(in) :: ierror
    character(len=*), intent(in) :: words(:), what
    character(len=600) :: message
    integer :: i
    call kolo_get_last_error(comm, message)
    call expect(ierror /= KOLO_SUCCESS, what // ' did not fail')
    do i = 1, size(words)
      call expect(index(message, trim(words(i))) > 0, what // ': no "' // trim(words(i)) // &
        '" in: ' // trim(message))
    end do
    call expect(index(message, 'Remedy: ') > 0, what // ': no remedy in: ' // trim(message))
  end subroutine expect_error

  !> Element i of rank r: small enough that sums of reals are exact.
  elemental integer function val(r, i)
    integer, intent(in) :: r, i
    val = 1000 * (r + 1) + mod(7 * i, 100)
  end function val

  !> The sum of val over all ranks.
  elemental integer function total(i)
    integer, intent(in) :: i
    total = 1000 * (nranks * (nranks + 1) / 2) + nranks * mod(7 * i, 100)
  end function total

end module checks
