//! Parts that a process starts once, whatever number of communicators it makes: in which order that
//! was.
//!
//! Each part starts behind a lock of its own, when it is first needed; the order follows from what
//! needs what. Here it is only written down, for `KOLO_DEBUG=trace` and for tests.

use std::sync::{Mutex, PoisonError};

/// A part that is started once, in the order in which they must start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Start {
    /// Settings were read, and the log goes where they say.
    Log,
    /// The ranks begin to meet.
    Bootstrap,
    /// The service thread runs.
    Service,
    /// The network that carries data between nodes is open.
    Network,
}

static STARTED: Mutex<Vec<Start>> = Mutex::new(Vec::new());

/// Notes that a part has started; a second time says nothing.
pub fn note(part: Start) {
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    if started.contains(&part) {
        return;
    }
    started.push(part);
    let number = started.len();
    drop(started);
    tracing::debug!("start {number} of this process: {}", part.words());
}

/// All that has started, in order.
pub fn so_far() -> Vec<Start> {
    STARTED
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone()
}

impl Start {
    fn words(self) -> &'static str {
        match self {
            Start::Log => "settings and log",
            Start::Bootstrap => "bootstrap",
            Start::Service => "service thread",
            Start::Network => "network between nodes",
        }
    }
}
