//! The entry of C and Fortran programs: `koloCommInitMPI`.

use crate::abi::MpiTable;
use crate::comm;
use crate::contained;
use crate::context::Context;
use mpi::ffi;
use std::ffi::{c_int, c_void};

/// `koloInternalError`.
const INTERNAL_ERROR: c_int = 3;

/// `koloComm_t`.
type KoloComm = *mut c_void;

unsafe extern "C" {
    /// Of `libkolo.so.0`.
    fn koloCommInitTable(newcomm: *mut KoloComm, table: *const MpiTable) -> c_int;
}

/// Makes a kolo communicator of the ranks of `comm`. Collective over `comm`; see `kolo_mpi.h`.
///
/// # Safety
/// `newcomm` is null (an error) or can be written; `comm` is MPI_COMM_NULL (an error) or a live
/// communicator, when MPI is initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloCommInitMPI(newcomm: *mut KoloComm, comm: ffi::MPI_Comm) -> c_int {
    contained(INTERNAL_ERROR, || {
        // SAFETY: the caller's promises.
        unsafe { start(newcomm, comm) }
    })
}

/// Makes it from the handle of a communicator that Fortran has.
///
/// # Safety
/// As for [`koloCommInitMPI`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloCommInitMPI_f(newcomm: *mut KoloComm, comm: ffi::RSMPI_Fint) -> c_int {
    contained(INTERNAL_ERROR, || {
        // Handles can be converted only while MPI runs; any handle will do to say that it does not.
        let usable = mpi::environment::is_initialized() && !mpi::environment::is_finalized();
        // SAFETY: MPI converts the handles that it gave to Fortran; the caller's promises.
        unsafe {
            let comm = if usable {
                ffi::RSMPI_Comm_f2c(comm)
            } else {
                ffi::RSMPI_COMM_NULL
            };
            start(newcomm, comm)
        }
    })
}

/// # Safety
/// As for [`koloCommInitMPI`].
unsafe fn start(newcomm: *mut KoloComm, comm: ffi::MPI_Comm) -> c_int {
    match Context::new(comm) {
        Ok(context) => {
            let table = comm::table(&context);
            // SAFETY: the table is whole and its functions belong to its context.
            let code = unsafe { koloCommInitTable(newcomm, &table) };
            if code != 0 {
                context.take_back(&table);
            }
            code
        }
        // libkolo turns the sentence into this thread's last error.
        // SAFETY: a table with a problem is read no further.
        Err(problem) => unsafe { koloCommInitTable(newcomm, &comm::refusal(&problem)) },
    }
}

/// For programs in Rust, which link kolo as a crate: a table over the communicator whose handle has
/// `comm_bytes` bytes at `comm`, or one that says why there can be none. Not 0: the handle has
/// another size than an MPI_Comm of this MPI, and nothing was written.
///
/// # Safety
/// `comm` can be read and `table` written for so many bytes; the handle is MPI_COMM_NULL or that of
/// a live communicator, when MPI is initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kolo_mpi_table(
    comm: *const c_void,
    comm_bytes: usize,
    table: *mut MpiTable,
    table_bytes: usize,
) -> c_int {
    contained(INTERNAL_ERROR, || {
        let of_this_mpi = comm_bytes == size_of::<ffi::MPI_Comm>();
        if !of_this_mpi {
            return crate::abi::MPI_BAD_ARGUMENT;
        }
        // SAFETY: the caller's promise; alignment is not assumed.
        let context = Context::new(unsafe { comm.cast::<ffi::MPI_Comm>().read_unaligned() });
        let mut made = match context {
            Ok(context) => comm::table(&context),
            // The words are read after this returns, and nobody says when: they stay.
            Err(problem) => comm::refusal(Box::leak(Box::new(problem))),
        };
        made.size = made.size.min(table_bytes);
        let (from, to) = ((&raw const made).cast::<u8>(), table.cast::<u8>());
        // SAFETY: both have so many bytes, and do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(from, to, made.size) };
        0
    })
}
