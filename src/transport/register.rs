//! The register of this process's live segments.
//!
//! Several ranks of one communicator may be threads of one process. The first that asks for the
//! segment makes it, the others wait for that one and share it; the register keeps no segment
//! alive and forgets it when its last user drops it.

use super::segment::{Key, Segment};
use crate::base::Result;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// A place in the register. Its lock is held while the segment is being made, so that of several
/// ranks in one process the first makes it and the others wait for that one.
#[derive(Default)]
struct Entry(Mutex<Weak<Segment>>);

static REGISTER: Mutex<Option<HashMap<Key, Arc<Entry>>>> = Mutex::new(None);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic cannot leave these values half-changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// This process's segment named `key`: the live one, or the one that `make` makes.
///
/// Ranks that are threads of one process get the same segment. Errors are `make`'s; the next
/// caller then tries again. The register forgets a segment when its last user drops it.
pub fn shared(key: Key, make: impl FnOnce() -> Result<Segment>) -> Result<Arc<Segment>> {
    let entry = lock(&REGISTER)
        .get_or_insert_default()
        .entry(key)
        .or_default()
        .clone();
    let made = {
        let mut place = lock(&entry.0);
        match place.upgrade() {
            Some(segment) => Ok(segment),
            None => make().map(|mut segment| {
                segment.key = Some(key);
                let segment = Arc::new(segment);
                *place = Arc::downgrade(&segment);
                segment
            }),
        }
    };
    drop(entry);
    if made.is_err() {
        forget(key);
    }
    made
}

/// Removes the place of `key` unless it is in use: by a live segment, or by a caller of `shared`
/// that has it in hand (it will call `forget` itself if it makes nothing).
pub(super) fn forget(key: Key) {
    let mut register = lock(&REGISTER);
    let Some(places) = register.as_mut() else {
        return;
    };
    if let Some(entry) = places.get(&key) {
        // Count 1 is the register's own; nobody can add to it while the register is locked. So
        // nobody holds the entry's lock either, and this cannot wait.
        let idle = Arc::strong_count(entry) == 1 && lock(&entry.0).strong_count() == 0;
        if idle {
            places.remove(&key);
        }
    }
}

/// How many segments the register of this process names. For tests and `kolo info`.
pub fn count() -> usize {
    lock(&REGISTER).as_ref().map_or(0, HashMap::len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Error, Rank};
    use crate::transport::segment::Nonce;
    use std::sync::Barrier;

    fn is_registered(key: Key) -> bool {
        lock(&REGISTER)
            .as_ref()
            .is_some_and(|places| places.contains_key(&key))
    }

    #[test]
    fn threads_share_one_mapping_and_the_register_forgets() {
        let key = Key::new(Nonce(0x5eed), Rank(3));
        let barrier = Barrier::new(4);
        for _ in 0..20 {
            std::thread::scope(|scope| {
                let ranks: Vec<_> = (0..4)
                    .map(|_| {
                        scope.spawn(|| {
                            barrier.wait();
                            let made = shared(key, || Segment::anonymous(4096)).unwrap();
                            let base = made.as_ptr().addr();
                            barrier.wait();
                            base
                        })
                    })
                    .collect();
                let bases: Vec<_> = ranks.into_iter().map(|r| r.join().unwrap()).collect();
                assert!(bases.iter().all(|&base| base == bases[0]));
            });
            assert!(!is_registered(key));
        }
    }

    #[test]
    fn a_failed_maker_leaves_nothing_and_the_next_may_succeed() {
        let key = Key::new(Nonce(0xfa11), Rank(0));
        assert!(shared(key, || Err(Error::internal("on purpose"))).is_err());
        assert!(!is_registered(key));
        let made = shared(key, || Segment::anonymous(4096)).unwrap();
        let again = shared(key, || panic!("must not be called")).unwrap();
        assert!(Arc::ptr_eq(&made, &again));
        drop(made);
        assert!(is_registered(key));
        drop(again);
        assert!(!is_registered(key));
    }
}
