//! The C functions of `libkolo.so.0` that this library calls, and constants of its shim.

use mpi::ffi;
use std::ffi::{c_char, c_int, c_void};

/// `koloComm_t`.
pub type Comm = *mut c_void;
/// `koloStream_t`: always NULL here, calls block.
pub const NO_STREAM: *mut c_void = std::ptr::null_mut();
/// `koloUint8`: what is moved goes as bytes.
pub const BYTE: c_int = 1;

/// Of `koloRedOpCreateUser`.
pub type UserFunction = unsafe extern "C" fn(
    input: *const c_void,
    inout: *mut c_void,
    count: usize,
    datatype: c_int,
    context: *mut c_void,
);

/// One row of the table of MPI's named types.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Named {
    pub datatype: ffi::MPI_Datatype,
    pub class: c_int,
    pub kolo: c_int,
    pub bytes: usize,
}

/// One row of the table of MPI's operations.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct NamedOp {
    pub op: ffi::MPI_Op,
    pub kolo: c_int,
}

unsafe extern "C" {
    pub static kolo_pmpi_in_place: *const c_void;
    pub static kolo_pmpi_op_null: ffi::MPI_Op;
    pub static kolo_pmpi_tag_ub_key: c_int;
    pub static kolo_pmpi_no_copy: ffi::MPI_Comm_copy_attr_function;
    pub static kolo_pmpi_named: [Named; 1];
    pub static kolo_pmpi_named_count: usize;
    pub static kolo_pmpi_ops: [NamedOp; 1];
    pub static kolo_pmpi_ops_count: usize;

    pub fn kolo_pmpi_say(text: *const c_char);
    pub fn kolo_pmpi_device_support() -> c_int;
    pub fn kolo_pmpi_started() -> c_int;
    pub fn kolo_pmpi_wide_magnitude(at: *mut c_void, complex: c_int);
    pub fn kolo_pmpi_wide_apart(
        got: *const c_void,
        wanted: *const c_void,
        magnitude: *const c_void,
        steps: c_int,
        nranks: c_int,
    ) -> c_int;
    pub fn kolo_pmpi_made(
        datatype: ffi::MPI_Datatype,
        made: *mut c_int,
        of: *mut ffi::MPI_Datatype,
    ) -> c_int;
}

unsafe extern "C" {
    /// Of `libkolo_mpi_calls.so`, beside this library.
    pub fn koloCommInitMPI(newcomm: *mut Comm, comm: ffi::MPI_Comm) -> c_int;

    pub fn koloCommDestroy(comm: Comm) -> c_int;
    pub fn koloCommAbort(comm: Comm) -> c_int;
    pub fn koloGetSetting(key: *const c_char, value: *mut c_char, bytes: usize) -> c_int;
    pub fn koloGetLastError(comm: Comm) -> *const c_char;
    pub fn koloMemAlloc(at: *mut *mut c_void, bytes: usize) -> c_int;
    pub fn koloMemFree(at: *mut c_void) -> c_int;
    pub fn koloBarrier(comm: Comm, stream: *mut c_void) -> c_int;
    pub fn koloBcast(
        buffer: *mut c_void,
        count: usize,
        datatype: c_int,
        root: c_int,
        comm: Comm,
        stream: *mut c_void,
    ) -> c_int;
    pub fn koloAllReduce(
        send: *const c_void,
        recv: *mut c_void,
        count: usize,
        datatype: c_int,
        op: c_int,
        comm: Comm,
        stream: *mut c_void,
    ) -> c_int;
    pub fn koloReduce(
        send: *const c_void,
        recv: *mut c_void,
        count: usize,
        datatype: c_int,
        op: c_int,
        root: c_int,
        comm: Comm,
        stream: *mut c_void,
    ) -> c_int;
    pub fn koloReduceScatter(
        send: *const c_void,
        recv: *mut c_void,
        count: usize,
        datatype: c_int,
        op: c_int,
        comm: Comm,
        stream: *mut c_void,
    ) -> c_int;
    pub fn koloReduceScatterV(
        send: *const c_void,
        recv: *mut c_void,
        counts: *const usize,
        datatype: c_int,
        op: c_int,
        comm: Comm,
        stream: *mut c_void,
    ) -> c_int;
    pub fn koloScan(
        send: *const c_void,
        recv: *mut c_void,
        count: usize,
        datatype: c_int,
        op: c_int,
        comm: Comm,
        stream: *mut c_void,
    ) -> c_int;
    pub fn koloExscan(
        send: *const c_void,
        recv: *mut c_void,
        count: usize,
        datatype: c_int,
        op: c_int,
        comm: Comm,
        stream: *mut c_void,
    ) -> c_int;
    pub fn koloAllGather(
        send: *const c_void,
        recv: *mut c_void,
        count: usize,
        datatype: c_int,
        comm: Comm,
        stream: *mut c_void,
    ) -> c_int;
    pub fn koloAllToAll(
        send: *const c_void,
        recv: *mut c_void,
        count: usize,
        datatype: c_int,
        comm: Comm,
        stream: *mut c_void,
    ) -> c_int;
    pub fn koloGather(
        send: *const c_void,
        recv: *mut c_void,
        count: usize,
        datatype: c_int,
        root: c_int,
        comm: Comm,
        stream: *mut c_void,
    ) -> c_int;
    pub fn koloSend(
        send: *const c_void,
        count: usize,
        datatype: c_int,
        peer: c_int,
        comm: Comm,
        stream: *mut c_void,
    ) -> c_int;
    pub fn koloRecv(
        recv: *mut c_void,
        count: usize,
        datatype: c_int,
        peer: c_int,
        comm: Comm,
        stream: *mut c_void,
    ) -> c_int;
    pub fn koloScatter(
        send: *const c_void,
        recv: *mut c_void,
        count: usize,
        datatype: c_int,
        root: c_int,
        comm: Comm,
        stream: *mut c_void,
    ) -> c_int;
    pub fn koloAllGatherV(
        send: *const c_void,
        count: usize,
        recv: *mut c_void,
        counts: *const usize,
        displacements: *const usize,
        datatype: c_int,
        comm: Comm,
        stream: *mut c_void,
    ) -> c_int;
    pub fn koloGatherV(
        send: *const c_void,
        count: usize,
        recv: *mut c_void,
        counts: *const usize,
        displacements: *const usize,
        datatype: c_int,
        root: c_int,
        comm: Comm,
        stream: *mut c_void,
    ) -> c_int;
    pub fn koloScatterV(
        send: *const c_void,
        counts: *const usize,
        displacements: *const usize,
        recv: *mut c_void,
        count: usize,
        datatype: c_int,
        root: c_int,
        comm: Comm,
        stream: *mut c_void,
    ) -> c_int;
    pub fn koloAllToAllV(
        send: *const c_void,
        send_counts: *const usize,
        send_displacements: *const usize,
        recv: *mut c_void,
        recv_counts: *const usize,
        recv_displacements: *const usize,
        datatype: c_int,
        comm: Comm,
        stream: *mut c_void,
    ) -> c_int;
    pub fn koloRedOpCreateUser(
        op: *mut c_int,
        function: UserFunction,
        context: *mut c_void,
        commute: c_int,
        comm: Comm,
    ) -> c_int;
    pub fn koloRedOpDestroy(op: c_int, comm: Comm) -> c_int;
}

/// The number that a handle is to the machine.
pub fn key<T: Copy>(handle: &T) -> u64 {
    let mut key = [0u8; 8];
    let bytes = size_of::<T>().min(8);
    // SAFETY: a handle is a number or a pointer of so many bytes, all of which are set.
    unsafe {
        std::ptr::copy_nonoverlapping((&raw const *handle).cast(), key.as_mut_ptr(), bytes);
    }
    u64::from_ne_bytes(key)
}
