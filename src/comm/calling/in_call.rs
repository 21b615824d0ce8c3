//! A call of the user, while it owns the connections of its communicator.

use crate::base::{Error, caught};
use crate::comm::flight::lock::Guard;
use crate::comm::owned::Exec;
use crate::comm::state::Inner;
use std::ops::{Deref, DerefMut};

/// A call of the user. One that ends by a panic leaves a communicator of which nobody knows how far
/// it came, while others wait for this rank: it is stopped.
pub(in crate::comm) struct InCall<'a> {
    pub guard: Guard<'a, Exec>,
    pub inner: &'a Inner,
    /// Whether the thread was ending before the call, which a destructor then makes: 0 or 1, as a
    /// whole word, which is copied at once.
    pub unwinds: usize,
}

impl Deref for InCall<'_> {
    type Target = Exec;

    #[inline(always)]
    fn deref(&self) -> &Exec {
        &self.guard
    }
}

impl DerefMut for InCall<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Exec {
        &mut self.guard
    }
}

impl Drop for InCall<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if std::thread::panicking() && self.unwinds == 0 {
            self.panicked();
        }
    }
}

impl InCall<'_> {
    #[cold]
    fn panicked(&mut self) {
        let error = Error::internal(format!(
            "a check inside kolo failed on rank {}, in whose output it says which",
            self.inner.rank
        ));
        // It must not panic out of here: that would end the process.
        let _ = caught(|| self.inner.fail(&mut self.guard, error));
    }
}
