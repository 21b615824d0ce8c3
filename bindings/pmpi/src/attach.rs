//! Whether kolo takes a call of a communicator, which is attached where its time has come.

use crate::agreed::agreed;
use crate::comms::State;
use crate::decide::{Across, Agreement, Collective, Decision, Reason, Size, Stage, decide};
use crate::sys::koloCommAbort;
use crate::together::{made_of, on_any};
use crate::{memory, placement, report, spanning};

/// Some: kolo takes it, and the communicator is attached.
#[inline]
pub fn take(state: &mut State, collective: Collective, size: Size) -> Option<()> {
    let agreed = agreed()?;
    let reason = match decide(agreed, &mut state.known, collective, size) {
        Decision::Take => None,
        Decision::Attach if attach(state, agreed).is_some() => None,
        Decision::Attach => Some(Reason::Communicator),
        Decision::Pass(reason) => Some(reason),
    };
    if let Some(reason) = reason {
        report::passed(collective, reason);
        placement::passed(state.handle, collective, Some(size), reason);
        return None;
    }
    report::taken(collective, state.known.nranks, size);
    Some(())
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
    let made = if levels {
        spanning::make(state)
    } else {
        made_of(state.handle).map(|kolo| state.kolo = kolo)
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
