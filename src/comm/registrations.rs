//! The registrations of a communicator.

use crate::base::Result;
use crate::transport::{fork, registered};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A buffer that is registered with a communicator, see `Communicator::register`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegisteredBuffer(pub(super) u64);

impl RegisteredBuffer {
    /// As a number other than 0.
    #[doc(hidden)]
    pub fn number(self) -> u64 {
        self.0
    }

    /// Takes a number of which the program says that it is a registration.
    #[doc(hidden)]
    pub fn from_number(number: u64) -> RegisteredBuffer {
        RegisteredBuffer(number)
    }
}

/// Numbers of registrations count on from here through the process, in steps of [`STRIDE`]: so
/// they are no addresses, and none is another one's neighbour.
const TAG: u64 = 0x3d8e_51f0_94b7_c26b;
const STRIDE: u64 = 0x9e37_79b9_7f4a_7c15;
static MADE: AtomicU64 = AtomicU64::new(1);

/// The registrations of a communicator: what holds their memory, if it was moved.
#[derive(Debug, Default)]
pub(super) struct Registrations {
    all: Mutex<BTreeMap<u64, Option<u64>>>,
    /// It was said that they gain nothing.
    tells_unused: AtomicBool,
}

impl Registrations {
    /// All, and what holds their memory.
    pub fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Option<u64>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is to be said now that they gain nothing: once.
    pub fn tells_unused(&self) -> bool {
        !self.tells_unused.swap(true, Ordering::Relaxed)
    }

    /// Takes one in.
    pub fn add(&self, memory: Option<u64>) -> RegisteredBuffer {
        let count = MADE.fetch_add(1, Ordering::Relaxed);
        let number = TAG ^ count.wrapping_mul(STRIDE);
        self.lock().insert(number, memory);
        RegisteredBuffer(number)
    }

    /// Ends all: their memory is moved back.
    pub fn end(&self) -> Result<()> {
        let all = std::mem::take(&mut *self.lock());
        let mut ended = Ok(());
        for memory in all.into_values().flatten() {
            ended = ended.and(registered::deregister(memory).map(drop));
        }
        ended
    }
}

impl Drop for Registrations {
    fn drop(&mut self) {
        // In a forked child a thread of the parent may hold locks for ever.
        if fork::in_child_of_user() {
            return;
        }
        // Not destroyed but dropped or aborted, at whatever moment: the program may be writing.
        let all = std::mem::take(&mut *self.lock());
        all.into_values().flatten().for_each(registered::leave);
    }
}
