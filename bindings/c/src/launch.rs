//! Communicators of all processes that a launcher has started, without MPI.

use crate::adopted::adopt;
use crate::comm::clear;
use crate::guard::guard;
use crate::types::{KOLO_NO_RANK, koloComm_t, koloResult_t};
use kolo_core::base::Result;
use kolo_core::comm::{CommConfig, Communicator};

/// Makes a communicator of all processes that were started together, without MPI and without a
/// unique id; every process calls it, as often as the others, one thread at a time. The first of
/// these that is there says who they are: KOLO_RANK, KOLO_NRANKS and KOLO_COMM_ID (host:port of
/// rank 0); a PMIx server (srun --mpi=pmix, mpirun of Open MPI); a PMI server (srun --mpi=pmi2,
/// mpirun of MPICH); the variables of a Slurm step. With none of them the process is alone, with
/// one rank. Not deferred by a group. In a program with MPI use koloCommInitMPI.
/// Errors: koloInvalidArgument (NULL, a bad variable), koloInvalidUsage (several ranks without a
/// way to meet), and those of koloCommInitRank.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloCommInitEnv(newcomm: *mut koloComm_t) -> koloResult_t {
    // SAFETY: as promised by our caller.
    unsafe { init("CommInitEnv", newcomm, Communicator::init_env) }
}

/// Makes a communicator of all tasks of this process's Slurm step from the variables of the step
/// alone, whatever srun --mpi says; every task calls it, as often as the others, one thread at a
/// time. Rank 0 listens on the first node of the step, at a port from the range that
/// KOLO_SLURM_PORT and KOLO_SLURM_PORT_COUNT give; KOLO_COMM_ID names another address. Not deferred
/// by a group.
/// Errors: koloInvalidArgument (NULL, a bad variable), koloInvalidUsage (no Slurm step),
/// koloSystemError (rank 0 was not found within KOLO_START_TIMEOUT), and those of koloCommInitRank.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloCommInitSlurm(newcomm: *mut koloComm_t) -> koloResult_t {
    // SAFETY: as promised by our caller.
    unsafe { init("CommInitSlurm", newcomm, Communicator::init_slurm) }
}

/// # Safety
/// `newcomm` is NULL or valid for writes.
unsafe fn init(
    call: &'static str,
    newcomm: *mut koloComm_t,
    make: impl FnOnce(&CommConfig) -> Result<Communicator>,
) -> koloResult_t {
    guard(call, || {
        // SAFETY: our caller's promise.
        unsafe { clear(newcomm) }?;
        let made = make(&CommConfig::default())?;
        // SAFETY: checked by `clear`.
        unsafe { *newcomm = adopt(made, KOLO_NO_RANK)? };
        Ok(koloResult_t::koloSuccess)
    })
}
