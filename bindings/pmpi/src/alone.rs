//! A process that is alone to its MPI, though a launcher started it with others.
//!
//! The mpirun of one MPI starts a program of another as so many programs of one rank each, and
//! neither MPI says so. Kolo knows this mistake where a communicator is made, which this library
//! never does of one rank. So it makes one here if a launcher names more processes: where that is a
//! mistake kolo refuses, and tells why and what to do, once for all processes.

use crate::sys::{kolo_pmpi_started, koloCommDestroy, koloCommInitMPI};
use mpi::ffi;

/// Whether the world is one rank by mistake, of which kolo has told then.
pub fn by_mistake() -> bool {
    let mut nranks = 0;
    // SAFETY: MPI is initialised.
    unsafe { ffi::PMPI_Comm_size(ffi::RSMPI_COMM_WORLD, &mut nranks) };
    // SAFETY: a function of the shim, without arguments.
    if nranks != 1 || unsafe { kolo_pmpi_started() } < 2 {
        return false;
    }
    let mut kolo = std::ptr::null_mut();
    // SAFETY: a live communicator, and all its ranks are here.
    if unsafe { koloCommInitMPI(&mut kolo, ffi::RSMPI_COMM_WORLD) } != 0 {
        return true;
    }
    // SAFETY: the communicator that was just made.
    unsafe { koloCommDestroy(kolo) };
    false
}
