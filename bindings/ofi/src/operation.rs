//! Operations that are under way, each with a place that the provider knows it by.
//!
//! The provider may use the first bytes of that place as its own until the operation has ended. So
//! operations stand still in memory, and a list of them is freed only when none is under way.

use crate::libfabric::{Done, Failure};
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

const IDLE: u32 = 0;
const FLYING: u32 = 1;
const ENDED: u32 = 2;
const FAILED: u32 = 3;

/// Words that a provider may use (`struct fi_context2`).
const CONTEXT: usize = 8;

/// One operation.
#[repr(C)]
pub struct Operation {
    context: [*mut c_void; CONTEXT],
    state: AtomicU32,
    bytes: AtomicUsize,
    failure: Mutex<Option<Failure>>,
}

impl Operation {
    fn new() -> Operation {
        Operation {
            context: [std::ptr::null_mut(); CONTEXT],
            state: AtomicU32::new(IDLE),
            bytes: AtomicUsize::new(0),
            failure: Mutex::new(None),
        }
    }
}

/// Operations of an end of a connection.
pub struct Operations(Vec<*mut Operation>);

// SAFETY: the provider's words are touched by it alone; all else is made for several threads.
unsafe impl Send for Operations {}

impl Operations {
    /// Makes `count`, none of them under way.
    pub fn new(count: usize) -> Operations {
        let one = |_| Box::into_raw(Box::new(Operation::new()));
        Operations((0..count).map(one).collect())
    }

    fn get(&self, index: usize) -> &Operation {
        // SAFETY: made above, and freed with the list; never borrowed as changeable.
        unsafe { &*self.0[index] }
    }

    /// The place that the provider knows an operation by.
    pub fn context(&self, index: usize) -> *mut c_void {
        self.0[index].cast()
    }

    /// Notes that an operation begins: before the provider hears of it.
    pub fn begin(&self, index: usize) {
        self.get(index).state.store(FLYING, Ordering::Relaxed);
    }

    /// Notes that it is over, and its result was taken, or that it has not begun after all.
    pub fn forget(&self, index: usize) {
        self.get(index).state.store(IDLE, Ordering::Relaxed);
    }

    /// Whether it has not begun, or was forgotten.
    pub fn is_idle(&self, index: usize) -> bool {
        self.get(index).state.load(Ordering::Relaxed) == IDLE
    }

    /// Whether it is under way.
    pub fn is_flying(&self, index: usize) -> bool {
        self.get(index).state.load(Ordering::Acquire) == FLYING
    }

    /// How many bytes it has moved, when it has ended well; `None`: not yet. The error is the
    /// provider's.
    pub fn ended(&self, index: usize) -> Result<Option<usize>, Failure> {
        let operation = self.get(index);
        match operation.state.load(Ordering::Acquire) {
            ENDED => Ok(Some(operation.bytes.load(Ordering::Relaxed))),
            FAILED => {
                let failure = operation.failure.lock();
                let failure = failure.unwrap_or_else(PoisonError::into_inner).clone();
                Err(failure.unwrap_or_else(|| Failure {
                    number: libc::EIO,
                    text: "it failed".into(),
                }))
            }
            _ => Ok(None),
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The contexts of all that are under way.
    pub fn flying(&self) -> Vec<*mut c_void> {
        let all = (0..self.0.len()).filter(|&index| self.is_flying(index));
        all.map(|index| self.context(index)).collect()
    }
}

impl Drop for Operations {
    fn drop(&mut self) {
        for index in 0..self.0.len() {
            // One that the provider never ended is left to it.
            if !self.is_flying(index) {
                // SAFETY: made by a box, and nobody knows it any more.
                drop(unsafe { Box::from_raw(self.0[index]) });
            }
        }
    }
}

/// Notes that an operation has ended.
///
/// # Safety
/// Its context is that of an operation that is under way.
pub unsafe fn end(done: &Done) {
    // SAFETY: operations that are under way are not freed.
    let operation = unsafe { &*done.context.cast::<Operation>().cast_const() };
    let failure = done.failure();
    let state = if failure.is_some() { FAILED } else { ENDED };
    *operation
        .failure
        .lock()
        .unwrap_or_else(PoisonError::into_inner) = failure;
    operation
        .bytes
        .store(done.bytes as usize, Ordering::Relaxed);
    operation.state.store(state, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_provider_has_the_first_words() {
        assert_eq!(std::mem::offset_of!(Operation, context), 0);
        assert!(std::mem::offset_of!(Operation, state) >= CONTEXT * size_of::<usize>());
        let all = Operations::new(2);
        all.begin(1);
        assert!(all.is_idle(0) && all.is_flying(1) && all.ended(1) == Ok(None));
        assert_eq!(all.flying(), [all.context(1)]);
        all.forget(1);
        assert!(all.is_idle(1) && all.flying().is_empty());
    }
}
