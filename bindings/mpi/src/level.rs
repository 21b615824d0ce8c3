//! Limits of the MPI library, which hold for all its communicators: threads, tags.

use mpi::ffi;
use std::ffi::{c_int, c_void};

/// The tag that every MPI allows.
const LEAST_TAG_UB: c_int = 32_767;

unsafe extern "C" {
    static kolo_mpi_tag_ub_key: c_int;
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

/// The largest tag. A probe for a message that is there returns at once and makes no progress,
/// so idle must probe for one that no program sends.
pub fn largest_tag() -> c_int {
    let (mut value, mut found) = (std::ptr::null_mut::<c_int>(), 0);
    // SAFETY: MPI is initialised; the attribute's value is a pointer to int that MPI keeps.
    unsafe {
        let place = (&raw mut value).cast::<c_void>();
        let world = ffi::RSMPI_COMM_WORLD;
        ffi::PMPI_Comm_get_attr(world, kolo_mpi_tag_ub_key, place, &mut found);
        if found != 0 && !value.is_null() {
            *value
        } else {
            LEAST_TAG_UB
        }
    }
}
