//! The registrations of a communicator.

use crate::base::Result;
use crate::transport::lasting::{self, LastingMemory};
use crate::transport::{fork, memory, registered};
use std::collections::BTreeMap;
use std::ops::Range;
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

/// Addresses that a registration holds.
#[derive(Debug)]
pub(super) struct RegisteredRange {
    /// The range that the program gave.
    pub bytes: Range<usize>,
    /// Number by which its memory is held, if that was moved.
    pub memory: Option<u64>,
}

impl RegisteredRange {
    /// Ends it: adapters let go, and memory that was moved is given to `back`.
    pub fn end(self, back: impl FnOnce(u64) -> Result<()>) -> Result<()> {
        lasting::changes(&self.bytes);
        self.memory.map_or(Ok(()), back)
    }
}

/// The registrations of a communicator.
#[derive(Debug, Default)]
pub(super) struct Registrations {
    all: Mutex<BTreeMap<u64, RegisteredRange>>,
    /// It was said that they gain nothing.
    tells_unused: AtomicBool,
}

impl Registrations {
    /// All.
    pub fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, RegisteredRange>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is to be said now that they gain nothing: once.
    pub fn tells_unused(&self) -> bool {
        !self.tells_unused.swap(true, Ordering::Relaxed)
    }

    /// Takes one in.
    pub fn add(&self, registration: RegisteredRange) -> RegisteredBuffer {
        let count = MADE.fetch_add(1, Ordering::Relaxed);
        let number = TAG ^ count.wrapping_mul(STRIDE);
        self.lock().insert(number, registration);
        RegisteredBuffer(number)
    }

    /// Ends all: their memory is moved back.
    pub fn end(&self) -> Result<()> {
        let all = std::mem::take(&mut *self.lock());
        let mut ended = Ok(());
        for one in all.into_values() {
            let one = one.end(|memory| registered::deregister(memory).map(drop));
            ended = ended.and(one);
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
        for one in all.into_values() {
            // What is refused is noted.
            let _ = one.end(|memory| {
                registered::leave(memory);
                Ok(())
            });
        }
    }
}

impl LastingMemory for Registrations {
    fn around(&self, data: *const u8, bytes: usize) -> Option<Range<usize>> {
        let (start, end) = (data as usize, (data as usize).checked_add(bytes)?);
        let holds = |range: &&Range<usize>| range.start <= start && end <= range.end;
        let all = self.lock();
        let found = all.values().map(|one| &one.bytes).find(holds).cloned();
        drop(all);
        found.or_else(|| memory::around(data, bytes))
    }
}

/// Memory that networks are to leave alone: that of a communicator whose setting `direct` is off.
pub(super) struct NoneLasting;

impl LastingMemory for NoneLasting {
    fn around(&self, _: *const u8, _: usize) -> Option<Range<usize>> {
        None
    }
}
