//! Tells when a call on a stream has ended, and how: to be asked by any thread at any time.
//!
//! The first end counts. Whoever brings it takes the completion over, writes the reason, and then
//! says that it is there; so nobody ever sees an end without its reason, or two of them.

use crate::base::sync::{AtomicU32, Ordering, Shared};
use crate::base::{Error, Result};

const RUNS: u32 = 0;
/// Somebody writes how it ended.
const ENDING: u32 = 1;
const ENDED: u32 = 2;

/// The end of one call.
#[derive(Debug)]
pub struct Completion {
    state: AtomicU32,
    error: Shared<Option<Error>>,
}

impl Default for Completion {
    fn default() -> Self {
        Completion {
            state: AtomicU32::new(RUNS),
            error: Shared::new(None),
        }
    }
}

impl Completion {
    /// It has ended so, unless it had ended before.
    pub fn finish(&self, result: Result<()>) {
        // Relaxed: nothing is handed over by taking it; what is said below is.
        let order = Ordering::Relaxed;
        let taken = self.state.compare_exchange(RUNS, ENDING, order, order);
        if taken.is_err() {
            return;
        }
        // SAFETY: only the thread that took it over writes, and nobody reads before `ENDED`.
        self.error.write(|error| unsafe { *error = result.err() });
        self.state.store(ENDED, Ordering::Release);
    }

    /// `None` while it runs.
    pub fn result(&self) -> Option<Result<()>> {
        if self.state.load(Ordering::Acquire) != ENDED {
            return None;
        }
        // SAFETY: it was written before it was said to have ended, and never is again.
        let error = self.error.read(|error| unsafe { (*error).clone() });
        Some(error.map_or(Ok(()), Err))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_first_end_counts() {
        let (good, bad) = (Completion::default(), Completion::default());
        assert!(good.result().is_none());
        let error = Error::usage("it broke", "mend it");
        good.finish(Ok(()));
        good.finish(Err(error.clone()));
        assert_eq!(good.result(), Some(Ok(())));
        bad.finish(Err(error.clone()));
        bad.finish(Ok(()));
        assert_eq!(bad.result(), Some(Err(error)));
    }
}
