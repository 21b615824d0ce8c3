//! The exit of this process.

use super::super::frame::{Frame, ServiceKind};
use super::super::socket;
use super::State;
use super::alarm::OnEnd;
use crate::transport::segment::Nonce;

impl State {
    /// Has `on_end` called when this process exits with status 0.
    pub fn at_end(&mut self, nonce: Nonce, id: u64, on_end: OnEnd) {
        let watchers = self.watchers.get_mut(&nonce).into_iter().flatten();
        for watcher in watchers.filter(|watcher| watcher.id == id) {
            watcher.on_end = Some(on_end.clone());
        }
    }

    /// Who is to be called when this process exits with status 0, outside locks.
    pub fn ending(&self) -> Vec<OnEnd> {
        let watchers = self.watchers.values().flatten();
        watchers
            .filter_map(|watcher| watcher.on_end.clone())
            .collect()
    }

    /// Tells everyone that this process exits without goodbye, and its status; only what the
    /// sockets take at once.
    pub fn announce_exit(&mut self, status: i32) {
        let leaving = Frame::new(ServiceKind::Leaving, u64::from(status as u32), 0);
        for link in self.links.values().filter(|link| link.known) {
            // Nothing can be done about a failure: the end of the link then says less.
            let _ = socket::send(&link.fd, &leaving, None);
        }
    }
}
