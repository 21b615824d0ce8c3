//! `libkolo_mpi_calls.so`: kolo's start-up over MPI. One build per MPI family. Programs know it as
//! `libkolo_mpi.so`, which loads it when it has found the MPI of the process (`front/front.c`).
//!
//! Problem: `libkolo.so.0` must run under every MPI and without one, but the binary interfaces of
//! the MPI families differ. Idea: everything that knows MPI is here, behind tables of C
//! functions ([`abi`], the same file that the core compiles):
//!
//! - [`init`]: `koloCommInitMPI` and `koloCommInitMPI_f` hand a table over the program's
//!   communicator to `koloCommInitTable` of `libkolo.so.0`.
//! - [`family`]: which MPI this library was built for.
//! - [`api`]: `kolo_mpi_start` gives the `kolo` command line tool, which loads this library at run
//!   time, the MPI calls that `kolo perf --compare mpi` times.
//! - [`net`]: point-to-point MPI, for `KOLO_NET=mpi`; the table of [`init`] points to it.
//!
//! The program's communicator is used, and split only for [`net`]: collectively while
//! `koloCommInitMPI` runs and when the kolo communicator is split, and at no other time, so the
//! program may free it as soon as it makes no more of these calls. rsmpi gives the communicator
//! type and the foreign functions; the collectives are called through its `ffi` because its
//! wrappers drop MPI's return code, and by their `PMPI_` names so that profilers do not count
//! kolo's start-up as the program's. A panic never leaves an exported function.
//!
//! Build: `make mpi-openmpi`, `make mpi-mpich`. Cargo does not notice that `MPICC` names another
//! MPI, so the Makefile has it forget the bindings in between.

#[path = "../../../src/bootstrap/mpi_abi.rs"]
mod abi;
mod api;
mod blocks;
mod comm;
mod context;
mod family;
mod init;
mod level;
mod moves;
mod net;
#[path = "../../../src/transport/net/mpi/abi.rs"]
mod net_abi;
mod word;

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the body of an exported function; a panic becomes `otherwise`.
pub(crate) fn contained<T>(otherwise: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(otherwise)
}

/// `Ok` for MPI_SUCCESS (0 in every MPI), else the code.
pub(crate) fn outcome(code: c_int) -> Result<(), c_int> {
    match code {
        0 => Ok(()),
        code => Err(code),
    }
}

/// The number that an exported function returns.
pub(crate) fn code(result: Result<(), c_int>) -> c_int {
    result.err().unwrap_or(0)
}
