//! Buffers that the program registers with a communicator.
//!
//! A registration belongs to a communicator and ends with it; the memory itself is the process's
//! ([`crate::transport::registered`]), where several communicators may have registered the same. It
//! is moved only where another process of the node reads it by that: ranks that are threads of one
//! process read each other's memory as it is, memory of `koloMemAlloc` can be read already, what
//! goes to other nodes passes slots, and devices reach memory in other ways.

use super::Communicator;
use super::state::Inner;
use crate::base::{Error, Rank, Result};
use crate::exec::CommDevice;
use crate::transport::{fork, memory, registered};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A buffer that is registered with a communicator, see [`Communicator::register`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegisteredBuffer(u64);

impl RegisteredBuffer {
    /// As a number other than 0.
    #[doc(hidden)]
    pub fn number(self) -> u64 {
        self.0
    }

    /// What the program says is one.
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
pub(super) struct Registrations(Mutex<BTreeMap<u64, Option<u64>>>);

impl Registrations {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Option<u64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, memory: Option<u64>) -> RegisteredBuffer {
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

impl Inner {
    /// Whether another process reads buffers by what is registered.
    fn gains(&self) -> bool {
        let is_alone = self.process_mates.len() + 1 == self.nranks as usize;
        let on_one_node = self.network.is_none();
        self.device == CommDevice::Host && on_one_node && !is_alone && self.settings.direct()
    }
}

impl Communicator {
    /// Registers a buffer of `bytes` bytes: large calls on it, or on parts of it, are then read by
    /// the other ranks of the node where they lie, if all ranks have registered theirs (or have
    /// them from `koloMemAlloc`). Each rank calls it for itself; any thread.
    ///
    /// The pages that hold the buffer are moved onto a file in memory, at the same addresses and
    /// with the same content. `docs/memory.md` says which memory that can be done with, and what
    /// fork() and `madvise` do to it then. Where it gains nothing, nothing is moved.
    ///
    /// # Safety
    /// The memory is the program's, and stays mapped until the registration has ended. Until this
    /// returns, and while the registration ends, no thread writes into the pages that hold it: also
    /// not beside it, in its first and last page.
    ///
    /// # Errors
    /// `InvalidArgument` for memory that cannot be moved, with the reason; `SystemError` where the
    /// system or a limit refuses; those of a communicator that has stopped. Nothing has changed.
    pub unsafe fn register(&self, start: *const u8, bytes: usize) -> Result<RegisteredBuffer> {
        self.inner.callable()?;
        if start.is_null() && bytes > 0 {
            return Err(Error::argument(
                format!("the buffer of {bytes} bytes is NULL"),
                "give the address of the buffer",
            ));
        }
        let is_there = bytes == 0 || memory::allocated(start, bytes).is_some();
        let memory = match self.inner.gains() && !is_there {
            true => Some(registered::register(start, bytes)),
            false => None,
        };
        let memory = memory.transpose();
        let memory = memory.map_err(|error| error.at(Rank(self.inner.rank)))?;
        Ok(self.inner.registrations.add(memory))
    }

    /// Ends a registration, after the last call on the buffer. Memory that no other registration
    /// holds is moved back. Ending the communicator does the same for those that are left. Any
    /// thread.
    ///
    /// # Errors
    /// `InvalidArgument` for one that is not there, or of another communicator; `SystemError` if
    /// memory cannot be moved back: it stays usable where it is, and the registration has ended.
    pub fn deregister(&self, registration: RegisteredBuffer) -> Result<()> {
        if fork::in_child_of_user() {
            return self.inner.alive();
        }
        let Some(memory) = self.inner.registrations.lock().remove(&registration.0) else {
            return Err(Error::argument(
                format!(
                    "{:#x} is no registration of this communicator: it has ended, was made with \
                     another one, or never was",
                    registration.0
                ),
                "end each registration once, with the communicator that made it",
            )
            .at(Rank(self.inner.rank)));
        };
        match memory {
            Some(memory) => registered::deregister(memory).map(drop),
            None => Ok(()),
        }
    }
}
