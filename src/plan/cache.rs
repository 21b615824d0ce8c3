//! A bounded cache of plans: least recently used goes first.

use super::{Placing, Protocol, Shape};
use lru::LruCache;
use std::num::NonZeroUsize;
use std::sync::Arc;

/// Key of a plan.
pub type Key = (Shape, Protocol, Placing);

/// Plans of one communicator by shape, protocol and placing, each with what `T` keeps beside it.
pub struct Cache<T> {
    plans: LruCache<Key, Arc<T>>,
    made: u64,
}

impl<T> Cache<T> {
    /// Holds at most `capacity` plans (at least 1).
    pub fn new(capacity: usize) -> Cache<T> {
        let capacity = NonZeroUsize::new(capacity).unwrap_or(NonZeroUsize::MIN);
        Cache {
            plans: LruCache::new(capacity),
            made: 0,
        }
    }

    /// The plan that was made for this, if it is held.
    pub fn find(&mut self, key: &Key) -> Option<Arc<T>> {
        self.plans.get(key).map(Arc::clone)
    }

    /// Keeps a plan that was just made.
    pub fn insert(&mut self, key: Key, plan: T) -> Arc<T> {
        self.made += 1;
        let plan = Arc::new(plan);
        self.plans.put(key, Arc::clone(&plan));
        plan
    }

    /// How many plans were made, for tests and `kolo info`.
    pub fn made(&self) -> u64 {
        self.made
    }

    /// How many plans are held now.
    pub fn len(&self) -> usize {
        self.plans.len()
    }

    /// Whether none is held.
    pub fn is_empty(&self) -> bool {
        self.plans.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Algorithm, Collective, Emitter, Layout};

    #[test]
    fn bounded_and_reused() {
        let shape = |root| Shape {
            collective: Collective::Broadcast,
            algorithm: Algorithm::Ring,
            rank: 0,
            nranks: 9,
            root,
            channels: 1,
        };
        let mut cache = Cache::new(2);
        for root in [0, 1, 0, 2, 0, 1] {
            let shape = shape(root);
            let key = (shape, Protocol::Simple, Placing::Planned);
            if cache.find(&key).is_none() {
                let plan = Emitter::new(shape, 1, Layout::Blocks).finish();
                cache.insert(key, plan);
            }
            assert!(cache.len() <= 2);
        }
        assert_eq!(
            cache.made(),
            4,
            "0, 1, 2 once each, and 1 again after it was dropped"
        );
    }
}
