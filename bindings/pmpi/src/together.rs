//! Steps that all ranks of a communicator take together before kolo takes its calls.

use crate::comms::State;
use crate::sys::{Comm, koloCommInitMPI};
use mpi::ffi;
use std::ffi::c_void;

/// Whether it is so on any rank. None where MPI fails.
pub fn on_any(state: &State, here: bool) -> Option<bool> {
    let (mine, mut all) = (u64::from(here), 0u64);
    // SAFETY: all ranks are in a collective of this communicator, and have decided alike.
    let code = unsafe {
        ffi::PMPI_Allreduce(
            (&raw const mine).cast(),
            (&raw mut all).cast::<c_void>(),
            1,
            ffi::RSMPI_UINT64_T,
            ffi::RSMPI_MAX,
            state.handle,
        )
    };
    (code == 0).then_some(all != 0)
}

/// Kolo's communicator of the same ranks.
pub fn made_of(handle: ffi::MPI_Comm) -> Option<Comm> {
    let mut kolo = std::ptr::null_mut();
    // SAFETY: a live communicator, in a collective of it.
    let code = unsafe { koloCommInitMPI(&mut kolo, handle) };
    (code == 0).then_some(kolo)
}
