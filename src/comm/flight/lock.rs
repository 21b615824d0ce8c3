//! Who may touch the connections of a communicator now: its user, a driver of work in flight, or
//! nobody.
//!
//! Two users at once is the caller's mistake and is detected; a driver leaves soon and is waited
//! for.

use crate::base::sync::{AtomicU32, Ordering, Shared, yield_now};
use std::ops::{Deref, DerefMut};

const FREE: u32 = 0;
const USER: u32 = 1;
const DRIVER: u32 = 2;

/// A value behind the lock.
pub struct OwnerLock<T> {
    owner: AtomicU32,
    value: Shared<T>,
}

/// Another thread is inside a call of the same communicator.
#[derive(Debug, PartialEq, Eq)]
pub struct InUse;

impl<T> OwnerLock<T> {
    /// A free lock.
    pub fn new(value: T) -> OwnerLock<T> {
        OwnerLock {
            owner: AtomicU32::new(FREE),
            value: Shared::new(value),
        }
    }

    /// For a call of the user.
    #[inline(always)]
    pub fn user(&self) -> Result<Guard<'_, T>, InUse> {
        match self.at_once() {
            Some(guard) => Ok(guard),
            None => self.user_slow(),
        }
    }

    /// The same where nobody is inside.
    #[inline(always)]
    pub fn at_once(&self) -> Option<Guard<'_, T>> {
        self.owner
            .compare_exchange(FREE, USER, Ordering::Acquire, Ordering::Relaxed)
            .ok()
            .map(|_| Guard { lock: self })
    }

    #[cold]
    fn user_slow(&self) -> Result<Guard<'_, T>, InUse> {
        loop {
            match self
                .owner
                .compare_exchange(FREE, USER, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => return Ok(Guard { lock: self }),
                Err(USER) => return Err(InUse),
                Err(_) => yield_now(),
            }
        }
    }

    /// For a driver that waits for another driver to come out; `None` while a call of the user is
    /// inside.
    pub fn driver_or_wait(&self) -> Option<Guard<'_, T>> {
        loop {
            match self
                .owner
                .compare_exchange(FREE, DRIVER, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => return Some(Guard { lock: self }),
                Err(USER) => return None,
                Err(_) => yield_now(),
            }
        }
    }

    /// For a driver: `None` if somebody else is there.
    pub fn driver(&self) -> Option<Guard<'_, T>> {
        self.owner
            .compare_exchange(FREE, DRIVER, Ordering::Acquire, Ordering::Relaxed)
            .ok()
            .map(|_| Guard { lock: self })
    }
}

/// Exclusive access while it lives.
pub struct Guard<'a, T> {
    lock: &'a OwnerLock<T>,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: this guard is the only one.
        self.lock.value.read(|value| unsafe { &*value })
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard is the only one.
        self.lock.value.write(|value| unsafe { &mut *value })
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.lock.owner.store(FREE, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn two_users_are_a_mistake_and_a_driver_is_waited_for() {
        let lock = OwnerLock::new(0);
        let first = lock.user().unwrap();
        assert!(matches!(lock.user(), Err(InUse)));
        assert!(lock.driver().is_none());
        drop(first);
        let driver = lock.driver().unwrap();
        std::thread::scope(|scope| {
            let user = scope.spawn(|| *lock.user().unwrap() += 1);
            std::thread::sleep(std::time::Duration::from_millis(5));
            drop(driver);
            user.join().unwrap();
        });
        assert_eq!(*lock.user().unwrap(), 1);
    }
}
