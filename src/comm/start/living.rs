//! Communicators of this process that others can be made of ([`super::adopted`]).

use super::heritage::Kin;
use crate::comm::state::Inner;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The oldest first.
static LIVING: Mutex<Vec<Weak<Inner>>> = Mutex::new(Vec::new());

/// Others may be made of it, if it is alone in its process and shares memory with others.
pub(in crate::comm) fn show(inner: &Arc<Inner>) {
    let is_fit = |kin: &Kin| kin.segment.region().is_some();
    if !inner.process_mates.is_empty() || !inner.kin.as_ref().is_some_and(is_fit) {
        return;
    }
    let mut living = LIVING.lock().unwrap_or_else(PoisonError::into_inner);
    living.retain(|one| one.strong_count() > 0);
    living.push(Arc::downgrade(inner));
}

/// All that are alive and have not stopped, the oldest first.
pub(in crate::comm) fn all() -> Vec<Arc<Inner>> {
    let living = LIVING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut all: Vec<Arc<Inner>> = living.iter().filter_map(Weak::upgrade).collect();
    drop(living);
    all.retain(|inner| !inner.is_stopped());
    all
}
