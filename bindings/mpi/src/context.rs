//! The program's communicator, as kolo holds it.

use crate::abi::MpiTable;
use crate::level::{largest_tag, level_of, may_call_at};
use mpi::ffi;
use mpi::topology::{Communicator, SimpleCommunicator};
use mpi::traits::{AsRaw, FromRaw};
use std::borrow::Cow;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Why a communicator cannot be used.
pub struct Problem {
    /// kolo's result code.
    pub code: c_int,
    /// A sentence with its remedy, as the table carries it.
    pub words: Cow<'static, CStr>,
}

const INVALID_ARGUMENT: c_int = 4;
const INVALID_USAGE: c_int = 5;

/// The context of a table: lives from the making of the table until kolo calls `free`.
pub struct Context {
    /// Not ours to free, so it is never dropped.
    comm: ManuallyDrop<SimpleCommunicator>,
    pub nranks: usize,
    thread_level: c_int,
    /// Tag of no message: see [`largest_tag`].
    pub probe_tag: c_int,
    /// The name of the communicator; empty where it has none.
    pub name: CString,
    freed: AtomicBool,
}

// SAFETY: plain values that never change but for the atomic; which thread may call MPI with
// them is MPI's rule, kept by kolo (collectives) and by `may_call` (idle).
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

fn problem(code: c_int, words: &'static CStr) -> Problem {
    Problem {
        code,
        words: Cow::Borrowed(words),
    }
}

impl Context {
    /// Checks that MPI can be used and wraps `raw`, which stays the program's.
    pub fn new(raw: ffi::MPI_Comm) -> Result<Arc<Context>, Problem> {
        if !mpi::environment::is_initialized() {
            return Err(problem(
                INVALID_USAGE,
                c"MPI is not initialised. Remedy: call MPI_Init or MPI_Init_thread before this \
                         call, which is allowed beside MPI_Session_init too; or give all ranks one \
                         unique id by MPI, and join by that (koloCommInitRank, in Rust \
                         Communicator::init_rank)",
            ));
        }
        if mpi::environment::is_finalized() {
            return Err(problem(
                INVALID_USAGE,
                c"MPI is finalised already. Remedy: make the communicator before MPI_Finalize",
            ));
        }
        // SAFETY: the handles are constants of the MPI library.
        let (null, world, own) = unsafe {
            (
                ffi::RSMPI_COMM_NULL,
                ffi::RSMPI_COMM_WORLD,
                ffi::RSMPI_COMM_SELF,
            )
        };
        if raw == null {
            return Err(problem(
                INVALID_ARGUMENT,
                c"the communicator is MPI_COMM_NULL. Remedy: let only ranks that belong to the \
                         communicator make one of kolo's from it",
            ));
        }
        let mut inter = 0;
        // SAFETY: MPI is initialised and the program says that `raw` is a communicator.
        unsafe { ffi::PMPI_Comm_test_inter(raw, &mut inter) };
        if inter != 0 {
            return Err(problem(
                INVALID_ARGUMENT,
                c"the communicator is an inter-communicator. Remedy: merge its two groups \
                         with MPI_Intercomm_merge first",
            ));
        }
        let comm = if raw == world {
            SimpleCommunicator::world()
        } else if raw == own {
            SimpleCommunicator::self_comm()
        } else {
            // SAFETY: a live intra-communicator that is none of MPI's own; ManuallyDrop below
            // keeps rsmpi from freeing it.
            unsafe { SimpleCommunicator::from_raw(raw) }
        };
        let comm = ManuallyDrop::new(comm);
        Ok(Arc::new(Context {
            nranks: comm.size() as usize,
            comm,
            thread_level: level_of(),
            probe_tag: largest_tag(),
            name: name_of(raw, raw == world || raw == own),
            freed: AtomicBool::new(false),
        }))
    }

    /// Whether this thread may call MPI now.
    pub fn may_call(&self) -> bool {
        !mpi::environment::is_finalized() && may_call_at(self.thread_level)
    }

    /// A reference for a table, which [`Context::free`] or [`Context::take_back`] gives back.
    pub fn lend(context: &Arc<Context>) -> *mut c_void {
        Arc::into_raw(Arc::clone(context)).cast_mut().cast()
    }

    /// Context that a table holds.
    ///
    /// # Safety
    /// `context` comes from [`Context::lend`] and was not given back.
    pub unsafe fn held<'a>(context: *mut c_void) -> &'a Context {
        // SAFETY: the caller's promise.
        unsafe { &*context.cast::<Context>() }
    }

    /// Gives back the reference of a table.
    ///
    /// # Safety
    /// `context` comes from [`Context::lend`] and was not given back.
    pub unsafe fn free(context: *mut c_void) {
        // SAFETY: the caller's promise.
        let context = unsafe { Arc::from_raw(context.cast::<Context>().cast_const()) };
        context.freed.store(true, Ordering::SeqCst);
    }

    /// Gives back the reference of a table that kolo did not accept, unless it was freed.
    pub fn take_back(&self, table: &MpiTable) {
        if !self.freed.load(Ordering::SeqCst) {
            // SAFETY: `table` holds a reference that nobody has given back.
            drop(unsafe { Arc::from_raw(table.context.cast::<Context>().cast_const()) });
        }
    }

    /// The program's communicator.
    pub fn raw(&self) -> ffi::MPI_Comm {
        self.comm.as_raw()
    }

    /// The rank of this process in it.
    pub fn rank(&self) -> c_int {
        self.comm.rank()
    }
}

/// The name of a live communicator: that which the program has given it, or if it `is_mpis` that of
/// MPI. Others may have inherited MPI's names, and have none.
fn name_of(comm: ffi::MPI_Comm, is_mpis: bool) -> CString {
    /// No MPI has longer ones.
    const MOST_BYTES: usize = 1024;
    let mut name = [0 as c_char; MOST_BYTES];
    let mut length = 0;
    // SAFETY: a live communicator, and a place for any name.
    let code = unsafe { ffi::PMPI_Comm_get_name(comm, name.as_mut_ptr(), &mut length) };
    // SAFETY: MPI ends the name by a zero, and where it wrote none the array does.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) };
    let is_own = is_mpis || !name.to_bytes().starts_with(b"MPI_COMM_");
    if code == 0 && is_own {
        name.to_owned()
    } else {
        CString::default()
    }
}
