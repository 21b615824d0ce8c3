//! Communicators of this process that others can be made of ([`super::adopted`]).

use super::heritage::Kin;
use crate::comm::queue::Queue;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The oldest first.
static LIVING: Mutex<Vec<Weak<Queue>>> = Mutex::new(Vec::new());

/// Others may be made of it, if it is alone in its process and shares memory with others.
pub(in crate::comm) fn show(queue: &Arc<Queue>) {
    let is_fit = |kin: &Kin| kin.segment.region().is_some();
    if !queue.process_mates.is_empty() || !queue.kin.as_ref().is_some_and(is_fit) {
        return;
    }
    let mut living = LIVING.lock().unwrap_or_else(PoisonError::into_inner);
    living.retain(|one| one.strong_count() > 0);
    living.push(Arc::downgrade(queue));
}

/// All that are alive and have not stopped, the oldest first.
pub(in crate::comm) fn all() -> Vec<Arc<Queue>> {
    let living = LIVING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut all: Vec<Arc<Queue>> = living.iter().filter_map(Weak::upgrade).collect();
    drop(living);
    all.retain(|queue| !queue.is_stopped());
    all
}
