//! How far a connection is.

use crate::wire::line::LINES;

/// Slots of a connection.
pub(super) const SLOTS: u64 = LINES as u64;

/// How far a connection is, in slots: posted, full, transmitted, done. Each is at most the one
/// before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub posted: u64,
    /// Filled by the program (sending), or by the network (receiving).
    pub full: u64,
    pub transmitted: u64,
    pub done: u64,
}

impl Counts {
    /// Of the slots from `start` to `end`, how many.
    pub fn within(self, start: u64, end: u64) -> Counts {
        let within = |count: u64| count.clamp(start, end) - start;
        Counts {
            posted: within(self.posted),
            full: within(self.full),
            transmitted: within(self.transmitted),
            done: within(self.done),
        }
    }
}
