//! Things with descriptors that the service thread looks after, besides its own links.

use crate::base::{Error, caught};
use std::sync::{Arc, Mutex, PoisonError};

/// Something that now and then needs a thread that is not busy with a call.
///
/// Both calls are made by the service thread and must not wait.
pub trait Attended: Send + Sync {
    /// Adds what to sleep on until [`Attended::tend`] has something to do. False if it should be
    /// tended a little later all the same.
    fn watch(&self, set: &mut Vec<libc::pollfd>) -> bool;

    /// Does what there is to do.
    fn tend(&self);
}

/// Everything that is attended.
#[derive(Default)]
pub(super) struct List(Mutex<Vec<Arc<dyn Attended>>>);

/// Which entries of a poll belong to what.
#[derive(Default)]
pub(super) struct Places(Vec<(Arc<dyn Attended>, std::ops::Range<usize>)>);

impl List {
    fn all(&self) -> Vec<Arc<dyn Attended>> {
        let list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        list.clone()
    }

    pub fn add(&self, attended: Arc<dyn Attended>) {
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        list.push(attended);
    }

    /// True if it was there.
    pub fn remove(&self, attended: &Arc<dyn Attended>) -> bool {
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = list.len();
        list.retain(|known| !Arc::ptr_eq(known, attended));
        list.len() < before
    }

    /// Adds to the list for poll. False if something wants to be tended soon in any case. What
    /// panics is attended no more.
    pub fn watch(
        &self,
        set: &mut Vec<libc::pollfd>,
        places: &mut Places,
        faults: &mut Vec<Error>,
    ) -> bool {
        places.0.clear();
        let mut all = true;
        for attended in self.all() {
            let start = set.len();
            match caught(|| attended.watch(set)) {
                Ok(sleeps) => {
                    all &= sleeps;
                    places.0.push((attended, start..set.len()));
                }
                Err(error) => {
                    set.truncate(start);
                    self.remove(&attended);
                    faults.push(error);
                }
            }
        }
        all
    }
}

impl Places {
    /// Tends those for which poll found something, or all of `list`. What panics is attended no
    /// more.
    pub fn tend(&mut self, set: &[libc::pollfd], all: bool, list: &List, faults: &mut Vec<Error>) {
        let found = |range: std::ops::Range<usize>| set[range].iter().any(|it| it.revents != 0);
        let places = self.0.drain(..);
        let due = places.filter_map(|(attended, range)| found(range).then_some(attended));
        // All: also whoever was added since the poll began. Its bell may have been heard just now,
        // and until it is tended it may have nothing to sleep on.
        let due: Vec<_> = if all { list.all() } else { due.collect() };
        for attended in due {
            if let Err(error) = caught(|| attended.tend()) {
                list.remove(&attended);
                faults.push(error);
            }
        }
    }
}
