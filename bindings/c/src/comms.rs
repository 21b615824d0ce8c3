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
//! It keeps nothing else: what is between nodes has threads and sockets, and is never kept.

use crate::handle::Registry;
use crate::seat::Seat;
use kolo_core::base::{Result, caught};
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

impl Drop for Recent {
    fn drop(&mut self) {
        // The end of a communicator may write to the log, whose place in this thread is gone.
        let _ = caught(|| drop(self.seat.take()));
    }
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
    pub(crate) fn insert(&'static self, seat: Seat) -> Result<usize> {
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
        let of_this = |recent: &Recent| drop(recent.seat.take());
        let _ = RECENT.try_with(of_this);
        Ok(())
    }

    /// Hands `body` the communicator behind `handle`, for a call that is no transfer.
    pub(crate) fn with<R>(&self, handle: usize, body: impl FnOnce(Result<&Seat>) -> R) -> R {
        match self.registry.get(handle) {
            Ok(seat) => body(Ok(&seat)),
            Err(error) => body(Err(error)),
        }
    }

    /// Hands it over for a transfer, of which the next one is likely to name the same communicator.
    #[inline(always)]
    pub(crate) fn with_recent<R>(&self, handle: usize, body: impl FnOnce(Result<&Seat>) -> R) -> R {
        let removed = self.removed.load(Ordering::Acquire);
        let seat = match recent(handle, removed) {
            Some(seat) => seat,
            None => match self.registry.get(handle) {
                Ok(seat) => Arc::clone(&seat),
                Err(error) => return body(Err(error)),
            },
        };
        let result = body(Ok(&seat));
        if self.removed.load(Ordering::Relaxed) == removed && seat.may_be_kept() {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adopted::adopt;
    use kolo_core::comm::{CommConfig, Communicator};

    /// A communicator of one rank behind a handle, and how it is seen by nobody.
    fn made() -> (usize, std::sync::Weak<Seat>) {
        let comms = Communicator::init_all(1, &CommConfig::default()).expect("init");
        let comm = comms.into_iter().next().expect("one");
        let handle = adopt(comm, -1).expect("room") as usize;
        let seat = COMMS.find(handle).expect("alive");
        (handle, Arc::downgrade(&seat))
    }

    fn is_there(handle: usize) -> bool {
        COMMS.with_recent(handle, |seat| seat.is_ok())
    }

    /// Whoever used it last does not find it any more, and lets go of it with the next call.
    #[test]
    fn a_communicator_that_another_thread_ended_is_not_found() {
        let (handle, seat) = made();
        assert!(is_there(handle) && is_there(handle));
        std::thread::scope(|scope| {
            scope.spawn(|| COMMS.remove(handle).expect("it was alive"));
        });
        assert!(!is_there(handle));
        assert!(seat.upgrade().is_none(), "nobody has it");
    }

    #[test]
    fn the_thread_that_ends_a_communicator_keeps_nothing_of_it() {
        let (handle, seat) = made();
        assert!(is_there(handle));
        COMMS.remove(handle).expect("it was alive");
        assert!(seat.upgrade().is_none(), "nobody has it");
    }

    /// A call inside of another one, and one of another communicator in between.
    #[test]
    fn calls_inside_of_calls_find_theirs() {
        let [(one, _), (other, _)] = [made(), made()];
        let found = COMMS.with_recent(one, |seat| {
            let outer: *const Seat = seat.expect("alive");
            let same = COMMS.with_recent(one, |seat| std::ptr::eq(outer, seat.expect("alive")));
            let of_other = |seat: Result<&Seat>| !std::ptr::eq(outer, seat.expect("alive"));
            same && COMMS.with_recent(other, of_other)
        });
        assert!(found && is_there(one) && is_there(other));
        for handle in [one, other] {
            COMMS.remove(handle).expect("alive");
        }
    }
}
