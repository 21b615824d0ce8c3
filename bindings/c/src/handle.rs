//! Handles: what a C caller holds instead of an object.
//!
//! Problem: the caller may hand in NULL, garbage, the handle of another kind, or one that was
//! destroyed while another thread still uses it; none of that may crash, and the check stands in
//! front of calls that take 100 ns.
//!
//! Idea: a handle is a number that merely looks like a pointer. It is a key into a lock-free slab
//! (crate `sharded-slab`), mixed with a tag of the kind so that it is never NULL by accident and
//! never valid for another kind. A key carries the generation of its slot, so a destroyed handle
//! stays wrong when the slot is used again. Looking one up counts a user of the slot: an object
//! is dropped by the last one who leaves it.
//!
//! The slab has a place for each thread, which the thread loses at its end. Exit handlers make
//! handles behind it: there another thread does.

use kolo_core::base::{Error, Result, own_thread};
use sharded_slab::{Config, Entry, Slab};
use std::cell::Cell;
use std::sync::OnceLock;

/// 2^22 handles of one kind per creating thread; 29 bits remain for the generation, so that a
/// slot can be used half a billion times before an old handle would fit again.
struct Shape;

impl Config for Shape {
    const MAX_THREADS: usize = 4096;
    const MAX_PAGES: usize = 16;
    const INITIAL_PAGE_SIZE: usize = 64;
}

/// All live objects of one kind.
pub(crate) struct Registry<T: 'static> {
    slab: OnceLock<Slab<T, Shape>>,
    tag: usize,
    kind: &'static str,
}

/// A live object in use; keeps it from being dropped.
pub(crate) struct InUse<'a, T: 'static>(Entry<'a, T, Shape>);

impl<T> std::ops::Deref for InUse<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

/// Of a thread that has a place in the slabs; ends before the place, which was there first.
struct Place;

impl Drop for Place {
    fn drop(&mut self) {
        IS_LOST.set(true);
    }
}

thread_local! {
    static PLACE: Place = const { Place };
    /// Whether this thread has lost its place.
    static IS_LOST: Cell<bool> = const { Cell::new(false) };
}

/// This thread has a place in the slabs.
fn has_place() {
    let _ = PLACE.try_with(|_| ());
}

impl<T: Send + Sync + 'static> Registry<T> {
    /// An empty registry; `tag` must differ from all others in many bits, `kind` is the word in
    /// messages.
    pub(crate) const fn new(tag: usize, kind: &'static str) -> Registry<T> {
        Registry {
            slab: OnceLock::new(),
            tag,
            kind,
        }
    }

    fn slab(&self) -> &Slab<T, Shape> {
        self.slab.get_or_init(Slab::new_with_config)
    }

    /// Takes `value` in; the number is never 0.
    pub(crate) fn insert(&'static self, value: T) -> Result<usize> {
        let key = match IS_LOST.get() {
            false => self.slab().insert(value),
            true => self.insert_elsewhere(value)?,
        };
        has_place();
        let key = key.ok_or_else(|| {
            Error::usage(
                format!("this thread has too many live {}s", self.kind),
                "destroy those that are no longer needed",
            )
        })?;
        let handle = key ^ self.tag;
        assert!(handle != 0, "the tag of {} is in use as a key", self.kind);
        Ok(handle)
    }

    /// Inserts by another thread, as this one has ended.
    #[cold]
    fn insert_elsewhere(&'static self, value: T) -> Result<Option<usize>> {
        let builder = std::thread::Builder::new().name("kolo handle".to_owned());
        let made = own_thread::start(builder, || self.slab().insert(value));
        let made = made.map_err(|source| {
            Error::system(
                format!("a {} cannot be made at the end of this thread", self.kind),
                &source,
                "make it before the thread or the process ends",
            )
        })?;
        Ok(made.join().ok().flatten())
    }

    /// The object behind `handle`.
    #[inline]
    pub(crate) fn get(&self, handle: usize) -> Result<InUse<'_, T>> {
        match self.find(handle) {
            Some(object) => Ok(object),
            None => Err(self.dead(handle)),
        }
    }

    /// The object behind `handle`, if it is alive.
    #[inline]
    pub(crate) fn find(&self, handle: usize) -> Option<InUse<'_, T>> {
        self.slab.get()?.get(handle ^ self.tag).map(InUse)
    }

    /// Makes `handle` invalid; the object is dropped now or by its last user.
    pub(crate) fn remove(&self, handle: usize) -> Result<()> {
        let was_there = self.slab().remove(handle ^ self.tag);
        has_place();
        match was_there {
            true => Ok(()),
            false => Err(self.dead(handle)),
        }
    }

    #[cold]
    fn dead(&self, handle: usize) -> Error {
        let kind = self.kind;
        if handle == 0 {
            return Error::argument(
                format!("the {kind} handle is NULL"),
                format!("give a handle that kolo made and that is not destroyed ({kind})"),
            );
        }
        Error::argument(
            format!(
                "{handle:#x} is no live {kind} handle: it was destroyed or aborted, or never one"
            ),
            format!("give a {kind} that kolo made, and none after its end"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    static NUMBERS: Registry<Arc<u32>> = Registry::new(0x5a3c_96f0_1e87_d24b, "number");

    #[test]
    fn a_removed_handle_stays_wrong_when_its_slot_is_used_again() {
        let first = NUMBERS.insert(Arc::new(1)).unwrap();
        assert_eq!(**NUMBERS.get(first).unwrap(), 1);
        NUMBERS.remove(first).unwrap();
        for round in 0..1000 {
            let next = NUMBERS.insert(Arc::new(round)).unwrap();
            assert_ne!(next, first);
            assert!(NUMBERS.find(first).is_none());
            NUMBERS.remove(next).unwrap();
        }
        assert!(
            NUMBERS
                .remove(first)
                .unwrap_err()
                .what
                .contains("destroyed")
        );
    }

    #[test]
    fn garbage_is_an_error() {
        let live = NUMBERS.insert(Arc::new(5)).unwrap();
        let mut random = fastrand::Rng::with_seed(7);
        for bit in 0..64 {
            assert!(NUMBERS.find(live ^ (1 << bit)).is_none(), "bit {bit}");
        }
        for wrong in [0, 1, 8, usize::MAX, &live as *const usize as usize] {
            assert!(NUMBERS.get(wrong).is_err(), "{wrong:#x}");
        }
        for _ in 0..100_000 {
            assert!(NUMBERS.find(random.usize(..)).is_none());
        }
        NUMBERS.remove(live).unwrap();
    }

    #[test]
    fn the_last_user_drops_the_object() {
        let object = Arc::new(9);
        let handle = NUMBERS.insert(object.clone()).unwrap();
        let user = NUMBERS.get(handle).unwrap();
        NUMBERS.remove(handle).unwrap();
        assert!(NUMBERS.get(handle).is_err());
        assert_eq!((**user, Arc::strong_count(&object)), (9, 2));
        drop(user);
        assert_eq!(Arc::strong_count(&object), 1);
    }
}
