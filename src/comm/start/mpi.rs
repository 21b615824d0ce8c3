//! Communicators over the program's MPI, for programs in Rust.

use super::joining;
use crate::base::Result;
use crate::bootstrap::mpi_library;
use crate::comm::CommConfig;
use crate::comm::flight::turn;
use crate::comm::queue::Queue;
use std::sync::Arc;

/// Joins the ranks of an MPI communicator.
///
/// # Errors
/// As [`Communicator::init_mpi`](crate::comm::Communicator::init_mpi).
///
/// # Safety
/// As there.
pub(in crate::comm) unsafe fn join<C: Copy>(comm: C, config: &CommConfig) -> Result<Arc<Queue>> {
    let make = || {
        // SAFETY: our caller's promise.
        let bootstrap = unsafe { mpi_library::bootstrap(comm) }?;
        let idle = bootstrap.idle_hook();
        let idle: turn::IdleHook = Arc::new(move || idle.call());
        joining::over_program(&bootstrap, config, Some(idle))
    };
    make().map_err(|error| error.during("CommInitMPI"))
}
