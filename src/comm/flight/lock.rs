//! Who may touch the connections of a communicator now: its user, a driver of work in flight, or
//! nobody.
//!
//! Two users at once is the caller's mistake and is detected; a driver leaves soon and is waited
//! for. A *visitor* is a driver that runs no operation of the program. So whoever is inside of one
//! is not the visitor, and may wait for it.

use crate::base::sync::{AtomicU32, Ordering, Shared, yield_now};
use std::ops::{Deref, DerefMut};

const FREE: u32 = 0;
const USER: u32 = 1;
const DRIVER: u32 = 2;
const VISITOR: u32 = 3;

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

    /// Takes the lock if nobody is inside.
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

    /// For a call of the user out of an operation of the program, which waits for visitors alone:
    /// any other driver may be this very thread.
    pub fn user_in_operation(&self) -> Result<Guard<'_, T>, InUse> {
        self.past_visitors(USER).ok_or(InUse)
    }

    /// For a driver in an operation of the program; `None` if somebody else is there.
    pub fn driver_in_operation(&self) -> Option<Guard<'_, T>> {
        self.past_visitors(DRIVER)
    }

    fn past_visitors(&self, owner: u32) -> Option<Guard<'_, T>> {
        loop {
            match self
                .owner
                .compare_exchange(FREE, owner, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => return Some(Guard { lock: self }),
                Err(VISITOR) => yield_now(),
                Err(_) => return None,
            }
        }
    }

    /// For a visitor: `None` if somebody else is there. It leaves soon.
    pub fn visitor(&self) -> Option<Guard<'_, T>> {
        self.owner
            .compare_exchange(FREE, VISITOR, Ordering::Acquire, Ordering::Relaxed)
            .ok()
            .map(|_| Guard { lock: self })
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

impl<T> Guard<'_, T> {
    /// A visitor becomes a driver, which may run operations of the program.
    pub fn drives(&self) {
        self.lock.owner.store(DRIVER, Ordering::Relaxed);
    }
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
    fn an_operation_waits_for_a_visitor_and_for_no_other_driver() {
        let lock = OwnerLock::new(0);
        let visitor = lock.visitor().unwrap();
        assert!(lock.driver().is_none() && lock.visitor().is_none());
        std::thread::scope(|scope| {
            let user = scope.spawn(|| *lock.user_in_operation().unwrap() += 1);
            let driver = scope.spawn(|| *lock.driver_in_operation().unwrap() += 1);
            std::thread::sleep(std::time::Duration::from_millis(5));
            drop(visitor);
            // One of them may meet the other one, and is refused.
            let ended = [user.join(), driver.join()].into_iter().flatten().count();
            assert!(ended >= 1);
        });
        let driver = lock.visitor().unwrap();
        driver.drives();
        assert!(lock.user_in_operation().is_err() && lock.driver_in_operation().is_none());
        drop(driver);
        assert!(*lock.user().unwrap() >= 1);
    }

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
