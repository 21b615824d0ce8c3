//! Who reads the buffers of other ranks now, or writes into them, and whether what was read may
//! count.
//!
//! **Problem.** In a direct call ranks fold from where the data of others lie, and store results
//! into the buffers of others. When the communicator stops, the owner of such a buffer gets it back
//! with the error and writes or frees it; but a reader may have lost its core in the middle of a
//! fold and wake up much later.
//!
//! **Idea.** A reader sets its *mark*, looks whether the communicator has stopped, reads, looks
//! again, and takes the mark away. The owner sets the abort record, then looks at the marks.
//! Between store and load stands a full fence on each side (Dekker's argument), so either the
//! reader sees the abort and does not begin, or the owner sees the mark. An owner who waits until
//! the mark is gone may free the buffer. One who cannot wait for so long (the reader is another
//! process, which may be stopped for ever, and has a mapping of its own) may write it all the
//! same: the second look, as that of a sequence lock, tells the reader that what it has read may
//! have been written meanwhile. And if that process may write too, the owner puts private pages in
//! the place of the memory that both have mapped ([`crate::transport::memory::take_back`]): what
//! is written late goes to pages that nobody uses any more.

use super::abort::AbortRecord;
use crate::base::sync::{AtomicU32, Ordering, fence};

/// The mark of one rank.
#[repr(C, align(64))]
pub struct Reading {
    inside: AtomicU32,
}

/// The communicator has stopped: what was read must not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

/// A rank that reads; the mark goes with it.
pub struct Reader<'a> {
    mark: &'a Reading,
    abort: &'a AbortRecord,
}

impl Default for Reading {
    fn default() -> Self {
        Self::new()
    }
}

impl Reading {
    /// A mark in ordinary memory, for tests.
    pub fn new() -> Reading {
        Reading {
            inside: AtomicU32::new(0),
        }
    }

    /// Begins to read, unless the communicator has stopped. One thread at a time for each rank.
    ///
    /// # Errors
    /// When nothing may be read any more.
    pub fn begin<'a>(&'a self, abort: &'a AbortRecord) -> Result<Reader<'a>, Stopped> {
        self.inside.store(1, Ordering::Relaxed);
        let reader = Reader { mark: self, abort };
        // Pairs with the fence of `owner_stops`.
        fence(Ordering::SeqCst);
        match abort.is_set() {
            true => Err(Stopped),
            false => Ok(reader),
        }
    }

    /// Whether this rank reads nothing now: acquire, so that what it read was read before. Counts
    /// for good when asked after [`owner_stops`].
    pub fn is_over(&self) -> bool {
        self.inside.load(Ordering::Acquire) == 0
    }
}

/// For the owner of a buffer that others may read: to be called after the abort record was set, and
/// before marks are looked at or the buffer is written.
pub fn owner_stops() {
    fence(Ordering::SeqCst);
}

impl Reader<'_> {
    /// Ends reading.
    ///
    /// # Errors
    /// When the communicator has stopped meanwhile: what was read may have been overwritten.
    pub fn end(self) -> Result<(), Stopped> {
        // What was read was read before the abort record is: pairs with the owner's fence.
        fence(Ordering::Acquire);
        match self.abort.is_set() {
            true => Err(Stopped),
            false => Ok(()),
        }
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        self.mark.inside.store(0, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::abort::Abort;
    use super::*;

    #[test]
    fn what_was_read_across_an_abort_does_not_count() {
        let (mark, record) = (Reading::new(), AbortRecord::new());
        assert_eq!(mark.begin(&record).map(Reader::end), Ok(Ok(())));
        let reader = mark.begin(&record).ok().unwrap();
        assert!(!mark.is_over());
        record.set(&Abort {
            code: 1,
            rank: 0,
            peer: None,
            text: String::new(),
        });
        assert_eq!(reader.end(), Err(Stopped));
        assert!(mark.is_over());
        assert!(mark.begin(&record).is_err());
        assert!(mark.is_over(), "who may not read leaves no mark");
    }
}
