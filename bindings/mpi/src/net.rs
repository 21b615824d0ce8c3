//! Point-to-point MPI for kolo: the program's MPI as the network between nodes (`KOLO_NET=mpi`).
//!
//! Each function is one or two MPI calls on a private communicator of the program's ranks, so
//! that kolo's messages and the program's never meet. Errors are returned, whatever the program
//! has set for its own communicator.

use crate::abi::MPI_BAD_ARGUMENT;
use crate::context::Context;
use crate::level::{largest_tag, level_of, may_call_at};
use crate::net_abi::{
    CANCELLED, FINALISED, MAY_CALL, MpiNetInfo, MpiNetTable, MpiRequest, NET_VERSION, NO_REQUEST,
    WRONG_THREAD,
};
use crate::{code, contained, outcome, word::Word};
use mpi::ffi;
use std::ffi::{c_char, c_int, c_void};

/// The most bytes of one message; counts are `int`.
const MOST_BYTES: usize = 1 << 30;

/// More than MPI_MAX_ERROR_STRING of any MPI.
const ERROR_BYTES: usize = 8192;

/// A network over one communicator of MPI. `open` makes it, `close` frees it.
struct Net {
    comm: ffi::MPI_Comm,
    thread_level: c_int,
}

/// The table that a [`crate::abi::MpiTable`] points to.
pub static TABLE: MpiNetTable = MpiNetTable {
    size: size_of::<MpiNetTable>(),
    version: NET_VERSION,
    open: Some(open),
    may_call: Some(may_call),
    isend: Some(isend),
    irecv: Some(irecv),
    test: Some(test),
    cancel: Some(cancel),
    poll: Some(poll),
    error_text: Some(error_text),
    close: Some(close),
};

/// # Safety
/// `net` comes from `open` and was not closed.
unsafe fn held<'a>(net: *mut c_void) -> &'a Net {
    // SAFETY: the caller's promise.
    unsafe { &*net.cast::<Net>() }
}

fn request_of(word: MpiRequest) -> ffi::MPI_Request {
    match word {
        // SAFETY: a constant of the MPI library.
        NO_REQUEST => unsafe { ffi::RSMPI_REQUEST_NULL },
        word => ffi::MPI_Request(Word::from_word(word)),
    }
}

fn word_of(request: ffi::MPI_Request) -> MpiRequest {
    // SAFETY: a constant of the MPI library.
    match request == unsafe { ffi::RSMPI_REQUEST_NULL } {
        true => NO_REQUEST,
        false => request.0.to_word(),
    }
}

/// The thread level that kolo relies on. MPICH 4.0 gives MPI_THREAD_MULTIPLE, but two threads at
/// once crash it over UCX: there kolo's own threads leave it alone.
fn trusted(level: c_int) -> c_int {
    const SERIALIZED: c_int = 2;
    let version = mpi::environment::library_version().unwrap_or_default();
    if is_mpich_4_0(&version) {
        level.min(SERIALIZED)
    } else {
        level
    }
}

/// Whether MPI_Get_library_version says `MPICH Version: 4.0.x`.
fn is_mpich_4_0(version: &str) -> bool {
    let number = version.strip_prefix("MPICH Version:").map(str::trim_start);
    number.is_some_and(|number| number.starts_with("4.0"))
}

unsafe extern "C" fn open(context: *mut c_void, info: *mut MpiNetInfo) -> c_int {
    contained(MPI_BAD_ARGUMENT, || {
        if context.is_null() || info.is_null() {
            return MPI_BAD_ARGUMENT;
        }
        // SAFETY: kolo hands back the context of its table, while the program's communicator is
        // there; the handles are constants of the MPI library.
        code(unsafe {
            let of_program = Context::held(context).raw();
            let mut comm = ffi::RSMPI_COMM_NULL;
            let (mut rank, mut nranks) = (0, 0);
            // A duplicate would have the program's attributes: its functions would copy them.
            outcome(ffi::PMPI_Comm_rank(of_program, &mut rank))
                .and_then(|()| outcome(ffi::PMPI_Comm_split(of_program, 0, rank, &mut comm)))
                .and_then(|()| {
                    outcome(ffi::PMPI_Comm_set_errhandler(
                        comm,
                        ffi::RSMPI_ERRORS_RETURN,
                    ))
                })
                .and_then(|()| outcome(ffi::PMPI_Comm_rank(comm, &mut rank)))
                .and_then(|()| outcome(ffi::PMPI_Comm_size(comm, &mut nranks)))
                .map(|()| {
                    let thread_level = trusted(level_of());
                    let net = Box::new(Net { comm, thread_level });
                    *info = MpiNetInfo {
                        net: Box::into_raw(net).cast(),
                        rank,
                        nranks,
                        thread_level,
                        most_tag: largest_tag(),
                        most_bytes: MOST_BYTES,
                    };
                })
        })
    })
}

unsafe extern "C" fn may_call(net: *mut c_void) -> c_int {
    contained(WRONG_THREAD, || {
        if mpi::environment::is_finalized() {
            return FINALISED;
        }
        // SAFETY: kolo hands back what `open` gave.
        match may_call_at(unsafe { held(net) }.thread_level) {
            true => MAY_CALL,
            false => WRONG_THREAD,
        }
    })
}

unsafe extern "C" fn isend(
    net: *mut c_void,
    data: *const c_void,
    bytes: usize,
    rank: c_int,
    tag: c_int,
    request: *mut MpiRequest,
) -> c_int {
    contained(MPI_BAD_ARGUMENT, || {
        let Ok(count) = c_int::try_from(bytes) else {
            return MPI_BAD_ARGUMENT;
        };
        // SAFETY: kolo hands back what `open` gave, data of so many bytes, and a place to write.
        unsafe {
            let (comm, byte) = (held(net).comm, ffi::RSMPI_UINT8_T);
            let mut made = ffi::RSMPI_REQUEST_NULL;
            let result = ffi::PMPI_Isend(data, count, byte, rank, tag, comm, &mut made);
            *request = word_of(made);
            result
        }
    })
}

unsafe extern "C" fn irecv(
    net: *mut c_void,
    data: *mut c_void,
    bytes: usize,
    rank: c_int,
    tag: c_int,
    request: *mut MpiRequest,
) -> c_int {
    contained(MPI_BAD_ARGUMENT, || {
        let Ok(count) = c_int::try_from(bytes) else {
            return MPI_BAD_ARGUMENT;
        };
        // SAFETY: as in `isend`; the data may be written.
        unsafe {
            let (comm, byte) = (held(net).comm, ffi::RSMPI_UINT8_T);
            let mut made = ffi::RSMPI_REQUEST_NULL;
            let result = ffi::PMPI_Irecv(data, count, byte, rank, tag, comm, &mut made);
            *request = word_of(made);
            result
        }
    })
}

unsafe extern "C" fn test(
    _: *mut c_void,
    request: *mut MpiRequest,
    done: *mut c_int,
    received: *mut usize,
) -> c_int {
    contained(MPI_BAD_ARGUMENT, || {
        // SAFETY: kolo hands over a request that is not done, and places to write.
        unsafe {
            let mut made = request_of(*request);
            let mut status = std::mem::zeroed::<ffi::MPI_Status>();
            let result = ffi::PMPI_Test(&mut made, done, &mut status);
            *request = word_of(made);
            if result != 0 || *done == 0 {
                return result;
            }
            let (mut cancelled, mut count) = (0, 0);
            ffi::PMPI_Test_cancelled(&status, &mut cancelled);
            ffi::PMPI_Get_count(&status, ffi::RSMPI_UINT8_T, &mut count);
            *received = match cancelled {
                0 => usize::try_from(count).unwrap_or(0),
                _ => CANCELLED,
            };
            0
        }
    })
}

unsafe extern "C" fn cancel(_: *mut c_void, request: *mut MpiRequest) -> c_int {
    contained(MPI_BAD_ARGUMENT, || {
        // SAFETY: kolo hands over a receive that is not done.
        unsafe { ffi::PMPI_Cancel(&mut request_of(*request)) }
    })
}

unsafe extern "C" fn poll(
    net: *mut c_void,
    data: *mut c_void,
    bytes: usize,
    tag: c_int,
    rank: *mut c_int,
) -> c_int {
    contained(MPI_BAD_ARGUMENT, || {
        let Ok(count) = c_int::try_from(bytes) else {
            return MPI_BAD_ARGUMENT;
        };
        // SAFETY: kolo hands back what `open` gave, room for so many bytes, and a place to write;
        // it lets one thread poll at a time, so that nobody takes what the probe saw.
        unsafe {
            *rank = -1;
            let (comm, byte) = (held(net).comm, ffi::RSMPI_UINT8_T);
            let mut status = std::mem::zeroed::<ffi::MPI_Status>();
            let mut there = 0;
            let any = ffi::RSMPI_ANY_SOURCE;
            let result = ffi::PMPI_Iprobe(any, tag, comm, &mut there, &mut status);
            if result != 0 || there == 0 {
                return result;
            }
            let from = status.MPI_SOURCE;
            let ignore = ffi::RSMPI_STATUS_IGNORE;
            let result = ffi::PMPI_Recv(data, count, byte, from, tag, comm, ignore);
            if result == 0 {
                *rank = from;
            }
            result
        }
    })
}

unsafe extern "C" fn error_text(code: c_int, text: *mut c_char, bytes: usize) {
    contained((), || {
        let mut words = vec![0u8; ERROR_BYTES];
        let mut length = 0;
        // SAFETY: the buffer is longer than MPI asks for; without MPI there are no words.
        unsafe {
            if !mpi::environment::is_finalized() {
                ffi::PMPI_Error_string(code, words.as_mut_ptr().cast(), &mut length);
            }
            if bytes > 0 {
                let length = (length.max(0) as usize).min(bytes - 1);
                std::ptr::copy_nonoverlapping(words.as_ptr(), text.cast(), length);
                *text.add(length) = 0;
            }
        }
    });
}

unsafe extern "C" fn close(net: *mut c_void) -> c_int {
    contained(MPI_BAD_ARGUMENT, || {
        // SAFETY: kolo closes once what `open` gave.
        unsafe {
            let mut net = Box::from_raw(net.cast::<Net>());
            ffi::PMPI_Comm_free(&mut net.comm)
        }
    })
}
