//! Handles: numbers that look like addresses, stand for one thing, and are never used again.

use crate::error::{Answer, Code};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// A handle that no call has given out before. No memory lies there.
pub fn new_handle() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    0x5_0f70_0000_0000 + 64 * NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Things by their handles.
pub struct Table<T> {
    things: BTreeMap<u64, T>,
    /// Code for a handle that stands for nothing.
    unknown: Code,
}

impl<T> Table<T> {
    pub fn new(unknown: Code) -> Table<T> {
        Table {
            things: BTreeMap::new(),
            unknown,
        }
    }

    pub fn add(&mut self, thing: T) -> u64 {
        let handle = new_handle();
        self.things.insert(handle, thing);
        handle
    }

    pub fn get(&self, handle: u64) -> Answer<&T> {
        self.things.get(&handle).ok_or(self.unknown)
    }

    pub fn get_mut(&mut self, handle: u64) -> Answer<&mut T> {
        self.things.get_mut(&handle).ok_or(self.unknown)
    }

    pub fn remove(&mut self, handle: u64) -> Answer<T> {
        self.things.remove(&handle).ok_or(self.unknown)
    }

    pub fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.things.iter().map(|(handle, thing)| (*handle, thing))
    }

    pub fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        self.things.retain(|_, thing| keep(thing));
    }
}
