//! The program's communicator as a table of functions for kolo.

use crate::abi::{MPI_BAD_ARGUMENT, MPI_NOT_SUPPORTED, MpiTable, TABLE_VERSION};
use crate::context::{Context, Problem};
use crate::{code, contained, net, outcome};
use mpi::ffi;
use mpi::topology::{Communicator, SimpleCommunicator};
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

/// The most bytes of one MPI call; counts are `int`.
const PIECE: usize = 1 << 30;

/// A table whose context holds one reference, which `free` gives back.
pub fn table(context: &Arc<Context>) -> MpiTable {
    MpiTable {
        rank: context.rank(),
        nranks: context.nranks as c_int,
        context: Context::lend(context),
        bcast: Some(bcast),
        allgather: Some(allgather),
        idle: Some(idle),
        free: Some(free),
        net: (&raw const net::TABLE).cast(),
        world: SimpleCommunicator::world().size() as usize,
        // SAFETY: a constant of the MPI library.
        no_rank: unsafe { ffi::RSMPI_PROC_NULL },
        name: context.name.as_ptr(),
        ..empty_table()
    }
}

/// A table that only says what is wrong.
pub fn refusal(problem: &Problem) -> MpiTable {
    MpiTable {
        problem: problem.words.as_ptr(),
        problem_code: problem.code,
        // Says to libkolo whose table it is.
        net: (&raw const net::TABLE).cast(),
        ..empty_table()
    }
}

fn empty_table() -> MpiTable {
    MpiTable {
        size: size_of::<MpiTable>(),
        version: TABLE_VERSION,
        context: std::ptr::null_mut(),
        rank: 0,
        nranks: 0,
        bcast: None,
        allgather: None,
        idle: None,
        free: None,
        problem: std::ptr::null::<c_char>(),
        problem_code: 0,
        net: std::ptr::null(),
        world: 0,
        no_rank: 0,
        name: std::ptr::null(),
    }
}

unsafe extern "C" fn bcast(
    context: *mut c_void,
    buffer: *mut c_void,
    bytes: usize,
    root: c_int,
) -> c_int {
    contained(MPI_BAD_ARGUMENT, || {
        // SAFETY: kolo hands back the context of the table before it frees it.
        let comm = unsafe { Context::held(context) }.raw();
        // SAFETY: kolo's buffer holds `bytes` bytes.
        unsafe { bcast_bytes(comm, buffer, bytes, root) }
    })
}

unsafe extern "C" fn allgather(
    context: *mut c_void,
    send: *const c_void,
    bytes: usize,
    receive: *mut c_void,
) -> c_int {
    contained(MPI_BAD_ARGUMENT, || {
        // SAFETY: kolo hands back the context of the table before it frees it.
        let context = unsafe { Context::held(context) };
        // SAFETY: kolo's buffers hold `bytes` bytes, and that of every rank.
        unsafe { allgather_bytes(context.raw(), context.nranks, send, bytes, receive) }
    })
}

unsafe extern "C" fn idle(context: *mut c_void) -> c_int {
    contained(MPI_BAD_ARGUMENT, || {
        // SAFETY: kolo hands back the context of the table before it frees it.
        let context = unsafe { Context::held(context) };
        if !context.may_call() {
            return MPI_NOT_SUPPORTED;
        }
        let mut flag = 0;
        // The world, because the program may have freed its communicator by now; progress is
        // made for all of them.
        // SAFETY: MPI is initialised, not finalised, and this thread may call it.
        unsafe {
            ffi::PMPI_Iprobe(
                ffi::RSMPI_ANY_SOURCE,
                context.probe_tag,
                ffi::RSMPI_COMM_WORLD,
                &mut flag,
                ffi::RSMPI_STATUS_IGNORE,
            )
        }
    })
}

unsafe extern "C" fn free(context: *mut c_void) -> c_int {
    contained(MPI_BAD_ARGUMENT, || {
        // SAFETY: kolo frees the context once; the reference is the one that the table holds.
        unsafe { Context::free(context) };
        0
    })
}

/// MPI_Bcast of any number of bytes.
///
/// # Safety
/// `comm` is a live intra-communicator, `buffer` holds `bytes` bytes.
pub unsafe fn bcast_bytes(
    comm: ffi::MPI_Comm,
    buffer: *mut c_void,
    bytes: usize,
    root: c_int,
) -> c_int {
    let mut done = 0;
    while done < bytes {
        let count = (bytes - done).min(PIECE);
        // SAFETY: the piece lies inside the buffer; the count fits into int.
        let result = unsafe {
            let piece = buffer.cast::<u8>().add(done).cast::<c_void>();
            ffi::PMPI_Bcast(piece, count as c_int, ffi::RSMPI_UINT8_T, root, comm)
        };
        if result != 0 {
            return result;
        }
        done += count;
    }
    0
}

/// MPI_Allgather of at most 1 GiB per rank.
///
/// # Safety
/// `comm` is a live intra-communicator of `nranks` ranks, `send` holds `bytes` bytes and
/// `receive` nranks times that.
pub unsafe fn allgather_bytes(
    comm: ffi::MPI_Comm,
    nranks: usize,
    send: *const c_void,
    bytes: usize,
    receive: *mut c_void,
) -> c_int {
    if bytes > PIECE || bytes.checked_mul(nranks).is_none() {
        return MPI_NOT_SUPPORTED;
    }
    let count = bytes as c_int;
    // SAFETY: the caller's promises; the count fits into int.
    code(outcome(unsafe {
        let byte = ffi::RSMPI_UINT8_T;
        ffi::PMPI_Allgather(send, count, byte, receive, count, byte, comm)
    }))
}
