//! Groups: several calls that progress together.

use crate::comms::COMMS;
use crate::guard::{guard, guard_unnamed, last_error, last_of_thread};
use crate::types::{koloComm_t, koloResult_t};
use kolo_core::base::lasting::Lasting;
use kolo_core::base::{Error, Result};
use kolo_core::comm::group;
use std::cell::Cell;

thread_local! {
    /// The communicators that were used in the open group: a failure of its end concerns them.
    static USED: Lasting<Vec<usize>> = const { Lasting::new() };
    /// The end of the group has begun communicators without blocking.
    static BEGUN: Cell<bool> = const { Cell::new(false) };
}

fn with_used<T>(with: impl FnOnce(&mut Vec<usize>) -> T) -> T {
    USED.with(|used| used.with_mut(|| USED.with(Lasting::empty), with))
}

/// The end of the group has begun a communicator that is still to be made.
pub(crate) fn begun() {
    BEGUN.set(true);
}

/// Remembers that the open group, if any, uses `comm`.
#[inline]
pub(crate) fn note(comm: koloComm_t) {
    if group::active() {
        with_used(|used| {
            if used.last() != Some(&(comm as usize)) {
                used.push(comm as usize);
            }
        });
    }
}

/// The open group, if any, must not run without the call that just failed: peers would wait.
#[cold]
pub(crate) fn refuse_group() {
    if let Some(error) = last_error() {
        group::refuse(&error);
    }
}

/// Refuses a call that waits, inside a group: the calls of the group have not begun.
pub(crate) fn outside_groups(call: &str) -> Result<()> {
    match group::active() {
        true => Err(Error::usage(
            format!("{call} inside a group: its calls begin when the group ends"),
            "call koloGroupEnd first",
        )),
        false => Ok(()),
    }
}

/// Opens a group on this thread: the calls that follow only queue their work, until the matching
/// koloGroupEnd. Groups nest; the outermost counts. Sends and receives that wait for each other,
/// and calls on several ranks of one thread, must be in one group. No buffer that a call of the
/// group writes may overlap one of another call: they run side by side.
/// Errors: none. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn koloGroupStart() -> koloResult_t {
    guard("GroupStart", || {
        group::start();
        Ok(koloResult_t::koloSuccess)
    })
}

/// Closes a group. The outermost one runs what was queued, all of it together: initialisations
/// first, then blocking calls until their results are in place; calls with a stream are started.
/// Where it has begun communicators with blocking = 0, it returns koloInProgress, and their handles
/// are in place: koloCommGetAsyncError of each tells when it is ready.
/// Buffers of the group's calls must stay valid until then.
/// Errors: koloInvalidUsage (no group is open), and those of the queued calls: then
/// koloGetLastError of the communicators concerned has the sentence too. Handles of communicators
/// with blocking = 0 that are not NULL have begun also when an error is returned: abort them.
#[unsafe(no_mangle)]
pub extern "C" fn koloGroupEnd() -> koloResult_t {
    let code = guard_unnamed("GroupEnd", || {
        let ended = group::end();
        let begun = BEGUN.take();
        ended?;
        Ok(match begun {
            true => koloResult_t::koloInProgress,
            false => koloResult_t::koloSuccess,
        })
    });
    guard("GroupEnd", || {
        if !group::active() {
            let used = with_used(std::mem::take);
            let is_failure = !matches!(
                code,
                koloResult_t::koloSuccess | koloResult_t::koloInProgress
            );
            if is_failure && let Some(sentence) = last_of_thread() {
                let members = used.into_iter().filter_map(|handle| COMMS.find(handle));
                members.for_each(|member| member.keep(sentence.clone()));
            }
        }
        Ok(code)
    })
}
