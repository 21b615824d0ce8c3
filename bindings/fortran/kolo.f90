!> kolo for Fortran: collective communication on arrays of any type, kind and rank.
!!
!! Short forms take type and size from the arrays:
!!     call kolo_allreduce(total, KOLO_SUM, comm)            ! in place
!!     call kolo_allgather(mine, all, comm)
!! Explicit forms have MPI's order of arguments, for assumed-size arrays and old codes:
!!     call kolo_allreduce(send, recv, count, KOLO_REAL8, KOLO_SUM, comm, ierror)
!! Asynchronous forms return at once; a request, or a stream, says when they have ended:
!!     call kolo_iallreduce(total, KOLO_SUM, comm, request); call kolo_wait(request)
!! Until then the arrays belong to kolo: they must be contiguous, have the ASYNCHRONOUS (or TARGET)
!! attribute, and outlive the operation.
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
    c_float, c_float_complex, c_funloc, c_funptr, c_int, c_int32_t, c_int64_t, c_null_char, &
    c_null_ptr, c_ptr
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

  !> An asynchronous call, until kolo_wait, kolo_test or kolo_waitall has ended it; a fresh variable
  !! is none.
  type, bind(C), public :: kolo_request
    private
    type(c_ptr) :: handle = c_null_ptr
  end type kolo_request

  !> The neighbours of this rank, for the kolo_neighbor calls.
  type, bind(C), public :: kolo_graph
    private
    type(c_ptr) :: handle = c_null_ptr
    type(c_ptr) :: comm = c_null_ptr
  end type kolo_graph

  !> A registered array, until kolo_comm_deregister; a fresh variable is none.
  type, bind(C), public :: kolo_registration
    private
    type(c_ptr) :: handle = c_null_ptr
  end type kolo_registration

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

  ! Operations, data types, and values of ierror.
  include 'kolo_constants.inc'

  !> In the explicit forms, in the place of the send buffer (of the receive buffer in kolo_scatter):
  !! the data is where the result goes. Only its address matters.
  integer(c_int32_t), bind(C, name="kolo_fortran_in_place"), public, target :: KOLO_IN_PLACE = 0

  public :: kolo_comm_split
  public :: kolo_comm_rank, kolo_comm_size, kolo_comm_is_null
  public :: kolo_comm_finalize, kolo_comm_destroy, kolo_comm_abort
  public :: kolo_comm_register, kolo_comm_deregister
  public :: kolo_group_start, kolo_group_end
  public :: kolo_stream_create, kolo_stream_destroy, kolo_stream_synchronize, kolo_stream_query
  public :: kolo_wait, kolo_test, kolo_waitall
  public :: kolo_op_create, kolo_op_destroy
  public :: kolo_graph_create, kolo_cart_create, kolo_graph_destroy
  public :: kolo_graph_degrees, kolo_graph_neighbors
  public :: kolo_get_last_error, kolo_version

  ! All calls that move data.
  include 'kolo_calls.inc'
  include 'kolo_exact.inc'

  ! Arrays that other ranks read where they lie.
  include 'kolo_registered.inc'

  ! The ways to make a communicator.
  include 'kolo_start.inc'

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

  !> Waits until the call of a request has ended; the request is then none.
  interface kolo_wait
    subroutine kolo_f_wait(request, ierror) bind(C, name="kolo_f_wait")
      import
      type(kolo_request), intent(inout) :: request
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_wait
  end interface kolo_wait

  !> A reduction of the program's own, of a subroutine (in, inout, n, datatype) that computes
  !! inout(i) = in(i) op inout(i) for n elements, as MPI's do: n and datatype are default integers,
  !! the arrays explicit-shape or assumed-size, a(n) or a(*), and of the type that the calls use.
  !! With a datatype, such as KOLO_REAL8, calls on arrays of another type are errors; without it
  !! they read or write past the end of the arrays. Before its first call on a type it is called
  !! with n = 0, which tells arrays a(:): those are an error. Also of a C function
  !! (koloUserFunction_t of kolo.h), by c_funloc, with a datatype or without. All ranks make it
  !! alike; where commute is .false. contributions keep the order of ranks.
  interface kolo_op_create
    procedure kolo_op_create_plain, kolo_op_create_typed, kolo_op_create_c, kolo_op_create_c_typed
  end interface kolo_op_create

  !> Ends an operation of kolo_op_create.
  interface kolo_op_destroy
    subroutine kolo_f_op_destroy(op, comm, ierror) bind(C, name="kolo_f_op_destroy")
      import
      type(kolo_op), intent(in) :: op
      type(kolo_comm), intent(in) :: comm
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_op_destroy
  end interface kolo_op_destroy

  !> Ends a graph; the variable is then none.
  interface kolo_graph_destroy
    subroutine kolo_f_graph_destroy(graph, ierror) bind(C, name="kolo_f_graph_destroy")
      import
      type(kolo_graph), intent(inout) :: graph
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_graph_destroy
  end interface kolo_graph_destroy

  !> The numbers of blocks that come in and go out, missing neighbours included.
  interface kolo_graph_degrees
    subroutine kolo_f_graph_degrees(graph, indegree, outdegree, ierror) &
      bind(C, name="kolo_f_graph_degrees")
      import
      type(kolo_graph), intent(in) :: graph
      integer(c_int32_t), intent(out) :: indegree, outdegree
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_graph_degrees
  end interface kolo_graph_degrees

  !> The neighbours, block by block, KOLO_NO_RANK for missing ones; the arrays are large enough.
  interface kolo_graph_neighbors
    subroutine kolo_f_graph_neighbors(graph, sources, destinations, ierror) &
      bind(C, name="kolo_f_graph_neighbors")
      import
      type(kolo_graph), intent(in) :: graph
      integer(c_int32_t), intent(inout) :: sources(*), destinations(*)
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_graph_neighbors
  end interface kolo_graph_neighbors

  interface
    subroutine kolo_f_test(request, done, ierror) bind(C, name="kolo_f_test")
      import
      type(kolo_request), intent(inout) :: request
      integer(c_int32_t), intent(out) :: done
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_test
    subroutine kolo_f_waitall(requests, count, ierror) bind(C, name="kolo_f_waitall")
      import
      type(kolo_request), intent(inout) :: requests(*)
      integer(c_int64_t), intent(in) :: count
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_waitall
    subroutine kolo_f_op_create_c(function, commute, comm, op, datatype, ierror) &
      bind(C, name="kolo_f_op_create_c")
      import
      type(c_funptr), value :: function
      integer(c_int32_t), intent(in) :: commute
      type(kolo_comm), intent(in) :: comm
      type(kolo_op), intent(out) :: op
      type(kolo_datatype), intent(in), optional :: datatype
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_op_create_c
    subroutine kolo_f_op_create_plain(function, commute, comm, op, datatype, ierror) &
      bind(C, name="kolo_f_op_create_plain")
      import
      type(c_funptr), value :: function
      integer(c_int32_t), intent(in) :: commute
      type(kolo_comm), intent(in) :: comm
      type(kolo_op), intent(out) :: op
      type(kolo_datatype), intent(in), optional :: datatype
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_op_create_plain
    subroutine kolo_f_graph_create(comm, indegree, sources, outdegree, destinations, graph, &
      ierror) bind(C, name="kolo_f_graph_create")
      import
      type(kolo_comm), intent(in) :: comm
      integer(c_int32_t), intent(in) :: indegree, outdegree, sources(*), destinations(*)
      type(kolo_graph), intent(out) :: graph
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_graph_create
    subroutine kolo_f_cart_create(comm, ndims, dims, periods, graph, ierror) &
      bind(C, name="kolo_f_cart_create")
      import
      type(kolo_comm), intent(in) :: comm
      integer(c_int32_t), intent(in) :: ndims, dims(*), periods(*)
      type(kolo_graph), intent(out) :: graph
      integer(c_int32_t), intent(out), optional :: ierror
    end subroutine kolo_f_cart_create
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

  !> done: has the call of the request ended? Then the request is none. Moves calls on, does not
  !! wait.
  subroutine kolo_test(request, done, ierror)
    type(kolo_request), intent(inout) :: request
    logical, intent(out) :: done
    integer(c_int32_t), intent(out), optional :: ierror
    integer(c_int32_t) :: answer
    call kolo_f_test(request, answer, ierror)
    done = answer /= 0
  end subroutine kolo_test

  !> Waits for all these requests.
  subroutine kolo_waitall(requests, ierror)
    type(kolo_request), intent(inout), contiguous :: requests(:)
    integer(c_int32_t), intent(out), optional :: ierror
    call kolo_f_waitall(requests, size(requests, kind=c_int64_t), ierror)
  end subroutine kolo_waitall

  subroutine kolo_op_create_plain(function, commute, comm, op, ierror)
    external :: function
    logical, intent(in) :: commute
    type(kolo_comm), intent(in) :: comm
    type(kolo_op), intent(out) :: op
    integer(c_int32_t), intent(out), optional :: ierror
    call kolo_f_op_create_plain(c_funloc(function), merge(1_c_int32_t, 0_c_int32_t, commute), &
      comm, op, ierror=ierror)
  end subroutine kolo_op_create_plain

  subroutine kolo_op_create_typed(function, commute, comm, op, datatype, ierror)
    external :: function
    logical, intent(in) :: commute
    type(kolo_comm), intent(in) :: comm
    type(kolo_op), intent(out) :: op
    type(kolo_datatype), intent(in) :: datatype
    integer(c_int32_t), intent(out), optional :: ierror
    call kolo_f_op_create_plain(c_funloc(function), merge(1_c_int32_t, 0_c_int32_t, commute), &
      comm, op, datatype, ierror)
  end subroutine kolo_op_create_typed

  subroutine kolo_op_create_c(function, commute, comm, op, ierror)
    type(c_funptr), intent(in) :: function
    logical, intent(in) :: commute
    type(kolo_comm), intent(in) :: comm
    type(kolo_op), intent(out) :: op
    integer(c_int32_t), intent(out), optional :: ierror
    call kolo_f_op_create_c(function, merge(1_c_int32_t, 0_c_int32_t, commute), comm, op, &
      ierror=ierror)
  end subroutine kolo_op_create_c

  subroutine kolo_op_create_c_typed(function, commute, comm, op, datatype, ierror)
    type(c_funptr), intent(in) :: function
    logical, intent(in) :: commute
    type(kolo_comm), intent(in) :: comm
    type(kolo_op), intent(out) :: op
    type(kolo_datatype), intent(in) :: datatype
    integer(c_int32_t), intent(out), optional :: ierror
    call kolo_f_op_create_c(function, merge(1_c_int32_t, 0_c_int32_t, commute), comm, op, &
      datatype, ierror)
  end subroutine kolo_op_create_c_typed

  !> Makes the graph of the neighbours: `sources` send to this rank, `destinations` receive from it.
  !! Every rank calls it. Ranks may occur several times: the k-th edge from a to b among a's
  !! destinations is the k-th among b's sources. KOLO_NO_RANK makes a block that is not exchanged.
  subroutine kolo_graph_create(comm, sources, destinations, graph, ierror)
    type(kolo_comm), intent(in) :: comm
    integer(c_int32_t), intent(in), contiguous :: sources(:), destinations(:)
    type(kolo_graph), intent(out) :: graph
    integer(c_int32_t), intent(out), optional :: ierror
    call kolo_f_graph_create(comm, size(sources, kind=c_int32_t), sources, &
      size(destinations, kind=c_int32_t), destinations, graph, ierror)
  end subroutine kolo_graph_create

  !> Makes the symmetric graph of a grid: for each dimension the neighbour below and the one above,
  !! none beyond the end of a dimension that is not periodic. Ranks are numbered as MPI does: the
  !! last dimension is the fastest.
  subroutine kolo_cart_create(comm, dims, periods, graph, ierror)
    type(kolo_comm), intent(in) :: comm
    integer(c_int32_t), intent(in), contiguous :: dims(:)
    logical, intent(in) :: periods(:)
    type(kolo_graph), intent(out) :: graph
    integer(c_int32_t), intent(out), optional :: ierror
    integer(c_int32_t) :: wraps(size(dims))
    wraps = 0
    wraps(:size(periods)) = merge(1_c_int32_t, 0_c_int32_t, periods)
    call kolo_f_cart_create(comm, size(dims, kind=c_int32_t), dims, wraps, graph, ierror)
  end subroutine kolo_cart_create

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
