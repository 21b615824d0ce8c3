//! A register of what is alive in this process, by keys.
//!
//! Several ranks of one communicator may be threads of one process. The first that asks for their
//! segment makes it, the others wait for that one and share it; the register keeps nothing alive
//! and forgets it when its last user drops it.

use crate::base::Result;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Keys, and what they name.
pub struct Registry<K, T>(Mutex<Option<HashMap<K, Arc<Entry<T>>>>>);

/// A place in the register. Its lock is held while the thing is being made, so that of several
/// ranks in one process the first makes it and the others wait for that one.
struct Entry<T>(Mutex<Weak<T>>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic cannot leave these values half-changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<K: Copy + Eq + Hash, T> Registry<K, T> {
    /// An empty one.
    pub const fn new() -> Registry<K, T> {
        Registry(Mutex::new(None))
    }

    /// Returns the live thing that `key` names, or the one that `make` makes.
    ///
    /// Errors are `make`'s; the next caller then tries again. What was made must call
    /// [`Registry::forget`] when it is dropped.
    pub fn shared(&self, key: K, make: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        let entry = lock(&self.0)
            .get_or_insert_default()
            .entry(key)
            .or_insert_with(|| Arc::new(Entry(Mutex::new(Weak::new()))))
            .clone();
        let made = {
            let mut place = lock(&entry.0);
            match place.upgrade() {
                Some(live) => Ok(live),
                None => make().map(|made| {
                    let made = Arc::new(made);
                    *place = Arc::downgrade(&made);
                    made
                }),
            }
        };
        drop(entry);
        if made.is_err() {
            self.forget(key);
        }
        made
    }

    /// Removes the place of `key` unless it is in use: by something alive, or by a caller of
    /// `shared` that has it in hand (it will call `forget` itself if it makes nothing).
    pub fn forget(&self, key: K) {
        let mut register = lock(&self.0);
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

    /// How many things the register names.
    pub fn count(&self) -> usize {
        lock(&self.0).as_ref().map_or(0, HashMap::len)
    }

    /// Whether the register has a place for `key`.
    #[cfg(test)]
    fn has(&self, key: K) -> bool {
        let places = lock(&self.0);
        places
            .as_ref()
            .is_some_and(|places| places.contains_key(&key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Error, Rank};
    use crate::transport::segment::{Key, Nonce, SEGMENTS, Segment, shared};
    use std::sync::Barrier;

    fn is_registered(key: Key) -> bool {
        SEGMENTS.has(key)
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
