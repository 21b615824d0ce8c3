//! Where a reader wants the payload of the next tokens.

use crate::base::sync::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use crate::wire::line::LINES;

/// Wishes of the reader of one connection, for as many tokens as have slots.
///
/// One thread at a time says what is wanted, any thread that drives the engine looks. A wish is for
/// a token that has not been published, and takes the place of that for a token which its reader
/// has taken: so whoever finds the position of its token here also finds what belongs to it.
#[derive(Debug)]
pub struct Wanted {
    places: [WantedPlace; LINES],
}

/// A wish.
#[derive(Debug)]
struct WantedPlace {
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
    /// No wishes.
    pub fn new() -> Wanted {
        let none = |_| WantedPlace {
            position: AtomicU64::new(u64::MAX),
            data: AtomicPtr::new(std::ptr::null_mut()),
            bytes: AtomicUsize::new(0),
        };
        Wanted {
            places: std::array::from_fn(none),
        }
    }

    /// The wish of the token at a slot count, or of one that is [`LINES`] tokens away.
    fn of(&self, position: u64) -> &WantedPlace {
        &self.places[position as usize % LINES]
    }

    /// The payload of the token at slot count `position`, if it has so many bytes, is wanted at
    /// `data`, or in its slot if that is null.
    pub fn want(&self, position: u64, (data, bytes): (*mut u8, usize)) {
        let place = self.of(position);
        place.data.store(data, Ordering::Relaxed);
        place.bytes.store(bytes, Ordering::Relaxed);
        place.position.store(position, Ordering::Release);
    }

    /// The place and the bytes that are wanted for the token at slot count `position`.
    pub fn at(&self, position: u64) -> Option<(*mut u8, usize)> {
        let place = self.of(position);
        if place.position.load(Ordering::Acquire) != position {
            return None;
        }
        let data = place.data.load(Ordering::Relaxed);
        Some((data, place.bytes.load(Ordering::Relaxed)))
    }
}
