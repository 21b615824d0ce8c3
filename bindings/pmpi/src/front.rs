//! MPI's own functions, as the front hands them over, and whether MPI ends.

use crate::Function;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

static NATIVE: AtomicPtr<Function> = AtomicPtr::new(std::ptr::null_mut());
/// MPI_Finalize has begun.
static ENDING: AtomicBool = AtomicBool::new(false);

/// Takes the front's list of MPI's functions, which stays as long as the process.
pub fn begin(list: *const Function) {
    NATIVE.store(list.cast_mut(), Ordering::Relaxed);
}

/// MPI_Finalize has begun.
pub fn end() {
    ENDING.store(true, Ordering::Relaxed);
}

/// MPI's function at a place of the front's list, which kolo took: so MPI has it.
#[inline]
pub fn native(place: usize) -> Function {
    // SAFETY: the front's table, which stays.
    unsafe { *NATIVE.load(Ordering::Relaxed).add(place) }
}

/// Whether MPI_Finalize has begun: communicators are MPI's to free.
pub fn is_ending() -> bool {
    ENDING.load(Ordering::Relaxed)
}
