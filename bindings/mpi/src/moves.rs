//! The collectives of the table for `kolo perf --compare mpi`: kolo's numbers in, one MPI call.

use crate::abi::{MPI_BAD_ARGUMENT, MPI_NOT_SUPPORTED, MpiComm};
use crate::api::handle;
use crate::{code, contained, outcome};
use mpi::ffi;
use std::ffi::{c_int, c_void};

unsafe extern "C" {
    static kolo_mpi_in_place: *mut c_void;
}

/// Tag of sendrecv.
const TAG: c_int = 7;

/// MPI's type for kolo's number.
pub(crate) fn datatype(number: c_int) -> Result<ffi::MPI_Datatype, c_int> {
    // SAFETY: constants of the MPI library.
    unsafe {
        Ok(match number {
            0 => ffi::RSMPI_INT8_T,
            1 => ffi::RSMPI_UINT8_T,
            2 => ffi::RSMPI_INT32_T,
            3 => ffi::RSMPI_UINT32_T,
            4 => ffi::RSMPI_INT64_T,
            5 => ffi::RSMPI_UINT64_T,
            7 => ffi::RSMPI_FLOAT,
            8 => ffi::RSMPI_DOUBLE,
            // Half precision, bfloat16 and the 8-bit floating types: MPI has none of them.
            6 | 9..=11 => return Err(MPI_NOT_SUPPORTED),
            // Complex and truth values, characters and pairs are not compared.
            16 | 17 | 20..=23 | 26 | 27 | 32..=37 => return Err(MPI_NOT_SUPPORTED),
            _ => return Err(MPI_BAD_ARGUMENT),
        })
    }
}

/// MPI's operation for kolo's number.
pub(crate) fn operation(number: c_int) -> Result<ffi::MPI_Op, c_int> {
    // SAFETY: constants of the MPI library.
    unsafe {
        Ok(match number {
            0 => ffi::RSMPI_SUM,
            1 => ffi::RSMPI_PROD,
            2 => ffi::RSMPI_MAX,
            3 => ffi::RSMPI_MIN,
            // The average, and the operations that kolo makes at run time.
            4.. => return Err(MPI_NOT_SUPPORTED),
            _ => return Err(MPI_BAD_ARGUMENT),
        })
    }
}

pub(crate) fn int(count: usize) -> Result<c_int, c_int> {
    c_int::try_from(count).map_err(|_| MPI_NOT_SUPPORTED)
}

/// A null pointer stands for MPI_IN_PLACE, except where there is nothing to send.
pub(crate) fn or_in_place(pointer: *const c_void, count: usize) -> *const c_void {
    match pointer.is_null() && count > 0 {
        // SAFETY: a constant of the shim.
        true => unsafe { kolo_mpi_in_place },
        false => pointer,
    }
}

/// Does so on the root alone, the only rank where MPI allows it.
pub(crate) fn or_in_place_at(
    comm: ffi::MPI_Comm,
    root: c_int,
    pointer: *const c_void,
    count: usize,
) -> Result<*const c_void, c_int> {
    if !pointer.is_null() || count == 0 {
        return Ok(pointer);
    }
    let mut rank = -1;
    // SAFETY: a communicator that the caller says is alive.
    outcome(unsafe { ffi::PMPI_Comm_rank(comm, &mut rank) })?;
    if rank == root {
        Ok(or_in_place(pointer, count))
    } else {
        Err(MPI_BAD_ARGUMENT)
    }
}

/// Runs `body`, the work of a function of this table: it translates, calls MPI once, and never lets
/// a panic across.
pub(crate) fn call(body: impl FnOnce() -> Result<c_int, c_int>) -> c_int {
    contained(MPI_BAD_ARGUMENT, || code(body().and_then(outcome)))
}

/// MPI_Allreduce.
///
/// # Safety
/// The buffers hold what the MPI call of this name needs, and `comm` is live.
pub unsafe extern "C" fn allreduce(
    comm: MpiComm,
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    dtype: c_int,
    op: c_int,
) -> c_int {
    call(|| {
        let (comm, dtype, op, n) = (handle(comm)?, datatype(dtype)?, operation(op)?, int(count)?);
        let send = or_in_place(send, count);
        // SAFETY: the caller's buffers hold `count` elements; the handles are MPI's.
        Ok(unsafe { ffi::PMPI_Allreduce(send, receive, n, dtype, op, comm) })
    })
}

/// MPI_Reduce_scatter_block.
///
/// # Safety
/// The buffers hold what the MPI call of this name needs, and `comm` is live.
pub unsafe extern "C" fn reduce_scatter(
    comm: MpiComm,
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    dtype: c_int,
    op: c_int,
) -> c_int {
    call(|| {
        let (comm, dtype, op, n) = (handle(comm)?, datatype(dtype)?, operation(op)?, int(count)?);
        let send = or_in_place(send, count);
        // SAFETY: the caller's buffers hold nranks * count and count elements.
        Ok(unsafe { ffi::PMPI_Reduce_scatter_block(send, receive, n, dtype, op, comm) })
    })
}

/// MPI_Reduce.
///
/// # Safety
/// The buffers hold what the MPI call of this name needs, and `comm` is live.
pub unsafe extern "C" fn reduce(
    comm: MpiComm,
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    dtype: c_int,
    op: c_int,
    root: c_int,
) -> c_int {
    call(|| {
        let (comm, dtype, op, n) = (handle(comm)?, datatype(dtype)?, operation(op)?, int(count)?);
        let send = or_in_place_at(comm, root, send, count)?;
        // SAFETY: the caller's buffers hold `count` elements.
        Ok(unsafe { ffi::PMPI_Reduce(send, receive, n, dtype, op, root, comm) })
    })
}

/// MPI_Bcast.
///
/// # Safety
/// The buffers hold what the MPI call of this name needs, and `comm` is live.
pub unsafe extern "C" fn bcast(
    comm: MpiComm,
    buffer: *mut c_void,
    count: usize,
    dtype: c_int,
    root: c_int,
) -> c_int {
    call(|| {
        let (comm, dtype, n) = (handle(comm)?, datatype(dtype)?, int(count)?);
        // SAFETY: the caller's buffer holds `count` elements.
        Ok(unsafe { ffi::PMPI_Bcast(buffer, n, dtype, root, comm) })
    })
}

/// MPI_Allgather.
///
/// # Safety
/// The buffers hold what the MPI call of this name needs, and `comm` is live.
pub unsafe extern "C" fn allgather(
    comm: MpiComm,
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    dtype: c_int,
) -> c_int {
    call(|| {
        let (comm, dtype, n) = (handle(comm)?, datatype(dtype)?, int(count)?);
        let send = or_in_place(send, count);
        // SAFETY: the caller's buffers hold count and nranks * count elements.
        Ok(unsafe { ffi::PMPI_Allgather(send, n, dtype, receive, n, dtype, comm) })
    })
}

/// MPI_Alltoall.
///
/// # Safety
/// The buffers hold what the MPI call of this name needs, and `comm` is live.
pub unsafe extern "C" fn alltoall(
    comm: MpiComm,
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    dtype: c_int,
) -> c_int {
    call(|| {
        let (comm, dtype, n) = (handle(comm)?, datatype(dtype)?, int(count)?);
        let send = or_in_place(send, count);
        // SAFETY: the caller's buffers hold nranks * count elements.
        Ok(unsafe { ffi::PMPI_Alltoall(send, n, dtype, receive, n, dtype, comm) })
    })
}

/// MPI_Gather.
///
/// # Safety
/// The buffers hold what the MPI call of this name needs, and `comm` is live.
pub unsafe extern "C" fn gather(
    comm: MpiComm,
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    dtype: c_int,
    root: c_int,
) -> c_int {
    call(|| {
        let (comm, dtype, n) = (handle(comm)?, datatype(dtype)?, int(count)?);
        let send = or_in_place_at(comm, root, send, count)?;
        // SAFETY: the caller's buffers hold count and, at the root, nranks * count elements.
        Ok(unsafe { ffi::PMPI_Gather(send, n, dtype, receive, n, dtype, root, comm) })
    })
}

/// MPI_Scatter; at the root it is `receive` that may be null for in place.
///
/// # Safety
/// The buffers hold what the MPI call of this name needs, and `comm` is live.
pub unsafe extern "C" fn scatter(
    comm: MpiComm,
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    dtype: c_int,
    root: c_int,
) -> c_int {
    call(|| {
        let (comm, dtype, n) = (handle(comm)?, datatype(dtype)?, int(count)?);
        let receive = or_in_place_at(comm, root, receive, count)?.cast_mut();
        // SAFETY: the caller's buffers hold, at the root, nranks * count, and count elements.
        Ok(unsafe { ffi::PMPI_Scatter(send, n, dtype, receive, n, dtype, root, comm) })
    })
}

/// MPI_Sendrecv.
///
/// # Safety
/// The buffers hold what the MPI call of this name needs, and `comm` is live.
pub unsafe extern "C" fn sendrecv(
    comm: MpiComm,
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    dtype: c_int,
    to: c_int,
    from: c_int,
) -> c_int {
    call(|| {
        let (comm, dtype, n) = (handle(comm)?, datatype(dtype)?, int(count)?);
        if (send.is_null() || receive.is_null()) && count > 0 {
            return Err(MPI_BAD_ARGUMENT);
        }
        // SAFETY: the caller's buffers hold `count` elements; the status may be ignored.
        Ok(unsafe {
            let status = ffi::RSMPI_STATUS_IGNORE;
            ffi::PMPI_Sendrecv(
                send, n, dtype, to, TAG, receive, n, dtype, from, TAG, comm, status,
            )
        })
    })
}
