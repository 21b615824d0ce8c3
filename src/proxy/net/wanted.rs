//! Where a reader wants the payload of the next token.

use crate::base::sync::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

/// The wish of the reader of one connection.
///
/// One thread at a time says what is wanted, any thread that drives the engine looks. A wish is for
/// a token that has not been published, and the next wish comes when it has been: so whoever finds
/// the position of its token here also finds what belongs to it.
#[derive(Debug)]
pub struct Wanted {
    /// The slot count of the token; [`u64::MAX`] for none.
    position: AtomicU64,
    data: AtomicPtr<u8>,
    bytes: AtomicUsize,
}

impl Default for Wanted {
    fn default() -> Self {
        Self::new()
    }
}

impl Wanted {
    /// No wish.
    pub fn new() -> Wanted {
        Wanted {
            position: AtomicU64::new(u64::MAX),
            data: AtomicPtr::new(std::ptr::null_mut()),
            bytes: AtomicUsize::new(0),
        }
    }

    /// The payload of the token at slot count `position`, if it has so many bytes, is wanted at
    /// `data`, or in its slot if that is null.
    pub fn want(&self, position: u64, (data, bytes): (*mut u8, usize)) {
        self.data.store(data, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
        self.position.store(position, Ordering::Release);
    }

    /// The place and the bytes that are wanted for the token at slot count `position`.
    pub fn at(&self, position: u64) -> Option<(*mut u8, usize)> {
        if self.position.load(Ordering::Acquire) != position {
            return None;
        }
        let data = self.data.load(Ordering::Relaxed);
        Some((data, self.bytes.load(Ordering::Relaxed)))
    }
}
