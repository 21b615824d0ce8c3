//! Whether kolo takes a call of a communicator, which is attached where its time has come.

use crate::agree;
use crate::comms::State;
use crate::decide::{Across, Agreement, Collective, Decision, Reason, Size, Stage, decide};
use crate::levels::Levels;
use crate::sys::{Comm, koloCommAbort, koloCommInitMPI};
use crate::{memory, report};
use mpi::ffi;
use std::ffi::c_void;

/// Some: kolo takes it, and the communicator is attached.
#[inline]
pub fn take(state: &mut State, collective: Collective, size: Size) -> Option<()> {
    let agreed = agree::agreed()?;
    match decide(agreed, &mut state.known, collective, size) {
        Decision::Take => {}
        Decision::Attach if attach(state, agreed).is_some() => {}
        Decision::Attach => {
            report::passed(collective, Reason::Communicator);
            return None;
        }
        Decision::Pass(reason) => {
            report::passed(collective, reason);
            return None;
        }
    }
    report::taken(collective, state.known.nranks, size);
    Some(())
}

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

/// Makes kolo's communicator, on all ranks or on none.
#[cold]
fn attach(state: &mut State, agreed: &Agreement) -> Option<()> {
    // Whatever happens, it is tried once.
    state.known.stage = Stage::Mpi;
    if on_any(state, memory::would_pass(&state.known))? {
        report::no_memory();
        return None;
    }
    let levels = state.known.spans() && agreed.across == Across::Levels;
    let made = match levels {
        true => Levels::make(state),
        false => made_of(state.handle).map(|kolo| state.kolo = kolo),
    };
    if on_any(state, made.is_none())? {
        let kolo = std::mem::replace(&mut state.kolo, std::ptr::null_mut());
        if !kolo.is_null() {
            // SAFETY: the communicator that was just made; the others may have none.
            unsafe { koloCommAbort(kolo) };
        }
        state.levels = None;
        report::not_attached();
        return None;
    }
    state.known.stage = Stage::Attached;
    memory::taken(&state.known);
    report::attached();
    if state.known.spans() {
        report::spans_nodes();
    }
    Some(())
}

/// Kolo's communicator of the same ranks.
pub fn made_of(handle: ffi::MPI_Comm) -> Option<Comm> {
    let mut kolo = std::ptr::null_mut();
    // SAFETY: a live communicator, in a collective of it.
    let code = unsafe { koloCommInitMPI(&mut kolo, handle) };
    (code == 0).then_some(kolo)
}
