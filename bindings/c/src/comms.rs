//! All communicators of the process by their handles, and the one that a thread used last.
//!
//! Problem: looking a handle up in the slab counts a user of its slot, by an atomic operation
//! before the call and one behind it. Such an operation waits until everything that was stored
//! before has left the core: behind a call that has just published a cache line which others have,
//! that is a third of the call's time.
//!
//! Idea: each thread keeps the seat that it used last, with a count of its own. The next call with
//! the same handle takes it, if no communicator was removed meanwhile, and puts it back behind the
//! call; a call inside of this one finds nothing there and asks the slab. So a communicator that
//! another thread has destroyed may keep its memory until the next call of this thread, or its end.

use crate::handle::Registry;
use crate::seat::Seat;
use kolo_core::base::Result;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// All live communicators of this process.
pub(crate) static COMMS: Comms = Comms {
    registry: Registry::new(0x6bc3_91e4_d75a_2f18, "communicator"),
    removed: AtomicUsize::new(0),
};

/// See [`COMMS`].
pub(crate) struct Comms {
    registry: Registry<Arc<Seat>>,
    /// Communicators that were removed so far.
    removed: AtomicUsize,
}

/// The seat that a thread used last.
struct Recent {
    handle: Cell<usize>,
    /// Communicators that had been removed before it was looked up.
    removed: Cell<usize>,
    seat: Cell<Option<Arc<Seat>>>,
}

thread_local! {
    static RECENT: Recent = const {
        Recent {
            handle: Cell::new(0),
            removed: Cell::new(0),
            seat: Cell::new(None),
        }
    };
}

impl Comms {
    /// Takes a communicator in; the number is never 0.
    pub(crate) fn insert(&self, seat: Seat) -> Result<usize> {
        self.registry.insert(Arc::new(seat))
    }

    /// The communicator behind `handle`, if it is alive.
    pub(crate) fn find(&self, handle: usize) -> Option<Arc<Seat>> {
        self.registry.find(handle).map(|seat| Arc::clone(&seat))
    }

    /// Makes `handle` invalid; what is behind it is dropped by its last user.
    pub(crate) fn remove(&self, handle: usize) -> Result<()> {
        self.registry.remove(handle)?;
        // Behind the removal: who sees the new number does not find the handle any more.
        self.removed.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Hands `body` the communicator behind `handle`.
    #[inline(always)]
    pub(crate) fn with<R>(&self, handle: usize, body: impl FnOnce(Result<&Seat>) -> R) -> R {
        let removed = self.removed.load(Ordering::Acquire);
        let seat = match recent(handle, removed) {
            Some(seat) => seat,
            None => match self.registry.get(handle) {
                Ok(seat) => Arc::clone(&seat),
                Err(error) => return body(Err(error)),
            },
        };
        let result = body(Ok(&seat));
        if self.removed.load(Ordering::Relaxed) == removed {
            keep(handle, removed, seat);
        }
        result
    }
}

/// Takes the seat that this thread used last, if it is that of `handle` and nothing was removed
/// since.
#[inline(always)]
fn recent(handle: usize, removed: usize) -> Option<Arc<Seat>> {
    let take = |recent: &Recent| match recent.removed.get() == removed {
        true if recent.handle.get() == handle => recent.seat.take(),
        true => None,
        // It may be dead, and is not kept any longer.
        false => {
            drop(recent.seat.take());
            None
        }
    };
    // A thread that is ending has none.
    RECENT.try_with(take).ok().flatten()
}

#[inline(always)]
fn keep(handle: usize, removed: usize, seat: Arc<Seat>) {
    let put = |recent: &Recent| {
        recent.handle.set(handle);
        recent.removed.set(removed);
        drop(recent.seat.replace(Some(seat)));
    };
    let _ = RECENT.try_with(put);
}
