//! Lists of what is alive in this process: they hold nothing alive themselves.

use super::whereabouts::lock;
use crate::base::birth::Birth;
use std::sync::{Arc, Mutex, Weak};

static STARTS: Mutex<Vec<Weak<Birth>>> = Mutex::new(Vec::new());

/// A start has begun.
pub(super) fn begin(birth: &Arc<Birth>) {
    keep(&STARTS, birth);
}

/// Starts under way.
pub(super) fn starts() -> Vec<Arc<Birth>> {
    let mut starts = alive(&STARTS);
    starts.retain(|birth| !birth.has_ended());
    starts
}

/// Puts it on the list.
pub(super) fn keep<T>(list: &Mutex<Vec<Weak<T>>>, one: &Arc<T>) {
    let mut list = lock(list);
    list.retain(|it| it.strong_count() > 0);
    list.push(Arc::downgrade(one));
}

/// Those on the list that are alive.
pub(super) fn alive<T>(list: &Mutex<Vec<Weak<T>>>) -> Vec<Arc<T>> {
    lock(list).iter().filter_map(Weak::upgrade).collect()
}
