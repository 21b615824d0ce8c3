//! Ranks that meet through functions of a launcher: how `libkolo_mpi` starts kolo.

use crate::adopted::adopt;
use crate::comm::clear;
use crate::guard::guard;
use crate::types::{KOLO_MPI_TABLE_VERSION, KOLO_NO_RANK, koloComm_t, koloMpiTable, koloResult_t};
use kolo_core::bootstrap::TableBootstrap;
use kolo_core::bootstrap::mpi_abi::{MpiTable, TABLE_VERSION};
use kolo_core::comm::RawCalls;
use kolo_core::comm::{CommConfig, Communicator};
use std::mem::offset_of;
use std::sync::Arc;

/// Makes a communicator of ranks that already have a launcher's collective functions, as
/// koloCommInitMPI of libkolo_mpi does. The table is copied. Not deferred by a group: bcast and
/// allgather are called by this thread, before the call returns.
/// Errors: koloInvalidArgument (NULL, size, version, rank: the table was refused),
/// koloSystemError (a function of the table failed), and those of koloCommInitRank.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloCommInitTable(
    newcomm: *mut koloComm_t,
    table: *const koloMpiTable,
) -> koloResult_t {
    // SAFETY: the contract of kolo.h.
    let call = match unsafe { brings_mpi(table) } {
        true => "CommInitMPI",
        false => "CommInitTable",
    };
    guard(call, || {
        // SAFETY: the contract of kolo.h.
        unsafe { clear(newcomm) }?;
        // SAFETY: the contract of kolo.h, and the two structures are the same (see below).
        let bootstrap = unsafe { TableBootstrap::from_raw(table.cast::<MpiTable>()) }?;
        let idle = bootstrap.idle_hook();
        let no_rank = bootstrap.no_rank().unwrap_or(KOLO_NO_RANK);
        let made = Communicator::init_bootstrap_with_idle(
            Box::new(bootstrap),
            &CommConfig::default(),
            Some(Arc::new(move || idle.call())),
        )?;
        // SAFETY: checked by `clear`.
        unsafe { *newcomm = adopt(made, no_rank)? };
        Ok(koloResult_t::koloSuccess)
    })
}

/// Whether the table is that of kolo's libkolo_mpi, which alone has MPI as a network: then the
/// program has called koloCommInitMPI, and errors name that.
///
/// # Safety
/// `table` is NULL or as kolo.h asks: it has as many bytes as its `size` says.
unsafe fn brings_mpi(table: *const koloMpiTable) -> bool {
    // SAFETY: the caller's promise; every version of the table begins with its size.
    let has_it = !table.is_null() && unsafe { (*table).size } >= offset_of!(koloMpiTable, world);
    // SAFETY: the field is there.
    has_it && unsafe { !(*table).net.is_null() }
}

// What kolo.h shows is what the core reads.
macro_rules! same_place {
    ($($c:ident = $core:ident),*) => {
        $(const _: () = assert!(offset_of!(koloMpiTable, $c) == offset_of!(MpiTable, $core));)*
    };
}
same_place!(
    size = size,
    version = version,
    ctx = context,
    rank = rank,
    nranks = nranks,
    bcast = bcast,
    allgather = allgather,
    idle = idle,
    free = free,
    problem = problem,
    problemCode = problem_code,
    net = net,
    world = world,
    noRank = no_rank,
    name = name
);
const _: () = assert!(size_of::<koloMpiTable>() == size_of::<MpiTable>());
const _: () = assert!(KOLO_MPI_TABLE_VERSION == TABLE_VERSION);
