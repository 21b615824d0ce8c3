//! The memory of the slots that this process writes, and its bound.
//!
//! **Problem.** Connections keep the memory of their slots, as the next call may need it. A program
//! with many communicators would so fill the node with slots that hold nothing.
//!
//! **Idea.** The process counts what its ranks have taken for slots. Before more is taken than the
//! bound allows, connections that are empty give theirs back, those first that have not been used
//! for longest. When such a connection is used again, its memory is taken anew. Where none is
//! empty, more is taken all the same: the bound never stops a call.
//!
//! Only the owner of a communicator's lock knows that nothing is in flight there, so only it may
//! look: communicators stand in a list ([`show`]), and one that is inside a call is passed by. The
//! one that needs the memory looks at itself when its next call begins ([`is_short`]).
//!
//! **Terms.** An *occasion*: a look at all connections. Connections that were used since the last
//! occasion are younger than those that were not; among these, memory that was taken later is.

use crate::wire::backing::Age;
use crate::wire::ports::Ports;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError, Weak};

/// Of the bound, the part that is given back at once, so that few requests need an occasion.
const PART: usize = 8;

/// Bytes that the slots of this process have.
static TAKEN: AtomicUsize = AtomicUsize::new(0);
/// Ranks of this process, as far as its communicators know.
static RANKS: AtomicUsize = AtomicUsize::new(1);
/// Counts requests.
static REQUESTS: AtomicU64 = AtomicU64::new(0);
/// More is taken than the bound allows.
static IS_SHORT: AtomicBool = AtomicBool::new(false);

/// Connections that their owner lets see while nothing is in flight there.
pub trait Holder: Send + Sync {
    /// Shows the ports, unless somebody is inside or something is in flight.
    fn while_idle(&self, see: &mut dyn FnMut(&mut Ports));

    /// Lets go of it, without waiting for its end where nobody else has it any more.
    fn let_go(self: Arc<Self>);
}

struct Occasions {
    holders: Vec<Weak<dyn Holder>>,
    number: u64,
    /// While so much is taken nobody looks again, as nothing was to be had.
    vain_until: usize,
}

static OCCASIONS: Mutex<Occasions> = Mutex::new(Occasions {
    holders: Vec::new(),
    number: 0,
    vain_until: 0,
});

/// From now on this holder is asked, as long as it lives.
pub fn show(holder: Weak<dyn Holder>) {
    let mut occasions = OCCASIONS.lock().unwrap_or_else(PoisonError::into_inner);
    occasions.holders.retain(|known| known.strong_count() > 0);
    occasions.holders.push(holder);
}

/// Bytes of memory that slots have which this process writes.
pub fn taken() -> usize {
    TAKEN.load(Ordering::Relaxed)
}

/// Whether more is taken than the bound allows: the next call of each communicator begins with
/// [`relieve`].
#[inline]
pub fn is_short() -> bool {
    IS_SHORT.load(Ordering::Relaxed)
}

/// The bound of this process, where each of its ranks is allowed so many bytes.
fn bound(of_rank: usize) -> usize {
    of_rank.saturating_mul(RANKS.load(Ordering::Relaxed))
}

/// Memory that one rank of a communicator has taken: it is given back with the communicator.
#[derive(Debug)]
pub struct Account {
    held: AtomicUsize,
    of_rank: usize,
}

impl Default for Account {
    /// Without a bound.
    fn default() -> Account {
        Account::new(usize::MAX, 1)
    }
}

impl Account {
    /// Each rank of this process, which has `ranks`, is allowed so many bytes.
    pub(super) fn new(of_rank: usize, ranks: usize) -> Account {
        RANKS.fetch_max(ranks, Ordering::Relaxed);
        let held = AtomicUsize::new(0);
        Account { held, of_rank }
    }

    /// Before memory is taken. Returns the number of the request.
    pub(super) fn take(&self, bytes: usize) -> u64 {
        self.held.fetch_add(bytes, Ordering::Relaxed);
        let taken = TAKEN.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if taken > bound(self.of_rank) {
            relieve(self.of_rank, None);
        }
        REQUESTS.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// After memory was given back.
    pub(super) fn give(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
        TAKEN.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        TAKEN.fetch_sub(*self.held.get_mut(), Ordering::Relaxed);
    }
}

/// Has connections that are empty give memory back until what is taken is an eighth below the bound
/// of so many bytes for each rank: those of idle communicators, and `own` ones of the caller, where
/// nothing is in flight.
pub fn relieve(of_rank: usize, mut own: Option<&mut Ports>) {
    let bound = bound(of_rank);
    let mut occasions = match OCCASIONS.try_lock() {
        Ok(occasions) => occasions,
        Err(TryLockError::Poisoned(held)) => held.into_inner(),
        // Somebody is at it.
        Err(TryLockError::WouldBlock) => return,
    };
    if taken() <= bound {
        IS_SHORT.store(false, Ordering::Relaxed);
        return;
    }
    if own.is_none() && taken() < occasions.vain_until {
        return;
    }
    occasions.number += 1;
    let number = occasions.number;
    let living = occasions.holders.iter().filter_map(Weak::upgrade);
    let holders: Vec<Arc<dyn Holder>> = living.collect();
    let mut all = |see: &mut dyn FnMut(&mut Ports)| {
        own.iter_mut().for_each(|ports| see(ports));
        holders.iter().for_each(|holder| holder.while_idle(see));
    };
    let mut empty: Vec<(Age, usize)> = Vec::new();
    all(&mut |ports| ports.empty_slots(number, |age, bytes| empty.push((age, bytes))));
    empty.sort_unstable();
    let wanted = taken() - (bound - bound / PART);
    let mut sum = 0;
    let enough = empty.iter().find(|(_, bytes)| {
        sum += bytes;
        sum >= wanted
    });
    if let Some(&(until, _)) = enough.or(empty.last()) {
        all(&mut |ports| {
            ports.give_back(until);
        });
    }
    let left = taken();
    IS_SHORT.store(left > bound, Ordering::Relaxed);
    occasions.vain_until = match left > bound {
        true => left.saturating_add(bound / PART),
        false => 0,
    };
    drop(occasions);
    // Their users may have let go meanwhile, and the end of a communicator waits for other nodes:
    // it must not come here, in a call on another one.
    holders.into_iter().for_each(Holder::let_go);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::alone::alone;

    /// Its user lets go of it while it is looked at.
    struct Dropped {
        by_user: Mutex<Option<Arc<Dropped>>>,
    }

    static LET_GO: AtomicUsize = AtomicUsize::new(0);

    impl Holder for Dropped {
        fn while_idle(&self, _: &mut dyn FnMut(&mut Ports)) {
            self.by_user.lock().unwrap().take();
        }

        fn let_go(self: Arc<Self>) {
            LET_GO.fetch_add(Arc::strong_count(&self), Ordering::Relaxed);
        }
    }

    /// Alone, as the bound is one of the process.
    #[test]
    fn whoever_was_looked_at_is_let_go() {
        alone(
            "transport::slots::tests::alone_with_one_that_is_dropped",
            &[],
        );
    }

    #[test]
    #[ignore = "the body of a test that needs a process of its own"]
    fn alone_with_one_that_is_dropped() {
        let by_user = Mutex::default();
        let dropped = Arc::new(Dropped { by_user });
        let holder: Weak<Dropped> = Arc::downgrade(&dropped);
        show(holder);
        let account = Account::default();
        account.take(1);
        relieve(0, None);
        assert_eq!(
            LET_GO.swap(0, Ordering::Relaxed),
            2,
            "the user has it still"
        );
        *dropped.by_user.lock().unwrap() = Some(Arc::clone(&dropped));
        drop(dropped);
        account.take(PART);
        relieve(0, None);
        assert_eq!(LET_GO.load(Ordering::Relaxed), 1, "nobody else has it");
    }
}
