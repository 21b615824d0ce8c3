//! The exit of this process.

use super::super::frame::{Frame, ServiceKind};
use super::super::socket;
use super::State;
use super::alarm::OnEnd;

/// Who is to be called when this process exits with status 0, outside locks.
pub fn ending(state: &State) -> Vec<OnEnd> {
    let watchers = state.watchers.values().flatten();
    watchers
        .filter_map(|watcher| watcher.on_end.clone())
        .collect()
}

/// Tells everyone that this process exits without goodbye, and its status; only what the
/// sockets take at once.
pub fn announce_exit(state: &State, status: i32) {
    let leaving = Frame::new(ServiceKind::Leaving, u64::from(status as u32), 0);
    for link in state.links.values().filter(|link| link.known) {
        // Nothing can be done about a failure: the end of the link then says less.
        let _ = socket::send(&link.fd, &leaving, None);
    }
}
