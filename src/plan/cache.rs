//! A bounded cache of plans: least recently used goes first.

use super::{Protocol, Shape};
use lru::LruCache;
use std::num::NonZeroUsize;
use std::sync::Arc;

/// Plans of one communicator by shape and protocol, each with what `T` keeps beside it.
pub struct Cache<T> {
    plans: LruCache<(Shape, Protocol), Arc<T>>,
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

    /// The plan of `shape` over `protocol`, if it is held.
    pub fn find(&mut self, shape: &Shape, protocol: Protocol) -> Option<Arc<T>> {
        self.plans.get(&(*shape, protocol)).map(Arc::clone)
    }

    /// Keeps a plan that was just made.
    pub fn insert(&mut self, shape: Shape, protocol: Protocol, plan: T) -> Arc<T> {
        self.made += 1;
        let plan = Arc::new(plan);
        self.plans.put((shape, protocol), Arc::clone(&plan));
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
            if cache.find(&shape, Protocol::Simple).is_none() {
                let plan = Emitter::new(shape, 1, Layout::Blocks).finish();
                cache.insert(shape, Protocol::Simple, plan);
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
