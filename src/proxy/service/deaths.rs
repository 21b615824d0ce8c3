//! Tells of deaths, and of panics on the service thread, which goes on after them.

use super::super::state::Death;
use super::Service;
use crate::base::turns;
use crate::base::{Error, caught};
use std::time::Duration;

/// How long the thread rests after something on it has panicked.
const FAULT_PAUSE: Duration = Duration::from_millis(10);

/// Tells of deaths, and those who stayed that they need not any more.
pub(super) fn report(service: &Service, deaths: Vec<Death>, faults: &mut Vec<Error>) {
    for death in deaths {
        let call = || (death.on_death)(&death.ranks, &death.text);
        faults.extend(caught(call).err());
    }
    // They may just have told of deaths.
    let relieved = std::mem::take(&mut service.lock().relieved);
    for keeper in relieved {
        faults.extend(caught(|| keeper.relieved()).err());
    }
}

/// Something on this thread has panicked. Nobody knows who waits for what it was about to do,
/// so all communicators of this process stop; the watch goes on, for those that come later.
#[cold]
pub(super) fn broken(service: &Service, faults: &[Error]) {
    let texts: Vec<&str> = faults.iter().map(|error| error.what.as_str()).collect();
    let text = format!("kolo's service thread failed: {}", texts.join("; "));
    tracing::error!("{text}");
    let mut state = service.lock();
    let told = state.own_failure(&text);
    // Whoever waits for the end of a turn has waited for this one.
    state.turns += 1;
    drop(state);
    for death in told {
        // It has been said, whatever becomes of it.
        let _ = caught(|| (death.on_death)(&death.ranks, &death.text));
    }
    service.answers.notify_all();
    // What panics each time must not make this thread spin.
    turns::sleep(FAULT_PAUSE);
}
