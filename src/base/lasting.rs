//! Values of a thread that may be used behind its end.
//!
//! **Problem.** Functions of `atexit`, static objects of C++ and the destructors of a thread's keys
//! run when Rust has destroyed what it keeps for the thread, and to touch such a value is a panic.
//! A program may well end its communicators there.
//!
//! **Idea.** The value is never destroyed. A guard is destroyed in its stead, and empties it.
//!
//! **Cost.** What calls behind the end put there is not freed.

use super::caught;
use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;

/// A value of a thread; the place for it has no destructor.
#[derive(Debug)]
pub struct Lasting<T> {
    value: RefCell<ManuallyDrop<Option<T>>>,
    is_guarded: Cell<bool>,
}

impl<T> Default for Lasting<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Lasting<T> {
    /// An empty place.
    pub const fn new() -> Lasting<T> {
        Lasting {
            value: RefCell::new(ManuallyDrop::new(None)),
            is_guarded: Cell::new(false),
        }
    }

    /// Empties the place.
    pub fn empty(&self) {
        // What is freed may come here again.
        let value = self.value.borrow_mut().take();
        drop(value);
    }
}

impl<T: Default> Lasting<T> {
    /// Hands over the value, a default one where there is none. `empty` calls [`Lasting::empty`]
    /// of this place, at the end of the thread.
    #[inline]
    pub fn with_mut<R>(&self, empty: fn(), with: impl FnOnce(&mut T) -> R) -> R {
        if !self.is_guarded.replace(true) {
            // Behind the end there is no other end.
            let _ = EMPTIER.try_with(|emptier| emptier.0.borrow_mut().push(empty));
        }
        with(self.value.borrow_mut().get_or_insert_default())
    }
}

/// Empties the places of a thread at its end.
struct Emptier(RefCell<Vec<fn()>>);

thread_local! {
    static EMPTIER: Emptier = const { Emptier(RefCell::new(Vec::new())) };
}

impl Drop for Emptier {
    fn drop(&mut self) {
        for empty in self.0.take() {
            // A panic here would end the process.
            let _ = caught(empty);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Lasting;
    use std::ffi::c_void;
    use std::sync::Arc;
    use std::sync::mpsc::{Sender, channel};

    thread_local! {
        static PLACE: Lasting<Vec<Arc<()>>> = const { Lasting::new() };
    }

    fn add(one: Arc<()>) -> usize {
        let empty = || PLACE.with(Lasting::empty);
        PLACE.with(|place| {
            place.with_mut(empty, |all| {
                all.push(one);
                all.len()
            })
        })
    }

    /// How many own `one`, and how many lie in the place with one more.
    unsafe extern "C" fn behind(last: *mut c_void) {
        // SAFETY: the box that was put there.
        let last = unsafe { Box::from_raw(last.cast::<(Arc<()>, Sender<[usize; 2]>)>()) };
        let _ = last.1.send([Arc::strong_count(&last.0), add(Arc::new(()))]);
    }

    #[test]
    fn a_place_is_emptied_at_the_end_and_usable_behind_it() {
        let (tell, heard) = channel();
        let ending = std::thread::spawn(move || {
            let one = Arc::new(());
            assert_eq!([add(one.clone()), add(one.clone())], [1, 2]);
            let mut key = 0;
            // SAFETY: a new key, whose destructor takes the box.
            unsafe {
                assert_eq!(libc::pthread_key_create(&raw mut key, Some(behind)), 0);
                let last: *mut (Arc<()>, Sender<[usize; 2]>) = Box::into_raw(Box::new((one, tell)));
                libc::pthread_setspecific(key, last.cast());
            }
        });
        assert_eq!(heard.recv().unwrap(), [1, 1]);
        ending.join().unwrap();
    }
}
