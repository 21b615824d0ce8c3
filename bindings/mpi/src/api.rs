//! MPI for the `kolo` command line tool: `kolo_mpi_start`.
//!
//! The tool is not linked to MPI; it loads this library and gets a table of functions. Each is
//! one MPI call with its arguments translated, so that timing through the table times MPI.

use crate::abi::{API_VERSION, MPI_BAD_ARGUMENT, MpiApi, MpiComm, MpiTable, mpi_functions};
use crate::blocks::*;
use crate::comm;
use crate::context::Context;
use crate::moves::*;
use crate::word::Word;
use crate::{code, contained, family, outcome};
use mpi::ffi;
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The table, with pointers to strings that are never freed.
struct Api(MpiApi);

// SAFETY: the pointers lead to constant or leaked strings; everything else is plain data.
unsafe impl Send for Api {}
// SAFETY: as above; nothing is ever written.
unsafe impl Sync for Api {}

static API: OnceLock<Option<Api>> = OnceLock::new();
/// Whether MPI was initialised here and is to be finalised here.
static OURS: AtomicBool = AtomicBool::new(false);

/// The communicator behind a number; 0 is none.
pub(crate) fn handle(comm: MpiComm) -> Result<ffi::MPI_Comm, c_int> {
    match comm {
        0 => Err(MPI_BAD_ARGUMENT),
        word => Ok(ffi::MPI_Comm(Word::from_word(word))),
    }
}

/// The number of a communicator; 0 is none.
pub(crate) fn word(comm: ffi::MPI_Comm) -> MpiComm {
    // SAFETY: a constant of the MPI library.
    match comm == unsafe { ffi::RSMPI_COMM_NULL } {
        true => 0,
        false => comm.0.to_word(),
    }
}

/// Initialises MPI if the program has not, and gives the table; the same one every time. Null
/// when MPI cannot be had, with a sentence on standard error. `thread_level`: 0 single, 1
/// funneled, 2 serialized, 3 multiple. To be called by the main thread.
///
/// # Safety
/// No other thread calls MPI_Init or MPI_Finalize at the same time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kolo_mpi_start(thread_level: c_int) -> *const MpiApi {
    contained(std::ptr::null(), || {
        // SAFETY: the caller's promise.
        let api = API.get_or_init(|| unsafe { make(thread_level) });
        match api {
            Some(api) if !mpi::environment::is_finalized() => &raw const api.0,
            _ => {
                eprintln!("kolo: MPI cannot be started: it is finalised, or MPI_Init failed");
                std::ptr::null()
            }
        }
    })
}

/// Starts MPI, unless the program has; the thread level that it gives.
///
/// # Safety
/// As for [`kolo_mpi_start`].
unsafe fn begin(thread_level: c_int) -> Option<c_int> {
    if mpi::environment::is_finalized() {
        return None;
    }
    // SAFETY: constants of the MPI library.
    let levels = unsafe {
        [
            ffi::RSMPI_THREAD_SINGLE,
            ffi::RSMPI_THREAD_FUNNELED,
            ffi::RSMPI_THREAD_SERIALIZED,
            ffi::RSMPI_THREAD_MULTIPLE,
        ]
    };
    let wanted = levels[thread_level.clamp(0, 3) as usize];
    let mut given = wanted;
    // SAFETY: MPI is not finalised; null arguments are allowed since MPI-2.
    unsafe {
        if mpi::environment::is_initialized() {
            ffi::PMPI_Query_thread(&mut given);
        } else {
            let (argc, argv) = (std::ptr::null_mut(), std::ptr::null_mut());
            outcome(ffi::PMPI_Init_thread(argc, argv, wanted, &mut given)).ok()?;
            OURS.store(true, Ordering::SeqCst);
        }
    }
    let level = levels.iter().position(|&level| level == given);
    Some(level.unwrap_or(0) as c_int)
}

/// # Safety
/// As for [`kolo_mpi_start`].
unsafe fn make(thread_level: c_int) -> Option<Api> {
    // SAFETY: the caller's promise.
    let thread_level = unsafe { begin(thread_level) }?;
    let (mut rank, mut nranks) = (0, 0);
    // SAFETY: MPI is initialised.
    let world = unsafe {
        let world = ffi::RSMPI_COMM_WORLD;
        outcome(ffi::PMPI_Comm_rank(world, &mut rank)).ok()?;
        outcome(ffi::PMPI_Comm_size(world, &mut nranks)).ok()?;
        world.0.to_word()
    };
    macro_rules! filled {
        ($( $(#[$doc:meta])* $name:ident: $type:ty, )+) => {
            MpiApi {
                size: size_of::<MpiApi>(),
                version: API_VERSION,
                thread_level,
                family: family::name().as_ptr(),
                library: family::version().into_raw(),
                world,
                rank,
                nranks,
                $( $name, )+
            }
        };
    }
    Some(Api(mpi_functions!(filled)))
}

unsafe extern "C" fn table(comm: MpiComm, table: *mut MpiTable) -> c_int {
    contained(MPI_BAD_ARGUMENT, || {
        let (Ok(comm), false) = (handle(comm), table.is_null()) else {
            return MPI_BAD_ARGUMENT;
        };
        let filled = match Context::new(comm) {
            Ok(context) => comm::table(&context),
            Err(problem) => comm::refusal(&problem),
        };
        // SAFETY: the caller gives room for a table.
        unsafe { table.write(filled) };
        0
    })
}

unsafe extern "C" fn comm_info(comm: MpiComm, rank: *mut c_int, nranks: *mut c_int) -> c_int {
    contained(MPI_BAD_ARGUMENT, || {
        let (Ok(comm), false, false) = (handle(comm), rank.is_null(), nranks.is_null()) else {
            return MPI_BAD_ARGUMENT;
        };
        // SAFETY: a communicator that the caller says is alive, and two numbers to write.
        code(unsafe {
            outcome(ffi::PMPI_Comm_rank(comm, rank))
                .and_then(|()| outcome(ffi::PMPI_Comm_size(comm, nranks)))
        })
    })
}

unsafe extern "C" fn split(comm: MpiComm, color: c_int, key: c_int, new: *mut MpiComm) -> c_int {
    contained(MPI_BAD_ARGUMENT, || {
        let (Ok(comm), false) = (handle(comm), new.is_null()) else {
            return MPI_BAD_ARGUMENT;
        };
        // SAFETY: a communicator that the caller says is alive, and a handle to write.
        code(unsafe {
            let color = if color < 0 {
                ffi::RSMPI_UNDEFINED
            } else {
                color
            };
            let mut made = ffi::RSMPI_COMM_NULL;
            let result = outcome(ffi::PMPI_Comm_split(comm, color, key, &mut made));
            *new = word(made);
            result
        })
    })
}

unsafe extern "C" fn comm_free(comm: MpiComm) -> c_int {
    contained(MPI_BAD_ARGUMENT, || {
        // SAFETY: a communicator that the caller says is alive and will not use again.
        code(handle(comm).and_then(|mut comm| outcome(unsafe { ffi::PMPI_Comm_free(&mut comm) })))
    })
}

unsafe extern "C" fn barrier(comm: MpiComm) -> c_int {
    contained(MPI_BAD_ARGUMENT, || {
        // SAFETY: a communicator that the caller says is alive.
        code(handle(comm).and_then(|comm| outcome(unsafe { ffi::PMPI_Barrier(comm) })))
    })
}

unsafe extern "C" fn wtime() -> f64 {
    // SAFETY: MPI is initialised, else there were no table. (A macro in MPICH, hence rsmpi's.)
    contained(0.0, || unsafe { ffi::RSMPI_Wtime() })
}

unsafe extern "C" fn bcast_bytes(
    comm: MpiComm,
    buffer: *mut c_void,
    bytes: usize,
    root: c_int,
) -> c_int {
    contained(MPI_BAD_ARGUMENT, || match handle(comm) {
        // SAFETY: a communicator that the caller says is alive, and its buffer.
        Ok(comm) => unsafe { comm::bcast_bytes(comm, buffer, bytes, root) },
        Err(code) => code,
    })
}

unsafe extern "C" fn allgather_bytes(
    comm: MpiComm,
    send: *const c_void,
    bytes: usize,
    receive: *mut c_void,
) -> c_int {
    contained(MPI_BAD_ARGUMENT, || {
        let Ok(comm) = handle(comm) else {
            return MPI_BAD_ARGUMENT;
        };
        let mut nranks = 0;
        // SAFETY: a communicator that the caller says is alive, and its buffers.
        unsafe {
            match ffi::PMPI_Comm_size(comm, &mut nranks) {
                0 => comm::allgather_bytes(comm, nranks as usize, send, bytes, receive),
                code => code,
            }
        }
    })
}

unsafe extern "C" fn finalize() -> c_int {
    contained(MPI_BAD_ARGUMENT, || {
        if !OURS.load(Ordering::SeqCst) || mpi::environment::is_finalized() {
            return 0;
        }
        // SAFETY: MPI is initialised and not finalised.
        unsafe { ffi::PMPI_Finalize() }
    })
}

unsafe extern "C" fn abort(code: c_int) -> c_int {
    // SAFETY: MPI is initialised, else there were no table.
    contained(MPI_BAD_ARGUMENT, || unsafe {
        ffi::PMPI_Abort(ffi::RSMPI_COMM_WORLD, code)
    })
}
