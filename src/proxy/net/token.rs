//! Form of a token on the network: its payload, and behind it a few words about it.
//!
//! Both lie in the slot of the connection, one behind the other, so that a token is one message
//! from memory to memory. A slot between nodes is therefore a page larger than its payload.

use crate::transport::net::MAX_TAIL;

/// Bytes behind the payload of a full slot.
pub const SPARE_BYTES: usize = 4096;

/// Bytes of the words about a token.
pub(super) const TRAILER_BYTES: usize = 24;

const _: () = assert!(MAX_TAIL >= TRAILER_BYTES + 7);

/// Where the trailer of a token with so much payload begins.
const fn trailer_at(bytes: usize) -> usize {
    bytes.next_multiple_of(8)
}

/// Bytes of the message for a token with so much payload.
pub(super) const fn message_bytes(bytes: usize) -> usize {
    trailer_at(bytes) + TRAILER_BYTES
}

/// The words about a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trailer {
    /// Bytes of payload.
    pub bytes: usize,
    /// The writer's signature of its call.
    pub signature: u64,
    /// Slots of the connection before this token: nothing may be lost or come twice.
    pub position: u64,
}

impl Trailer {
    /// Writes the words that lie behind the payload of the message, and returns them with their
    /// length.
    pub fn words(&self) -> ([u8; MAX_TAIL], usize) {
        let gap = trailer_at(self.bytes) - self.bytes;
        let mut words = [0; MAX_TAIL];
        let each = [self.bytes as u64, self.signature, self.position];
        for (place, word) in words[gap..].chunks_exact_mut(8).zip(each) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        (words, gap + TRAILER_BYTES)
    }

    /// Writes the trailer behind the payload, which begins at `slot`.
    ///
    /// # Safety
    /// `slot` has room for the message of this payload, and nobody else touches it.
    pub unsafe fn write(&self, slot: *mut u8) {
        let words = [self.bytes as u64, self.signature, self.position];
        // SAFETY: the caller's promise; the words need no alignment.
        unsafe {
            let at = slot.add(trailer_at(self.bytes)).cast::<[u64; 3]>();
            at.write_unaligned(words);
        }
    }

    /// Reads the trailer of a message of `length` bytes that begins at `slot`; `None` if that is
    /// no token.
    ///
    /// # Safety
    /// `slot` has `length` readable bytes that nobody writes.
    pub unsafe fn read(slot: *const u8, length: usize) -> Option<Trailer> {
        let start = length.checked_sub(TRAILER_BYTES)?;
        // SAFETY: the caller's promise; the words need no alignment.
        let words = unsafe { slot.add(start).cast::<[u64; 3]>().read_unaligned() };
        let bytes = usize::try_from(words[0]).ok()?;
        (bytes <= start && trailer_at(bytes) == start).then_some(Trailer {
            bytes,
            signature: words[1],
            position: words[2],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_every_length_round_trip_and_nothing_else_does() {
        for bytes in 0..100usize {
            let mut slot = vec![0xaau8; 200];
            let trailer = Trailer {
                bytes,
                signature: 0x0123_4567_89ab_cdef ^ bytes as u64,
                position: 1 << 40 | bytes as u64,
            };
            let length = message_bytes(bytes);
            let (words, tail) = trailer.words();
            assert_eq!(bytes + tail, length);
            // SAFETY: 200 bytes have room for it.
            unsafe { trailer.write(slot.as_mut_ptr()) };
            // SAFETY: as above.
            let found = |length| unsafe { Trailer::read(slot.as_ptr(), length) };
            assert_eq!(found(length), Some(trailer));
            let start = trailer_at(bytes);
            assert_eq!(slot[start..length], words[start - bytes..tail]);
            assert!(slot[..bytes].iter().all(|&byte| byte == 0xaa), "payload");
            assert!(slot[length..].iter().all(|&byte| byte == 0xaa), "behind");
            let others = (0..200).filter(|&other| other != length);
            assert!(
                others
                    .into_iter()
                    .all(|other| found(other) != Some(trailer))
            );
        }
    }
}
