//! `MPI_Alloc_mem`: memory that the ranks of a node read where it lies.
//!
//! Large calls on such memory need no copy through slots, whichever rank's it is. What MPI would do
//! with keys of an info object only MPI knows, so that such memory, and small one, is MPI's. Memory
//! goes back to whom it came from, also while MPI_Finalize runs.

use crate::contained;
use crate::native;
use crate::sys::{koloMemAlloc, koloMemFree};
use mpi::ffi;
use std::collections::HashSet;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::Mutex;
use std::sync::PoisonError;

/// Smaller memory is not worth a file and a mapping of its own.
const LEAST: ffi::MPI_Aint = 64 << 10;
/// Their places in the front's tables.
const ALLOC_MEM: usize = 31;
const FREE_MEM: usize = 32;

/// Addresses of what kolo has allocated.
static OURS: Mutex<Option<HashSet<usize>>> = Mutex::new(None);

type AllocMem = unsafe extern "C" fn(ffi::MPI_Aint, ffi::MPI_Info, *mut c_void) -> c_int;
type FreeMem = unsafe extern "C" fn(*mut c_void) -> c_int;

/// Both functions, in the order of the front's tables.
pub fn all() -> [*const c_void; 2] {
    [alloc_mem as *const c_void, free_mem as *const c_void]
}

/// Kolo's memory. None: MPI is to allocate it.
fn allocate(bytes: ffi::MPI_Aint, info: ffi::MPI_Info) -> Option<*mut c_void> {
    // SAFETY: a constant of the MPI.
    if bytes < LEAST || info != unsafe { ffi::RSMPI_INFO_NULL } {
        return None;
    }
    let mut at = null_mut();
    // SAFETY: a place for the address.
    let code = unsafe { koloMemAlloc(&mut at, bytes as usize) };
    if code != 0 || at.is_null() {
        return None;
    }
    let mut ours = OURS.lock().unwrap_or_else(PoisonError::into_inner);
    ours.get_or_insert_default().insert(at.addr());
    Some(at)
}

/// # Safety
/// As MPI_Alloc_mem has it: `baseptr` is the address of a pointer.
unsafe extern "C" fn alloc_mem(
    bytes: ffi::MPI_Aint,
    info: ffi::MPI_Info,
    baseptr: *mut c_void,
) -> c_int {
    match contained(None, || allocate(bytes, info)) {
        Some(at) if !baseptr.is_null() => {
            // SAFETY: the caller's promise.
            unsafe { baseptr.cast::<*mut c_void>().write(at) };
            0
        }
        _ => {
            // SAFETY: the function of that name, with the arguments as they came.
            unsafe {
                let function: AllocMem = std::mem::transmute(native(ALLOC_MEM));
                function(bytes, info, baseptr)
            }
        }
    }
}

/// # Safety
/// As MPI_Free_mem has it.
unsafe extern "C" fn free_mem(base: *mut c_void) -> c_int {
    let is_ours = contained(false, || {
        let mut ours = OURS.lock().unwrap_or_else(PoisonError::into_inner);
        ours.as_mut().is_some_and(|ours| ours.remove(&base.addr()))
    });
    // SAFETY: memory of `allocate`, or the function of that name with its argument.
    unsafe {
        if is_ours {
            koloMemFree(base)
        } else {
            std::mem::transmute::<*const c_void, FreeMem>(native(FREE_MEM))(base)
        }
    }
}
