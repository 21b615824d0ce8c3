//! Scans, collectives of blocks of different sizes and those along the ring, for
//! `kolo perf --compare mpi`; see [`crate::moves`].

use crate::abi::{MPI_BAD_ARGUMENT, MpiComm};
use crate::api::{handle, word};
use crate::moves::{call, datatype, int, operation, or_in_place, or_in_place_at};
use crate::outcome;
use mpi::ffi;
use std::ffi::{c_int, c_void};

/// Counts and places are needed.
fn given(lists: &[*const c_int]) -> Result<(), c_int> {
    if lists.iter().any(|list| list.is_null()) {
        Err(MPI_BAD_ARGUMENT)
    } else {
        Ok(())
    }
}

/// MPI_Scan.
///
/// # Safety
/// The buffers hold what the MPI call of this name needs, and `comm` is live.
pub unsafe extern "C" fn scan(
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
        Ok(unsafe { ffi::PMPI_Scan(send, receive, n, dtype, op, comm) })
    })
}

/// MPI_Exscan.
///
/// # Safety
/// The buffers hold what the MPI call of this name needs, and `comm` is live.
pub unsafe extern "C" fn exscan(
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
        Ok(unsafe { ffi::PMPI_Exscan(send, receive, n, dtype, op, comm) })
    })
}

/// MPI_Allgatherv.
///
/// # Safety
/// The buffers hold what the MPI call of this name needs, and `comm` is live.
pub unsafe extern "C" fn allgatherv(
    comm: MpiComm,
    send: *const c_void,
    count: usize,
    receive: *mut c_void,
    counts: *const c_int,
    places: *const c_int,
    dtype: c_int,
) -> c_int {
    call(|| {
        let (comm, dtype, n) = (handle(comm)?, datatype(dtype)?, int(count)?);
        given(&[counts, places])?;
        let send = or_in_place(send, count);
        // SAFETY: the caller's buffers hold `count` elements and the blocks.
        Ok(unsafe { ffi::PMPI_Allgatherv(send, n, dtype, receive, counts, places, dtype, comm) })
    })
}

/// MPI_Gatherv.
///
/// # Safety
/// The buffers hold what the MPI call of this name needs, and `comm` is live.
pub unsafe extern "C" fn gatherv(
    comm: MpiComm,
    send: *const c_void,
    count: usize,
    receive: *mut c_void,
    counts: *const c_int,
    places: *const c_int,
    dtype: c_int,
    root: c_int,
) -> c_int {
    call(|| {
        let (comm, dtype, n) = (handle(comm)?, datatype(dtype)?, int(count)?);
        given(&[counts, places])?;
        let send = or_in_place_at(comm, root, send, count)?;
        // SAFETY: the caller's buffers hold `count` elements and, at the root, the blocks.
        Ok(
            unsafe {
                ffi::PMPI_Gatherv(send, n, dtype, receive, counts, places, dtype, root, comm)
            },
        )
    })
}

/// MPI_Scatterv; at the root it is `receive` that may be null for in place.
///
/// # Safety
/// The buffers hold what the MPI call of this name needs, and `comm` is live.
pub unsafe extern "C" fn scatterv(
    comm: MpiComm,
    send: *const c_void,
    counts: *const c_int,
    places: *const c_int,
    receive: *mut c_void,
    count: usize,
    dtype: c_int,
    root: c_int,
) -> c_int {
    call(|| {
        let (comm, dtype, n) = (handle(comm)?, datatype(dtype)?, int(count)?);
        given(&[counts, places])?;
        let receive = or_in_place_at(comm, root, receive, count)?.cast_mut();
        // SAFETY: the caller's buffers hold, at the root, the blocks, and `count` elements.
        Ok(unsafe {
            ffi::PMPI_Scatterv(send, counts, places, dtype, receive, n, dtype, root, comm)
        })
    })
}

/// MPI_Reduce_scatter.
///
/// # Safety
/// The buffers hold what the MPI call of this name needs, and `comm` is live.
pub unsafe extern "C" fn reduce_scatter_v(
    comm: MpiComm,
    send: *const c_void,
    receive: *mut c_void,
    counts: *const c_int,
    dtype: c_int,
    op: c_int,
) -> c_int {
    call(|| {
        let (comm, dtype, op) = (handle(comm)?, datatype(dtype)?, operation(op)?);
        given(&[counts])?;
        // In place on all ranks or on none, also on those whose block is empty.
        let send = or_in_place(send, 1);
        // SAFETY: the caller's buffers hold all blocks and the own one.
        Ok(unsafe { ffi::PMPI_Reduce_scatter(send, receive, counts, dtype, op, comm) })
    })
}

/// MPI_Alltoallv.
///
/// # Safety
/// The buffers hold what the MPI call of this name needs, and `comm` is live.
pub unsafe extern "C" fn alltoallv(
    comm: MpiComm,
    send: *const c_void,
    send_counts: *const c_int,
    send_places: *const c_int,
    receive: *mut c_void,
    counts: *const c_int,
    places: *const c_int,
    dtype: c_int,
) -> c_int {
    call(|| {
        let (comm, dtype) = (handle(comm)?, datatype(dtype)?);
        given(&[send_counts, send_places, counts, places])?;
        // SAFETY: the caller's buffers hold the blocks.
        Ok(unsafe {
            ffi::PMPI_Alltoallv(
                send,
                send_counts,
                send_places,
                dtype,
                receive,
                counts,
                places,
                dtype,
                comm,
            )
        })
    })
}

/// MPI_Cart_create: one periodic dimension of all ranks, which keep their numbers.
///
/// # Safety
/// `comm` is live; `new` has room for a communicator.
pub unsafe extern "C" fn ring(comm: MpiComm, new: *mut MpiComm) -> c_int {
    call(|| {
        let comm = handle(comm)?;
        if new.is_null() {
            return Err(MPI_BAD_ARGUMENT);
        }
        let (mut n, periodic) = (0, 1);
        // SAFETY: a communicator that the caller says is alive, and a handle to write.
        unsafe {
            let mut made = ffi::RSMPI_COMM_NULL;
            outcome(ffi::PMPI_Comm_size(comm, &mut n))?;
            let result = ffi::PMPI_Cart_create(comm, 1, &n, &periodic, 0, &mut made);
            *new = word(made);
            Ok(result)
        }
    })
}

/// MPI_Neighbor_allgather.
///
/// # Safety
/// The buffers hold what the MPI call of this name needs, and `comm` is live.
pub unsafe extern "C" fn neighbor_allgather(
    comm: MpiComm,
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    dtype: c_int,
) -> c_int {
    call(|| {
        let (comm, dtype, n) = (handle(comm)?, datatype(dtype)?, int(count)?);
        // SAFETY: the caller's buffers hold `count` elements for each neighbour.
        Ok(unsafe { ffi::PMPI_Neighbor_allgather(send, n, dtype, receive, n, dtype, comm) })
    })
}

/// MPI_Neighbor_alltoall.
///
/// # Safety
/// The buffers hold what the MPI call of this name needs, and `comm` is live.
pub unsafe extern "C" fn neighbor_alltoall(
    comm: MpiComm,
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    dtype: c_int,
) -> c_int {
    call(|| {
        let (comm, dtype, n) = (handle(comm)?, datatype(dtype)?, int(count)?);
        // SAFETY: the caller's buffers hold `count` elements for each neighbour.
        Ok(unsafe { ffi::PMPI_Neighbor_alltoall(send, n, dtype, receive, n, dtype, comm) })
    })
}

/// MPI_Neighbor_allgatherv.
///
/// # Safety
/// The buffers hold what the MPI call of this name needs, and `comm` is live.
pub unsafe extern "C" fn neighbor_allgatherv(
    comm: MpiComm,
    send: *const c_void,
    count: usize,
    receive: *mut c_void,
    counts: *const c_int,
    places: *const c_int,
    dtype: c_int,
) -> c_int {
    call(|| {
        let (comm, dtype, n) = (handle(comm)?, datatype(dtype)?, int(count)?);
        given(&[counts, places])?;
        // SAFETY: the caller's buffers hold `count` elements and the blocks.
        Ok(unsafe {
            ffi::PMPI_Neighbor_allgatherv(send, n, dtype, receive, counts, places, dtype, comm)
        })
    })
}

/// MPI_Neighbor_alltoallv.
///
/// # Safety
/// The buffers hold what the MPI call of this name needs, and `comm` is live.
pub unsafe extern "C" fn neighbor_alltoallv(
    comm: MpiComm,
    send: *const c_void,
    send_counts: *const c_int,
    send_places: *const c_int,
    receive: *mut c_void,
    counts: *const c_int,
    places: *const c_int,
    dtype: c_int,
) -> c_int {
    call(|| {
        let (comm, dtype) = (handle(comm)?, datatype(dtype)?);
        given(&[send_counts, send_places, counts, places])?;
        // SAFETY: the caller's buffers hold the blocks.
        Ok(unsafe {
            ffi::PMPI_Neighbor_alltoallv(
                send,
                send_counts,
                send_places,
                dtype,
                receive,
                counts,
                places,
                dtype,
                comm,
            )
        })
    })
}
