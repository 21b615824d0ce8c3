//! Notes of traced calls: each is told when its call has ended.

use super::tally::{self, RowKey};
use crate::base::clock::Moment;
use crate::base::{Result, caught};
use crate::tune::{Cards, ToldRoute};
use std::fmt::Write;

/// A call that has begun and will be told of when it has ended.
pub(in crate::comm) struct Note {
    /// Which call it is, where calls are traced.
    pub(super) call: Option<String>,
    /// Its route.
    pub(super) told: ToldRoute,
    /// Its row in the table of the process, if it is the one that names the way there.
    pub(super) row: Option<RowKey>,
    pub(super) begun: Moment,
}

impl Note {
    /// The cards of the call have said more, or there were none.
    pub fn settle(&mut self, cards: Option<Cards>) {
        let Some(cards) = cards else { return };
        self.told = self.told.after(cards);
        if let Some(row) = self.row.take() {
            tally::settle(row, self.told);
        }
    }

    /// Writes the line.
    pub fn ended(self, result: &Result<()>) {
        let Some(call) = self.call else { return };
        let mut text = format!("{call}; {}", self.told.words());
        let begun = self.begun;
        let us = begun.elapsed().as_secs_f64() * 1e6;
        let _ = match result {
            Ok(()) => write!(text, "; {us:.1} us"),
            Err(error) => write!(text, "; failed after {us:.1} us: {}", error.what),
        };
        tracing::trace!("{text}");
    }
}

/// A note that is written when the last of those who hold it has let go: however a call ends.
pub(in crate::comm) struct Pending(Option<Note>);

impl Pending {
    /// The note of a call whose op has it from now on.
    pub fn of(note: Note) -> Box<Pending> {
        Box::new(Pending(Some(note)))
    }

    /// Writes the line; the cards of the call have said this, if there were some.
    pub fn ended(mut self, cards: Option<Cards>, result: &Result<()>) {
        if let Some(mut note) = self.0.take() {
            note.settle(cards);
            note.ended(result);
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(Note {
            call: Some(call),
            told,
            ..
        }) = self.0.take()
        {
            // No panic while something is dropped.
            let _ = caught(|| tracing::trace!("{call}; {}; it did not end", told.words()));
        }
    }
}
