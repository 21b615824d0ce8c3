//! The line about sums that MPI runs, though their bits are to depend on the number of ranks alone.

use crate::agreed::agreed;
use crate::decide::{Collective, Reason, Size};
use crate::say;
use mpi::ffi;
use std::sync::atomic::{AtomicBool, Ordering};

static SAID: AtomicBool = AtomicBool::new(false);

/// MPI runs a call of a communicator; no size: nobody has looked at it. If it may be a sum of
/// floats, the first rank of the communicator tells it, once.
#[cold]
pub fn passed(handle: ffi::MPI_Comm, collective: Collective, size: Option<Size>, reason: Reason) {
    if !agreed().is_some_and(|agreed| agreed.placement) {
        return;
    }
    let may_be = size.map_or(reduces(collective), Size::is_of_floats);
    let is_said = || SAID.load(Ordering::Relaxed);
    if !may_be || is_said() || is_behind(handle) || SAID.swap(true, Ordering::Relaxed) {
        return;
    }
    let why = match reason {
        Reason::Derived | Reason::OddSize => {
            "of a type that kolo does not fold. Remedy: reduce its parts as basic types"
        }
        Reason::FloatSum => "as KOLO_PMPI_FLOAT_SUMS says. Remedy: unset it",
        Reason::Left => "as KOLO_PMPI_COLLECTIVES says. Remedy: name this collective there",
        Reason::Across => "between nodes, as KOLO_PMPI_NODES says. Remedy: set it to kolo",
        Reason::Communicator | Reason::Early | Reason::Faster => {
            "on a communicator that stays with MPI. Remedy: see by KOLO_REPORT=1 why, and set \
             KOLO_PMPI_MEMORY or KOLO_PMPI_MIN_RANKS"
        }
    };
    say(&format!(
        "kolo: KOLO_REPRODUCIBLE=placement does not hold for all sums of this program: MPI runs \
         an MPI_{} {why}",
        collective.name()
    ));
}

fn reduces(collective: Collective) -> bool {
    use Collective::{Allreduce, Exscan, Reduce, ReduceScatter, ReduceScatterBlock, Scan};
    matches!(
        collective,
        Allreduce | Exscan | Reduce | ReduceScatter | ReduceScatterBlock | Scan
    )
}

/// Whether this rank is not the first of a communicator.
fn is_behind(handle: ffi::MPI_Comm) -> bool {
    let mut rank = 0;
    // SAFETY: a live communicator, on which a call begins.
    let code = unsafe { ffi::PMPI_Comm_rank(handle, &mut rank) };
    code != 0 || rank != 0
}
