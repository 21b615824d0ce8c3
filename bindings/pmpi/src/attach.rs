//! Whether kolo takes a call of a communicator, which is attached where its time has come.

use crate::agree;
use crate::comms::State;
use crate::decide::{Collective, Decision, Reason, Size, Stage, decide};
use crate::sys::{koloCommAbort, koloCommInitMPI};
use crate::{memory, report};
use mpi::ffi;
use std::ffi::c_void;

/// Some: kolo takes it, and the communicator is attached.
#[inline]
pub fn take(state: &mut State, collective: Collective, size: Size) -> Option<()> {
    let agreed = agree::agreed()?;
    match decide(agreed, &mut state.known, collective, size) {
        Decision::Take => {}
        Decision::Attach if attach(state).is_some() => {}
        Decision::Attach => {
            report::passed(collective, Reason::Communicator);
            return None;
        }
        Decision::Pass(reason) => {
            report::passed(collective, reason);
            return None;
        }
    }
    report::taken(collective, size);
    Some(())
}

/// The largest of each number over the ranks. None where MPI fails.
fn largest(state: &State, mine: [u64; 3]) -> Option<[u64; 3]> {
    let mut all = [0u64; 3];
    // SAFETY: all ranks are in a collective of this communicator, and have decided alike.
    let code = unsafe {
        ffi::PMPI_Allreduce(
            mine.as_ptr().cast(),
            all.as_mut_ptr().cast::<c_void>(),
            3,
            ffi::RSMPI_UINT64_T,
            ffi::RSMPI_MAX,
            state.handle,
        )
    };
    (code == 0).then_some(all)
}

/// Makes kolo's communicator, on all ranks or on none.
#[cold]
fn attach(state: &mut State) -> Option<()> {
    // Whatever happens, it is tried once.
    state.known.stage = Stage::Mpi;
    let (node, nranks) = (agree::node(), state.known.nranks);
    let [most, rest, full] = largest(state, [node, !node, memory::would_pass(nranks).into()])?;
    if most != !rest {
        report::spans_nodes();
        return None;
    }
    if full != 0 {
        report::no_memory();
        return None;
    }
    let mut kolo = std::ptr::null_mut();
    // SAFETY: a live communicator, in a collective of it.
    let failed = unsafe { koloCommInitMPI(&mut kolo, state.handle) } != 0;
    let [_, _, anywhere] = largest(state, [0, 0, u64::from(failed)])?;
    if anywhere != 0 {
        if !failed {
            // SAFETY: the communicator that was just made; the others may have none.
            unsafe { koloCommAbort(kolo) };
        }
        report::not_attached();
        return None;
    }
    state.kolo = kolo;
    state.known.stage = Stage::Attached;
    memory::taken(nranks);
    report::attached();
    Some(())
}
