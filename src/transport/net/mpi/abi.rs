//! Point-to-point MPI as a table of C functions, from `libkolo_mpi`, which alone is linked to MPI.
//!
//! This file imports nothing from kolo: `bindings/mpi` compiles the same file, so that both sides
//! agree by construction. A structure begins with its size; members are only ever appended.

use std::ffi::{c_char, c_int, c_void};

/// Value of [`MpiNetTable::version`].
pub const NET_VERSION: u32 = 1;

/// A request of MPI, by value and opaque; a function writes [`NO_REQUEST`] over one that is done.
pub type MpiRequest = usize;
/// No request.
pub const NO_REQUEST: MpiRequest = 0;

/// `may_call`: MPI is finalised, nobody may.
pub const FINALISED: c_int = -1;
/// `may_call`: MPI's thread level forbids it to this thread.
pub const WRONG_THREAD: c_int = 0;
/// `may_call`: this thread may.
pub const MAY_CALL: c_int = 1;

/// Answer of `open`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MpiNetInfo {
    /// Handed to every other function.
    pub net: *mut c_void,
    /// This rank in the communicator.
    pub rank: c_int,
    /// Ranks of the communicator.
    pub nranks: c_int,
    /// Thread level that MPI gave: 0 single, 1 funneled, 2 serialized, 3 multiple.
    pub thread_level: c_int,
    /// The largest tag.
    pub most_tag: c_int,
    /// The most bytes of one message.
    pub most_bytes: usize,
}

/// Point to point on a private communicator of the same ranks. Functions return 0 or MPI's error
/// code; none waits but `open` and `close`. `may_call` and `error_text` may be called by any
/// thread at any time, the others where `may_call` says so.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MpiNetTable {
    /// `sizeof` this structure.
    pub size: usize,
    /// [`NET_VERSION`].
    pub version: u32,
    /// Duplicates the communicator of the context; every rank of it must call. What it gives
    /// lives, independent of the context, until `close`.
    pub open: Option<unsafe extern "C" fn(context: *mut c_void, info: *mut MpiNetInfo) -> c_int>,
    /// [`MAY_CALL`], [`WRONG_THREAD`] or [`FINALISED`].
    pub may_call: Option<unsafe extern "C" fn(net: *mut c_void) -> c_int>,
    /// MPI_Isend of bytes.
    pub isend: Option<
        unsafe extern "C" fn(
            net: *mut c_void,
            data: *const c_void,
            bytes: usize,
            rank: c_int,
            tag: c_int,
            request: *mut MpiRequest,
        ) -> c_int,
    >,
    /// MPI_Irecv of at most `bytes` bytes.
    pub irecv: Option<
        unsafe extern "C" fn(
            net: *mut c_void,
            data: *mut c_void,
            bytes: usize,
            rank: c_int,
            tag: c_int,
            request: *mut MpiRequest,
        ) -> c_int,
    >,
    /// MPI_Test; when `done` is not 0, `received` has the size of what a receive got, or
    /// [`CANCELLED`].
    pub test: Option<
        unsafe extern "C" fn(
            net: *mut c_void,
            request: *mut MpiRequest,
            done: *mut c_int,
            received: *mut usize,
        ) -> c_int,
    >,
    /// MPI_Cancel of a receive, which has to be tested until it is done all the same.
    pub cancel: Option<unsafe extern "C" fn(net: *mut c_void, request: *mut MpiRequest) -> c_int>,
    /// Receives a message with this tag from any rank, if there is one; else `rank` becomes -1.
    /// Messages of one rank come in their order.
    pub poll: Option<
        unsafe extern "C" fn(
            net: *mut c_void,
            data: *mut c_void,
            bytes: usize,
            tag: c_int,
            rank: *mut c_int,
        ) -> c_int,
    >,
    /// Writes MPI's text for a code, with a zero at its end, into `bytes` bytes.
    pub error_text: Option<unsafe extern "C" fn(code: c_int, text: *mut c_char, bytes: usize)>,
    /// Frees the private communicator.
    pub close: Option<unsafe extern "C" fn(net: *mut c_void) -> c_int>,
}

/// Size of a receive that was cancelled.
pub const CANCELLED: usize = usize::MAX;
