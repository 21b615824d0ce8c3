//! Notes of traced calls: each is told when its call has ended.

use crate::base::clock::Moment;
use crate::base::{Result, caught};
use std::fmt::Write;

/// A call that has begun and will be told of when it has ended.
pub(in crate::comm) struct Note {
    pub(super) text: String,
    pub(super) begun: Moment,
}

impl Note {
    /// Writes the line.
    pub fn ended(self, result: &Result<()>) {
        let Note { mut text, begun } = self;
        let us = begun.elapsed().as_secs_f64() * 1e6;
        let _ = match result {
            Ok(()) => write!(text, "; {us:.1} us"),
            Err(error) => write!(text, "; failed after {us:.1} us: {}", error.what),
        };
        tracing::trace!("{text}");
    }
}

/// A note that is written when the last of those who hold it has let go: however a call ends.
pub(in crate::comm) struct Pending(pub(super) Option<Note>);

impl Pending {
    /// Writes the line.
    pub fn ended(mut self, result: &Result<()>) {
        if let Some(note) = self.0.take() {
            note.ended(result);
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(note) = self.0.take() {
            // No panic while something is dropped.
            let _ = caught(|| tracing::trace!("{}; it did not end", note.text));
        }
    }
}
