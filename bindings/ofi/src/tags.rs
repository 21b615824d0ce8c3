//! Tags of libfabric: which connection a message belongs to, and which of its places it is for.
//!
//! Each end of a connection has a number of 32 bits that is drawn by chance, so that what was sent
//! for a connection of the past, or by a stranger, meets none of today. Below it are 8 bits for the
//! place: a buffer of a request. Providers compare at least 40 bits.

use kolo::base::{Error, Result};
use kolo_plugin::fabric::{GROUP, RING};
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// The tag of notices, for all ends of an endpoint: no end has the number 0.
pub const NOTICES: u64 = 0;

/// Bits of a tag that are used.
pub const BITS: u32 = 40;

const PLACES: u32 = 8;

const _: () = assert!(RING * GROUP <= 1 << PLACES && u32::BITS + PLACES == BITS);

/// The tag of a place of the end with this number.
pub fn tag(end: u32, place: usize) -> u64 {
    u64::from(end) << PLACES | place as u64
}

/// Numbers of the ends that an endpoint has.
#[derive(Default)]
pub struct Numbers(Mutex<HashSet<u32>>);

impl Numbers {
    /// A number that no other end of the endpoint has.
    pub fn draw(&self) -> Result<u32> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let number = getrandom::u32().map_err(|error| {
                Error::internal(format!("the system gives no random numbers: {error}"))
            })?;
            if number != 0 && taken.insert(number) {
                return Ok(number);
            }
        }
    }

    /// Gives a number back.
    pub fn give_back(&self, number: u32) {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        taken.remove(&number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_differ_by_end_and_place() {
        let numbers = Numbers::default();
        let (one, other) = (numbers.draw().unwrap(), numbers.draw().unwrap());
        let mut all = HashSet::new();
        for end in [one, other] {
            for place in 0..RING * GROUP {
                let tag = tag(end, place);
                assert!(tag >> BITS == 0 && all.insert(tag), "{end} {place}");
            }
        }
        numbers.give_back(one);
        assert!(!numbers.0.lock().unwrap().contains(&one));
    }
}
