//! Communicators over the program's MPI, for programs in Rust.

use crate::base::Result;
use crate::bootstrap::mpi_library;
use crate::comm::{CommConfig, Communicator};
use std::sync::Arc;

impl Communicator {
    /// Makes a communicator of the ranks of an MPI communicator, with the same ranks. Collective
    /// over it. With crate `mpi` (rsmpi) it is `world.as_raw()`; any other `MPI_Comm` by value is
    /// as good.
    ///
    /// kolo is linked to no MPI: it loads `libkolo_mpi.so` of the family that this process runs,
    /// from `../lib/kolo/FAMILY` beside the program, or from where `KOLO_MPI_LIBRARY` says. The
    /// communicator stays the program's. It is used only here and in [`Communicator::split`], and
    /// may be freed when there are no more such calls. MPI may be finalised before or after
    /// [`Communicator::destroy`]; with `KOLO_NET=mpi` only after it. Below `MPI_THREAD_MULTIPLE` a
    /// blocking call of kolo counts as an MPI call of its thread.
    ///
    /// # Errors
    /// As [`Communicator::init_rank`]; MPI that is not there, not initialised or finalised; no
    /// library for it; MPI_COMM_NULL; an inter-communicator.
    ///
    /// # Safety
    /// `comm` is an `MPI_Comm` of the MPI that this process is linked to: MPI_COMM_NULL or alive.
    pub unsafe fn init_mpi<C: Copy>(comm: C, config: &CommConfig) -> Result<Communicator> {
        let make = || {
            // SAFETY: our caller's promise.
            let bootstrap = unsafe { mpi_library::bootstrap(comm) }?;
            let idle = bootstrap.idle_hook();
            let idle = Arc::new(move || idle.call());
            Communicator::init_bootstrap_with_idle(Box::new(bootstrap), config, Some(idle))
        };
        make().map_err(|error| error.during("CommInitMPI"))
    }
}
