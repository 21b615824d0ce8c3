!> kolo for Fortran: collective communication on arrays of any type, kind and rank.
!!
!! Short forms take type and size from the arrays:
!!     call kolo_allreduce(total, KOLO_SUM, comm)            ! in place
!!     call kolo_allgather(mine, all, comm)
!! Explicit forms have MPI's order of arguments, for assumed-size arrays and old codes:
!!     call kolo_allreduce(send, recv, count, KOLO_REAL8, KOLO_SUM, comm, ierror)
!! Forms with a stream return at once; until kolo_stream_synchronize the arrays belong to kolo: they
!! must be contiguous, have the ASYNCHRONOUS (or TARGET) attribute, and outlive the operation.
!!
!! Ranks, roots and peers count from 0. ierror is optional everywhere: without it an error prints
!! rank, call and remedy to standard error and stops the job, as MPI does. With it, KOLO_SUCCESS or
!! a code is returned, and kolo_get_last_error has the sentence.
!!
!! Arrays with gaps (sections) are copied to a temporary and back. Between kolo_group_start and
!! kolo_group_end calls are only queued: their arrays must not be touched, and must not be
!! expressions, until kolo_group_end has returned. All ranks make the same calls in the same order.
!!
!! The procedures are interface bodies only; C functions (kolo_fortran*.c) implement them. No MPI
!! module is used; kolo_mpi_f08.f90 adds type(MPI_Comm).
module kolo
  use, intrinsic :: iso_c_binding, only: c_associated, c_char, c_double, c_double_complex, &
    c_float, c_float_complex, c_int, c_int32_t, c_int64_t, c_null_char, c_null_ptr, c_ptr
  implicit none
  private

  !> A communicator; a fresh variable is none (kolo_comm_is_null).
  type, bind(C), public :: kolo_comm
    private
    type(c_ptr) :: handle = c_null_ptr
  end type kolo_comm

  !> A queue of asynchronous calls.
  type, bind(C), public :: kolo_stream
    private
    type(c_ptr) :: handle = c_null_ptr
  end type kolo_stream

  !> Names a communicator to be; one rank makes it, all ranks get its characters.
  type, bind(C), public :: kolo_unique_id
    character(kind=c_char) :: internal(128) = c_null_char
  end type kolo_unique_id

  !> A reduction. A type of its own, so that arguments in a wrong order do not compile.
  type, bind(C), public :: kolo_op
    private
    integer(c_int32_t) :: code
  end type kolo_op

  !> A data type of the explicit forms.
  type, bind(C), public :: kolo_datatype
    private
    integer(c_int32_t) :: code
  end type kolo_datatype

  type(kolo_op), parameter, public :: KOLO_SUM = kolo_op(0)
  type(kolo_op), parameter, public :: KOLO_PROD = kolo_op(1)
  type(kolo_op), parameter, public :: KOLO_MAX = kolo_op(2)
  type(kolo_op), parameter, public :: KOLO_MIN = kolo_op(3)
  type(kolo_op), parameter, public :: KOLO_AVG = kolo_op(4)
  ! koloSumExact; in Fortran, KOLO_SUM_EXACT would be the function kolo_sum_exact.
  type(kolo_op), parameter, public :: KOLO_EXACT_SUM = kolo_op(10)

  ! Below 100 the numbers are those of kolo.h. Names end with bytes, as MPI's do.
  type(kolo_datatype), parameter, public :: KOLO_INTEGER1 = kolo_datatype(0)
  type(kolo_datatype), parameter, public :: KOLO_BYTE = kolo_datatype(1)
  type(kolo_datatype), parameter, public :: KOLO_INTEGER4 = kolo_datatype(2)
  type(kolo_datatype), parameter, public :: KOLO_INTEGER8 = kolo_datatype(4)
  type(kolo_datatype), parameter, public :: KOLO_REAL2 = kolo_datatype(6)
  type(kolo_datatype), parameter, public :: KOLO_REAL4 = kolo_datatype(7)
  type(kolo_datatype), parameter, public :: KOLO_REAL8 = kolo_datatype(8)
  type(kolo_datatype), parameter, public :: KOLO_BFLOAT16 = kolo_datatype(9)
  type(kolo_datatype), parameter, public :: KOLO_INTEGER2 = kolo_datatype(100)
  type(kolo_datatype), parameter, public :: KOLO_REAL16 = kolo_datatype(101)
  type(kolo_datatype), parameter, public :: KOLO_COMPLEX8 = kolo_datatype(102)
  type(kolo_datatype), parameter, public :: KOLO_COMPLEX16 = kolo_datatype(103)
  type(kolo_datatype), parameter, public :: KOLO_COMPLEX32 = kolo_datatype(104)
  type(kolo_datatype), parameter, public :: KOLO_LOGICAL1 = kolo_datatype(105)
  type(kolo_datatype), parameter, public :: KOLO_LOGICAL2 = kolo_datatype(106)
  type(kolo_datatype), parameter, public :: KOLO_LOGICAL4 = kolo_datatype(107)
  type(kolo_datatype), parameter, public :: KOLO_LOGICAL8 = kolo_datatype(108)
  type(kolo_datatype), parameter, public :: KOLO_CHARACTER = kolo_datatype(109)
  ! The default kinds, under MPI's names.
  type(kolo_datatype), parameter, public :: KOLO_INTEGER = KOLO_INTEGER4
  type(kolo_datatype), parameter, public :: KOLO_REAL = KOLO_REAL4
  type(kolo_datatype), parameter, public :: KOLO_DOUBLE_PRECISION = KOLO_REAL8
  type(kolo_datatype), parameter, public :: KOLO_COMPLEX = KOLO_COMPLEX8
  type(kolo_datatype), parameter, public :: KOLO_DOUBLE_COMPLEX = KOLO_COMPLEX16
  type(kolo_datatype), parameter, public :: KOLO_LOGICAL = KOLO_LOGICAL4

  ! Values of ierror.
  integer, parameter, public :: KOLO_SUCCESS = 0
  integer, parameter, public :: KOLO_UNHANDLED_CUDA_ERROR = 1
  integer, parameter, public :: KOLO_SYSTEM_ERROR = 2
  integer, parameter, public :: KOLO_INTERNAL_ERROR = 3
  integer, parameter, public :: KOLO_INVALID_ARGUMENT = 4
  integer, parameter, public :: KOLO_INVALID_USAGE = 5
  integer, parameter, public :: KOLO_REMOTE_ERROR = 6
  integer, parameter, public :: KOLO_IN_PROGRESS = 7
  integer, parameter, public :: KOLO_TIMEOUT = 8

  !> The color of a rank that wants no communicator from kolo_comm_split.
  integer, parameter, public :: KOLO_UNDEFINED = -1

  !> In the explicit forms, in the place of the send buffer (of the receive buffer in kolo_scatter):
  !! the data is where the result goes. Only its address matters.
  integer(c_int32_t), bind(C, name="kolo_fortran_in_place"), public, target :: KOLO_IN_PLACE = 0

  public :: kolo_comm_init, kolo_comm_init_rank, kolo_get_unique_id, kolo_comm_split
  public :: kolo_comm_rank, kolo_comm_size, kolo_comm_is_null
  public :: kolo_comm_finalize, kolo_comm_destroy, kolo_comm_abort
  public :: kolo_allreduce, kolo_bcast, kolo_reduce, kolo_allgather, kolo_gather, kolo_scatter
  public :: kolo_reduce_scatter, kolo_alltoall, kolo_barrier, kolo_send, kolo_recv
  public :: kolo_group_start, kolo_group_end, kolo_sum_exact
  public :: kolo_stream_create, kolo_stream_destroy, kolo_stream_synchronize, kolo_stream_query
  public :: kolo_get_last_error, kolo_version

  !> Makes a communicator of the ranks of an MPI communicator (its integer handle), which the
  !! program keeps. All of them call; MPI must be initialised. Needs libkolo_mpi.
  interface kolo_comm_init
    subroutine kolo_f_comm_init(mpi_comm, comm, ierror) bind(C, name="kolo_f_comm_init")
      import
      integer(c_int32_t), intent(in) :: mpi_comm
      type(kolo_comm), intent(out) :: comm
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_comm_init
  end interface kolo_comm_init

  !> Makes the id of a communicator to be, on one rank; bring id%internal to the others.
  interface kolo_get_unique_id
    subroutine kolo_f_get_unique_id(id, ierror) bind(C, name="kolo_f_get_unique_id")
      import
      type(kolo_unique_id), intent(out) :: id
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_get_unique_id
  end interface kolo_get_unique_id

  !> Makes rank `rank` of `nranks` without MPI. Between kolo_group_start and kolo_group_end it is
  !! deferred, and comm must not go away before the end.
  interface kolo_comm_init_rank
    subroutine kolo_f_comm_init_rank(nranks, id, rank, comm, ierror) &
      bind(C, name="kolo_f_comm_init_rank")
      import
      integer(c_int32_t), intent(in) :: nranks, rank
      type(kolo_unique_id), intent(in) :: id
      type(kolo_comm), intent(inout) :: comm
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_comm_init_rank
  end interface kolo_comm_init_rank

  !> Ranks with the same color (>= 0) get a communicator, in the order of key; KOLO_UNDEFINED: none.
  !! Not between kolo_group_start and kolo_group_end.
  interface kolo_comm_split
    subroutine kolo_f_comm_split(comm, color, key, newcomm, ierror) &
      bind(C, name="kolo_f_comm_split")
      import
      type(kolo_comm), intent(in) :: comm
      integer(c_int32_t), intent(in) :: color, key
      type(kolo_comm), intent(out) :: newcomm
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_comm_split
  end interface kolo_comm_split

  !> This rank, from 0.
  interface kolo_comm_rank
    subroutine kolo_f_comm_rank(comm, rank, ierror) bind(C, name="kolo_f_comm_rank")
      import
      type(kolo_comm), intent(in) :: comm
      integer(c_int32_t), intent(out) :: rank
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_comm_rank
  end interface kolo_comm_rank

  !> The number of ranks.
  interface kolo_comm_size
    subroutine kolo_f_comm_size(comm, size, ierror) bind(C, name="kolo_f_comm_size")
      import
      type(kolo_comm), intent(in) :: comm
      integer(c_int32_t), intent(out) :: size
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_comm_size
  end interface kolo_comm_size

  !> Waits for what was started; afterwards only kolo_comm_destroy is allowed. Optional.
  interface kolo_comm_finalize
    subroutine kolo_f_comm_finalize(comm, ierror) bind(C, name="kolo_f_comm_finalize")
      import
      type(kolo_comm), intent(in) :: comm
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_comm_finalize
  end interface kolo_comm_finalize

  !> Ends a communicator; the variable is then none.
  interface kolo_comm_destroy
    subroutine kolo_f_comm_destroy(comm, ierror) bind(C, name="kolo_f_comm_destroy")
      import
      type(kolo_comm), intent(inout) :: comm
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_comm_destroy
  end interface kolo_comm_destroy

  !> Ends a communicator without waiting: calls in progress on other ranks return KOLO_REMOTE_ERROR.
  interface kolo_comm_abort
    subroutine kolo_f_comm_abort(comm, ierror) bind(C, name="kolo_f_comm_abort")
      import
      type(kolo_comm), intent(inout) :: comm
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_comm_abort
  end interface kolo_comm_abort

  !> Reduces elements of all ranks; every rank gets the same bits. One array, or two of the same
  !! type and size. Complex arrays have KOLO_SUM and KOLO_AVG. (Bodies with and without ierror,
  !! because an optional one would make buf and (send, recv) ambiguous.)
  interface kolo_allreduce
    subroutine kolo_f_allreduce_buf(buf, op, comm) bind(C, name="kolo_f_allreduce_buf")
      import
      type(*), dimension(..), intent(inout) :: buf
      type(kolo_op), intent(in) :: op
      type(kolo_comm), intent(in) :: comm
    end subroutine kolo_f_allreduce_buf
    subroutine kolo_f_allreduce_buf_e(buf, op, comm, ierror) bind(C, name="kolo_f_allreduce_buf_e")
      import
      type(*), dimension(..), intent(inout) :: buf
      type(kolo_op), intent(in) :: op
      type(kolo_comm), intent(in) :: comm
      integer(c_int32_t), intent(out) :: ierror
    end subroutine kolo_f_allreduce_buf_e
    subroutine kolo_f_allreduce(send, recv, op, comm) bind(C, name="kolo_f_allreduce")
      import
      type(*), dimension(..), intent(in) :: send
      type(*), dimension(..), intent(inout) :: recv
      type(kolo_op), intent(in) :: op
      type(kolo_comm), intent(in) :: comm
    end subroutine kolo_f_allreduce
    subroutine kolo_f_allreduce_e(send, recv, op, comm, ierror) bind(C, name="kolo_f_allreduce_e")
      import
      type(*), dimension(..), intent(in) :: send
      type(*), dimension(..), intent(inout) :: recv
      type(kolo_op), intent(in) :: op
      type(kolo_comm), intent(in) :: comm
      integer(c_int32_t), intent(out) :: ierror
    end subroutine kolo_f_allreduce_e
    subroutine kolo_f_allreduce_buf_s(buf, op, comm, stream) bind(C, name="kolo_f_allreduce_buf_s")
      import
      type(*), dimension(..), intent(inout), asynchronous :: buf
      type(kolo_op), intent(in) :: op
      type(kolo_comm), intent(in) :: comm
      type(kolo_stream), intent(in) :: stream
    end subroutine kolo_f_allreduce_buf_s
    subroutine kolo_f_allreduce_buf_se(buf, op, comm, stream, ierror) &
      bind(C, name="kolo_f_allreduce_buf_se")
      import
      type(*), dimension(..), intent(inout), asynchronous :: buf
      type(kolo_op), intent(in) :: op
      type(kolo_comm), intent(in) :: comm
      type(kolo_stream), intent(in) :: stream
      integer(c_int32_t), intent(out) :: ierror
    end subroutine kolo_f_allreduce_buf_se
    subroutine kolo_f_allreduce_s(send, recv, op, comm, stream) bind(C, name="kolo_f_allreduce_s")
      import
      type(*), dimension(..), intent(in), asynchronous :: send
      type(*), dimension(..), intent(inout), asynchronous :: recv
      type(kolo_op), intent(in) :: op
      type(kolo_comm), intent(in) :: comm
      type(kolo_stream), intent(in) :: stream
    end subroutine kolo_f_allreduce_s
    subroutine kolo_f_allreduce_se(send, recv, op, comm, stream, ierror) &
      bind(C, name="kolo_f_allreduce_se")
      import
      type(*), dimension(..), intent(in), asynchronous :: send
      type(*), dimension(..), intent(inout), asynchronous :: recv
      type(kolo_op), intent(in) :: op
      type(kolo_comm), intent(in) :: comm
      type(kolo_stream), intent(in) :: stream
      integer(c_int32_t), intent(out) :: ierror
    end subroutine kolo_f_allreduce_se
    subroutine kolo_f_allreduce_4(send, recv, count, datatype, op, comm, ierror) &
      bind(C, name="kolo_f_allreduce_4")
      import
      type(*), dimension(..), intent(in) :: send
      type(*), dimension(..), intent(inout) :: recv
      integer(c_int32_t), intent(in) :: count
      type(kolo_datatype), intent(in) :: datatype
      type(kolo_op), intent(in) :: op
      type(kolo_comm), intent(in) :: comm
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_allreduce_4
    subroutine kolo_f_allreduce_8(send, recv, count, datatype, op, comm, ierror) &
      bind(C, name="kolo_f_allreduce_8")
      import
      type(*), dimension(..), intent(in) :: send
      type(*), dimension(..), intent(inout) :: recv
      integer(c_int64_t), intent(in) :: count
      type(kolo_datatype), intent(in) :: datatype
      type(kolo_op), intent(in) :: op
      type(kolo_comm), intent(in) :: comm
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_allreduce_8
  end interface kolo_allreduce

  include 'kolo_exact.inc'

  !> Copies buf of the root to all ranks; any type.
  interface kolo_bcast
    subroutine kolo_f_bcast(buf, root, comm, ierror) bind(C, name="kolo_f_bcast")
      import
      type(*), dimension(..), intent(inout) :: buf
      integer(c_int32_t), intent(in) :: root
      type(kolo_comm), intent(in) :: comm
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_bcast
    subroutine kolo_f_bcast_s(buf, root, comm, stream, ierror) bind(C, name="kolo_f_bcast_s")
      import
      type(*), dimension(..), intent(inout), asynchronous :: buf
      integer(c_int32_t), intent(in) :: root
      type(kolo_comm), intent(in) :: comm
      type(kolo_stream), intent(in) :: stream
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_bcast_s
    subroutine kolo_f_bcast_4(buf, count, datatype, root, comm, ierror) &
      bind(C, name="kolo_f_bcast_4")
      import
      type(*), dimension(..), intent(inout) :: buf
      integer(c_int32_t), intent(in) :: count, root
      type(kolo_datatype), intent(in) :: datatype
      type(kolo_comm), intent(in) :: comm
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_bcast_4
    subroutine kolo_f_bcast_8(buf, count, datatype, root, comm, ierror) &
      bind(C, name="kolo_f_bcast_8")
      import
      type(*), dimension(..), intent(inout) :: buf
      integer(c_int64_t), intent(in) :: count
      type(kolo_datatype), intent(in) :: datatype
      integer(c_int32_t), intent(in) :: root
      type(kolo_comm), intent(in) :: comm
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_bcast_8
  end interface kolo_bcast

  !> Reduces elements of all ranks into recv of the root; recv of the others is not used.
  interface kolo_reduce
    subroutine kolo_f_reduce(send, recv, op, root, comm, ierror) bind(C, name="kolo_f_reduce")
      import
      type(*), dimension(..), intent(in) :: send
      type(*), dimension(..), intent(inout) :: recv
      type(kolo_op), intent(in) :: op
      integer(c_int32_t), intent(in) :: root
      type(kolo_comm), intent(in) :: comm
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_reduce
    subroutine kolo_f_reduce_s(send, recv, op, root, comm, stream, ierror) &
      bind(C, name="kolo_f_reduce_s")
      import
      type(*), dimension(..), intent(in), asynchronous :: send
      type(*), dimension(..), intent(inout), asynchronous :: recv
      type(kolo_op), intent(in) :: op
      integer(c_int32_t), intent(in) :: root
      type(kolo_comm), intent(in) :: comm
      type(kolo_stream), intent(in) :: stream
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_reduce_s
    subroutine kolo_f_reduce_4(send, recv, count, datatype, op, root, comm, ierror) &
      bind(C, name="kolo_f_reduce_4")
      import
      type(*), dimension(..), intent(in) :: send
      type(*), dimension(..), intent(inout) :: recv
      integer(c_int32_t), intent(in) :: count, root
      type(kolo_datatype), intent(in) :: datatype
      type(kolo_op), intent(in) :: op
      type(kolo_comm), intent(in) :: comm
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_reduce_4
    subroutine kolo_f_reduce_8(send, recv, count, datatype, op, root, comm, ierror) &
      bind(C, name="kolo_f_reduce_8")
      import
      type(*), dimension(..), intent(in) :: send
      type(*), dimension(..), intent(inout) :: recv
      integer(c_int64_t), intent(in) :: count
      type(kolo_datatype), intent(in) :: datatype
      type(kolo_op), intent(in) :: op
      integer(c_int32_t), intent(in) :: root
      type(kolo_comm), intent(in) :: comm
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_reduce_8
  end interface kolo_reduce

  !> Collects send of every rank in recv of all, in rank order: recv has (ranks) x (size of send)
  !! elements.
  interface kolo_allgather
    subroutine kolo_f_allgather(send, recv, comm, ierror) bind(C, name="kolo_f_allgather")
      import
      type(*), dimension(..), intent(in) :: send
      type(*), dimension(..), intent(inout) :: recv
      type(kolo_comm), intent(in) :: comm
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_allgather
    subroutine kolo_f_allgather_s(send, recv, comm, stream, ierror) &
      bind(C, name="kolo_f_allgather_s")
      import
      type(*), dimension(..), intent(in), asynchronous :: send
      type(*), dimension(..), intent(inout), asynchronous :: recv
      type(kolo_comm), intent(in) :: comm
      type(kolo_stream), intent(in) :: stream
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_allgather_s
    subroutine kolo_f_allgather_4(send, sendcount, sendtype, recv, recvcount, recvtype, &
      comm, ierror) bind(C, name="kolo_f_allgather_4")
      import
      type(*), dimension(..), intent(in) :: send
      integer(c_int32_t), intent(in) :: sendcount, recvcount
      type(kolo_datatype), intent(in) :: sendtype, recvtype
      type(*), dimension(..), intent(inout) :: recv
      type(kolo_comm), intent(in) :: comm
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_allgather_4
    subroutine kolo_f_allgather_8(send, sendcount, sendtype, recv, recvcount, recvtype, &
      comm, ierror) bind(C, name="kolo_f_allgather_8")
      import
      type(*), dimension(..), intent(in) :: send
      integer(c_int64_t), intent(in) :: sendcount, recvcount
      type(kolo_datatype), intent(in) :: sendtype, recvtype
      type(*), dimension(..), intent(inout) :: recv
      type(kolo_comm), intent(in) :: comm
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_allgather_8
  end interface kolo_allgather

  !> kolo_allgather to the root only; recv of the others is not used.
  interface kolo_gather
    subroutine kolo_f_gather(send, recv, root, comm, ierror) bind(C, name="kolo_f_gather")
      import
      type(*), dimension(..), intent(in) :: send
      type(*), dimension(..), intent(inout) :: recv
      integer(c_int32_t), intent(in) :: root
      type(kolo_comm), intent(in) :: comm
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_gather
    subroutine kolo_f_gather_s(send, recv, root, comm, stream, ierror) &
      bind(C, name="kolo_f_gather_s")
      import
      type(*), dimension(..), intent(in), asynchronous :: send
      type(*), dimension(..), intent(inout), asynchronous :: recv
      integer(c_int32_t), intent(in) :: root
      type(kolo_comm), intent(in) :: comm
      type(kolo_stream), intent(in) :: stream
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_gather_s
    subroutine kolo_f_gather_4(send, sendcount, sendtype, recv, recvcount, recvtype, &
      root, comm, ierror) bind(C, name="kolo_f_gather_4")
      import
      type(*), dimension(..), intent(in) :: send
      integer(c_int32_t), intent(in) :: sendcount, recvcount, root
      type(kolo_datatype), intent(in) :: sendtype, recvtype
      type(*), dimension(..), intent(inout) :: recv
      type(kolo_comm), intent(in) :: comm
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_gather_4
    subroutine kolo_f_gather_8(send, sendcount, sendtype, recv, recvcount, recvtype, &
      root, comm, ierror) bind(C, name="kolo_f_gather_8")
      import
      type(*), dimension(..), intent(in) :: send
      integer(c_int64_t), intent(in) :: sendcount, recvcount
      type(kolo_datatype), intent(in) :: sendtype, recvtype
      type(*), dimension(..), intent(inout) :: recv
      integer(c_int32_t), intent(in) :: root
      type(kolo_comm), intent(in) :: comm
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_gather_8
  end interface kolo_gather

  !> Block r of send of the root goes to recv of rank r; send of the others is not used.
  interface kolo_scatter
    subroutine kolo_f_scatter(send, recv, root, comm, ierror) bind(C, name="kolo_f_scatter")
      import
      type(*), dimension(..), intent(in) :: send
      type(*), dimension(..), intent(inout) :: recv
      integer(c_int32_t), intent(in) :: root
      type(kolo_comm), intent(in) :: comm
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_scatter
    subroutine kolo_f_scatter_s(send, recv, root, comm, stream, ierror) &
      bind(C, name="kolo_f_scatter_s")
      import
      type(*), dimension(..), intent(in), asynchronous :: send
      type(*), dimension(..), intent(inout), asynchronous :: recv
      integer(c_int32_t), intent(in) :: root
      type(kolo_comm), intent(in) :: comm
      type(kolo_stream), intent(in) :: stream
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_scatter_s
    subroutine kolo_f_scatter_4(send, sendcount, sendtype, recv, recvcount, recvtype, &
      root, comm, ierror) bind(C, name="kolo_f_scatter_4")
      import
      type(*), dimension(..), intent(in) :: send
      integer(c_int32_t), intent(in) :: sendcount, recvcount, root
      type(kolo_datatype), intent(in) :: sendtype, recvtype
      type(*), dimension(..), intent(inout) :: recv
      type(kolo_comm), intent(in) :: comm
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_scatter_4
    subroutine kolo_f_scatter_8(send, sendcount, sendtype, recv, recvcount, recvtype, &
      root, comm, ierror) bind(C, name="kolo_f_scatter_8")
      import
      type(*), dimension(..), intent(in) :: send
      integer(c_int64_t), intent(in) :: sendcount, recvcount
      type(kolo_datatype), intent(in) :: sendtype, recvtype
      type(*), dimension(..), intent(inout) :: recv
      integer(c_int32_t), intent(in) :: root
      type(kolo_comm), intent(in) :: comm
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_scatter_8
  end interface kolo_scatter

  !> Reduces send of all ranks; rank r gets block r. send has (ranks) x (size of recv) elements.
  interface kolo_reduce_scatter
    subroutine kolo_f_reduce_scatter(send, recv, op, comm, ierror) &
      bind(C, name="kolo_f_reduce_scatter")
      import
      type(*), dimension(..), intent(in) :: send
      type(*), dimension(..), intent(inout) :: recv
      type(kolo_op), intent(in) :: op
      type(kolo_comm), intent(in) :: comm
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_reduce_scatter
    subroutine kolo_f_reduce_scatter_s(send, recv, op, comm, stream, ierror) &
      bind(C, name="kolo_f_reduce_scatter_s")
      import
      type(*), dimension(..), intent(in), asynchronous :: send
      type(*), dimension(..), intent(inout), asynchronous :: recv
      type(kolo_op), intent(in) :: op
      type(kolo_comm), intent(in) :: comm
      type(kolo_stream), intent(in) :: stream
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_reduce_scatter_s
    subroutine kolo_f_reduce_scatter_4(send, recv, count, datatype, op, comm, ierror) &
      bind(C, name="kolo_f_reduce_scatter_4")
      import
      type(*), dimension(..), intent(in) :: send
      type(*), dimension(..), intent(inout) :: recv
      integer(c_int32_t), intent(in) :: count
      type(kolo_datatype), intent(in) :: datatype
      type(kolo_op), intent(in) :: op
      type(kolo_comm), intent(in) :: comm
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_reduce_scatter_4
    subroutine kolo_f_reduce_scatter_8(send, recv, count, datatype, op, comm, ierror) &
      bind(C, name="kolo_f_reduce_scatter_8")
      import
      type(*), dimension(..), intent(in) :: send
      type(*), dimension(..), intent(inout) :: recv
      integer(c_int64_t), intent(in) :: count
      type(kolo_datatype), intent(in) :: datatype
      type(kolo_op), intent(in) :: op
      type(kolo_comm), intent(in) :: comm
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_reduce_scatter_8
  end interface kolo_reduce_scatter

  !> Block p of send goes to rank p, block p of recv comes from rank p.
  interface kolo_alltoall
    subroutine kolo_f_alltoall(send, recv, comm, ierror) bind(C, name="kolo_f_alltoall")
      import
      type(*), dimension(..), intent(in) :: send
      type(*), dimension(..), intent(inout) :: recv
      type(kolo_comm), intent(in) :: comm
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_alltoall
    subroutine kolo_f_alltoall_s(send, recv, comm, stream, ierror) bind(C, name="kolo_f_alltoall_s")
      import
      type(*), dimension(..), intent(in), asynchronous :: send
      type(*), dimension(..), intent(inout), asynchronous :: recv
      type(kolo_comm), intent(in) :: comm
      type(kolo_stream), intent(in) :: stream
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_alltoall_s
    subroutine kolo_f_alltoall_4(send, sendcount, sendtype, recv, recvcount, recvtype, &
      comm, ierror) bind(C, name="kolo_f_alltoall_4")
      import
      type(*), dimension(..), intent(in) :: send
      integer(c_int32_t), intent(in) :: sendcount, recvcount
      type(kolo_datatype), intent(in) :: sendtype, recvtype
      type(*), dimension(..), intent(inout) :: recv
      type(kolo_comm), intent(in) :: comm
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_alltoall_4
    subroutine kolo_f_alltoall_8(send, sendcount, sendtype, recv, recvcount, recvtype, &
      comm, ierror) bind(C, name="kolo_f_alltoall_8")
      import
      type(*), dimension(..), intent(in) :: send
      integer(c_int64_t), intent(in) :: sendcount, recvcount
      type(kolo_datatype), intent(in) :: sendtype, recvtype
      type(*), dimension(..), intent(inout) :: recv
      type(kolo_comm), intent(in) :: comm
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_alltoall_8
  end interface kolo_alltoall

  !> Sends buf to rank `peer`; calls between two ranks match in order. Exchanges need a group.
  interface kolo_send
    subroutine kolo_f_send(buf, peer, comm, ierror) bind(C, name="kolo_f_send")
      import
      type(*), dimension(..), intent(in) :: buf
      integer(c_int32_t), intent(in) :: peer
      type(kolo_comm), intent(in) :: comm
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_send
    subroutine kolo_f_send_s(buf, peer, comm, stream, ierror) bind(C, name="kolo_f_send_s")
      import
      type(*), dimension(..), intent(in), asynchronous :: buf
      integer(c_int32_t), intent(in) :: peer
      type(kolo_comm), intent(in) :: comm
      type(kolo_stream), intent(in) :: stream
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_send_s
    subroutine kolo_f_send_4(buf, count, datatype, peer, comm, ierror) bind(C, name="kolo_f_send_4")
      import
      type(*), dimension(..), intent(in) :: buf
      integer(c_int32_t), intent(in) :: count, peer
      type(kolo_datatype), intent(in) :: datatype
      type(kolo_comm), intent(in) :: comm
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_send_4
    subroutine kolo_f_send_8(buf, count, datatype, peer, comm, ierror) bind(C, name="kolo_f_send_8")
      import
      type(*), dimension(..), intent(in) :: buf
      integer(c_int64_t), intent(in) :: count
      type(kolo_datatype), intent(in) :: datatype
      integer(c_int32_t), intent(in) :: peer
      type(kolo_comm), intent(in) :: comm
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_send_8
  end interface kolo_send

  !> Receives what rank `peer` sends.
  interface kolo_recv
    subroutine kolo_f_recv(buf, peer, comm, ierror) bind(C, name="kolo_f_recv")
      import
      type(*), dimension(..), intent(inout) :: buf
      integer(c_int32_t), intent(in) :: peer
      type(kolo_comm), intent(in) :: comm
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_recv
    subroutine kolo_f_recv_s(buf, peer, comm, stream, ierror) bind(C, name="kolo_f_recv_s")
      import
      type(*), dimension(..), intent(inout), asynchronous :: buf
      integer(c_int32_t), intent(in) :: peer
      type(kolo_comm), intent(in) :: comm
      type(kolo_stream), intent(in) :: stream
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_recv_s
    subroutine kolo_f_recv_4(buf, count, datatype, peer, comm, ierror) bind(C, name="kolo_f_recv_4")
      import
      type(*), dimension(..), intent(inout) :: buf
      integer(c_int32_t), intent(in) :: count, peer
      type(kolo_datatype), intent(in) :: datatype
      type(kolo_comm), intent(in) :: comm
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_recv_4
    subroutine kolo_f_recv_8(buf, count, datatype, peer, comm, ierror) bind(C, name="kolo_f_recv_8")
      import
      type(*), dimension(..), intent(inout) :: buf
      integer(c_int64_t), intent(in) :: count
      type(kolo_datatype), intent(in) :: datatype
      integer(c_int32_t), intent(in) :: peer
      type(kolo_comm), intent(in) :: comm
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_recv_8
  end interface kolo_recv

  !> Returns when all ranks have called.
  interface kolo_barrier
    subroutine kolo_f_barrier(comm, ierror) bind(C, name="kolo_f_barrier")
      import
      type(kolo_comm), intent(in) :: comm
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_barrier
    subroutine kolo_f_barrier_s(comm, stream, ierror) bind(C, name="kolo_f_barrier_s")
      import
      type(kolo_comm), intent(in) :: comm
      type(kolo_stream), intent(in) :: stream
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_barrier_s
  end interface kolo_barrier

  !> Opens a group: calls are queued until kolo_group_end, and then progress together.
  interface kolo_group_start
    subroutine kolo_f_group_start(ierror) bind(C, name="kolo_f_group_start")
      import
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_group_start
  end interface kolo_group_start

  !> Closes a group; the outermost one runs what was queued and returns when it is done.
  interface kolo_group_end
    subroutine kolo_f_group_end(ierror) bind(C, name="kolo_f_group_end")
      import
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_group_end
  end interface kolo_group_end

  !> Makes a stream.
  interface kolo_stream_create
    subroutine kolo_f_stream_create(stream, ierror) bind(C, name="kolo_f_stream_create")
      import
      type(kolo_stream), intent(inout) :: stream
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_stream_create
  end interface kolo_stream_create

  !> Waits for the operations of a stream and ends it.
  interface kolo_stream_destroy
    subroutine kolo_f_stream_destroy(stream, ierror) bind(C, name="kolo_f_stream_destroy")
      import
      type(kolo_stream), intent(inout) :: stream
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_stream_destroy
  end interface kolo_stream_destroy

  !> Waits for the operations of a stream; then its arrays belong to the program again.
  interface kolo_stream_synchronize
    subroutine kolo_f_stream_synchronize(stream, ierror) bind(C, name="kolo_f_stream_synchronize")
      import
      type(kolo_stream), intent(in) :: stream
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_stream_synchronize
  end interface kolo_stream_synchronize

  interface
    subroutine kolo_f_stream_query(stream, done, ierror) bind(C, name="kolo_f_stream_query")
      import
      type(kolo_stream), intent(in) :: stream
      integer(c_int32_t), intent(out) :: done
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_stream_query
    subroutine kolo_f_version(version) bind(C, name="kolo_f_version")
      import
      integer(c_int32_t), intent(out) :: version
    end subroutine kolo_f_version
    subroutine kolo_f_get_last_error(comm, text, capacity) bind(C, name="kolo_f_get_last_error")
      import
      type(kolo_comm), intent(in) :: comm
      character(kind=c_char), intent(out) :: text(*)
      integer(c_int64_t), intent(in) :: capacity
    end subroutine kolo_f_get_last_error
  end interface

contains

  !> Is comm no communicator: fresh, destroyed, or from kolo_comm_split with KOLO_UNDEFINED?
  pure logical function kolo_comm_is_null(comm)
    type(kolo_comm), intent(in) :: comm
    kolo_comm_is_null = .not. c_associated(comm%handle)
  end function kolo_comm_is_null

  !> done: have all operations of the stream ended? Moves them on, does not wait.
  subroutine kolo_stream_query(stream, done, ierror)
    type(kolo_stream), intent(in) :: stream
    logical, intent(out) :: done
    integer(c_int32_t), intent(out), optional :: ierror
    integer(c_int32_t) :: answer
    call kolo_f_stream_query(stream, answer, ierror)
    done = answer /= 0
  end subroutine kolo_stream_query

  !> The sentence of the last call that failed on comm (with none: of this thread), cut to fit.
  subroutine kolo_get_last_error(comm, message)
    type(kolo_comm), intent(in) :: comm
    character(len=*), intent(out) :: message
    call kolo_f_get_last_error(comm, message, len(message, kind=c_int64_t))
  end subroutine kolo_get_last_error

  !> The version of the library: major * 10000 + minor * 100 + patch.
  subroutine kolo_version(version)
    integer(c_int32_t), intent(out) :: version
    call kolo_f_version(version)
  end subroutine kolo_version

end module kolo
