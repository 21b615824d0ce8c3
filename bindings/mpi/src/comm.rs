//! The program's communicator as a table of functions for kolo.

use crate::abi::{MPI_BAD_ARGUMENT, MPI_NOT_SUPPORTED, MpiTable, TABLE_VERSION};
use crate::{code, contained, net, outcome};
use mpi::ffi;
use mpi::topology::{Communicator, SimpleCommunicator};
use mpi::traits::{AsRaw, FromRaw};
use std::borrow::Cow;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The most bytes of one MPI call; counts are `int`.
const PIECE: usize = 1 << 30;
/// The tag that every MPI allows.
const LEAST_TAG_UB: c_int = 32_767;

unsafe extern "C" {
    static kolo_mpi_tag_ub_key: c_int;
}

/// Why a communicator cannot be used.
pub struct Problem {
    /// kolo's result code.
    pub code: c_int,
    /// A sentence with its remedy, as the table carries it.
    pub words: Cow<'static, CStr>,
}

const INVALID_ARGUMENT: c_int = 4;
pub const INVALID_USAGE: c_int = 5;

/// The context of a table: lives from the making of the table until kolo calls `free`.
pub struct Context {
    /// Not ours to free, so it is never dropped.
    comm: ManuallyDrop<SimpleCommunicator>,
    nranks: usize,
    thread_level: c_int,
    probe_tag: c_int,
    /// The name of the communicator; empty where it has none.
    name: CString,
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

    /// A table whose context holds one reference, which `free` gives back.
    pub fn table(context: &Arc<Context>) -> MpiTable {
        MpiTable {
            rank: context.comm.rank(),
            nranks: context.comm.size(),
            context: Arc::into_raw(Arc::clone(context)).cast_mut().cast(),
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

    /// Gives back the reference of a table that kolo did not accept.
    pub fn take_back(context: &Arc<Context>, table: &MpiTable) {
        if !context.freed.load(Ordering::SeqCst) {
            // SAFETY: `table` holds a reference to `context` that nobody has given back.
            drop(unsafe { Arc::from_raw(table.context.cast::<Context>().cast_const()) });
        }
    }

    /// Whether this thread may call MPI now.
    fn may_call(&self) -> bool {
        !mpi::environment::is_finalized() && may_call_at(self.thread_level)
    }

    /// The program's communicator of a context.
    ///
    /// # Safety
    /// `context` comes from [`Context::table`] and was not freed.
    pub unsafe fn raw(context: *mut c_void) -> ffi::MPI_Comm {
        // SAFETY: the caller's promise.
        unsafe { held(context) }.comm.as_raw()
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
    match code == 0 && is_own {
        true => name.to_owned(),
        false => CString::default(),
    }
}

/// The thread level that MPI gave: 0 single, 1 funneled, 2 serialized, 3 multiple. MPI must be
/// initialised.
pub fn level_of() -> c_int {
    // SAFETY: MPI is initialised; constants of the MPI library.
    unsafe {
        let mut given = 0;
        ffi::PMPI_Query_thread(&mut given);
        let levels = [
            ffi::RSMPI_THREAD_FUNNELED,
            ffi::RSMPI_THREAD_SERIALIZED,
            ffi::RSMPI_THREAD_MULTIPLE,
        ];
        levels.iter().filter(|&&level| given >= level).count() as c_int
    }
}

/// Whether a thread level lets this thread call MPI, which is not finalised.
pub fn may_call_at(thread_level: c_int) -> bool {
    const SERIALIZED: c_int = 2;
    let mut main = 0;
    // A blocking kolo call counts as an MPI call of its thread, as kolo_mpi.h says; so below
    // SERIALIZED it must be the main thread.
    // SAFETY: may be called by any thread.
    thread_level >= SERIALIZED || unsafe { ffi::PMPI_Is_thread_main(&mut main) == 0 && main != 0 }
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

/// The largest tag. A probe for a message that is there returns at once and makes no progress,
/// so idle must probe for one that no program sends.
pub fn largest_tag() -> c_int {
    let (mut value, mut found) = (std::ptr::null_mut::<c_int>(), 0);
    // SAFETY: MPI is initialised; the attribute's value is a pointer to int that MPI keeps.
    unsafe {
        let place = (&raw mut value).cast::<c_void>();
        let world = ffi::RSMPI_COMM_WORLD;
        ffi::PMPI_Comm_get_attr(world, kolo_mpi_tag_ub_key, place, &mut found);
        match found != 0 && !value.is_null() {
            true => *value,
            false => LEAST_TAG_UB,
        }
    }
}

/// # Safety
/// `context` comes from [`Context::table`] and was not freed.
unsafe fn held<'a>(context: *mut c_void) -> &'a Context {
    // SAFETY: the caller's promise.
    unsafe { &*context.cast::<Context>() }
}

unsafe extern "C" fn bcast(
    context: *mut c_void,
    buffer: *mut c_void,
    bytes: usize,
    root: c_int,
) -> c_int {
    contained(MPI_BAD_ARGUMENT, || {
        // SAFETY: kolo hands back the context of the table before it frees it.
        let comm = unsafe { held(context) }.comm.as_raw();
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
        let context = unsafe { held(context) };
        // SAFETY: kolo's buffers hold `bytes` bytes, and that of every rank.
        unsafe { allgather_bytes(context.comm.as_raw(), context.nranks, send, bytes, receive) }
    })
}

unsafe extern "C" fn idle(context: *mut c_void) -> c_int {
    contained(MPI_BAD_ARGUMENT, || {
        // SAFETY: kolo hands back the context of the table before it frees it.
        let context = unsafe { held(context) };
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
        let context = unsafe { Arc::from_raw(context.cast::<Context>().cast_const()) };
        context.freed.store(true, Ordering::SeqCst);
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
