//! Notes: what a sender writes into a posted buffer in place of a message that it lends.
//!
//! The receiver reads the message from where the note says, puts the tail behind it, and writes the
//! number of the request into the word of this buffer in the sender's memory.

use kolo_plugin::fabric::{GROUP, RING};
use kolo_plugin::reading::{LEAST, TAIL};

const WORDS: usize = 8;
const HEAD: usize = 3;

/// Facts about a message that is lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note {
    /// Where it lies.
    pub address: u64,
    /// Its size without the tail.
    pub bytes: usize,
    /// The key of that memory.
    pub key: u32,
    /// Bytes of the tail.
    pub length: usize,
    pub tail: [u8; TAIL],
}

/// A note in memory.
#[repr(C, align(64))]
#[derive(Clone, Copy, Default)]
pub struct Slip([u64; WORDS]);

/// Words that say which requests' messages were read: the request's number, for each of its
/// buffers. A word changes from one number to another, so it is the awaited one only when all of
/// its bytes have arrived.
pub type ReadWords = [[u64; GROUP]; RING];

const _: () = assert!(size_of::<Slip>() <= LEAST && HEAD * 8 + TAIL <= size_of::<Slip>());

impl Note {
    /// Words that the sender writes.
    pub fn slip(&self) -> Slip {
        let mut words = [0; WORDS];
        words[0] = self.address;
        words[1] = self.bytes as u64;
        words[2] = u64::from(self.key) << 32 | self.length as u64;
        for (word, bytes) in words[HEAD..].iter_mut().zip(self.tail.chunks_exact(8)) {
            *word = u64::from_ne_bytes(std::array::from_fn(|at| bytes[at]));
        }
        Slip(words)
    }

    /// Reads a note that has arrived; `None` for one that no sender writes.
    ///
    /// # Safety
    /// `place` is valid for reads of a [`Slip`].
    pub unsafe fn read(place: *const u8) -> Option<Note> {
        let word = |index: usize| {
            // SAFETY: the caller's promise; a buffer may have any alignment.
            unsafe { place.cast::<u64>().add(index).read_unaligned() }
        };
        let mut tail = [0; TAIL];
        for (index, bytes) in tail.chunks_exact_mut(8).enumerate() {
            bytes.copy_from_slice(&word(HEAD + index).to_ne_bytes());
        }
        let note = Note {
            address: word(0),
            bytes: word(1) as usize,
            key: (word(2) >> 32) as u32,
            length: (word(2) & 0xffff_ffff) as usize,
            tail,
        };
        (note.length <= TAIL && note.bytes >= LEAST).then_some(note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_come_back_as_they_were_and_others_are_refused() {
        let note = Note {
            address: 0x7f00_1234_5001,
            bytes: 1 << 33 | 5,
            key: 0xdead_beef,
            length: 31,
            tail: std::array::from_fn(|at| at as u8 + 1),
        };
        let read = |note: &Note| {
            let slip = note.slip();
            // SAFETY: the slip is alive.
            unsafe { Note::read((&raw const slip).cast()) }
        };
        assert_eq!(read(&note), Some(note));
        let long = Note { length: 33, ..note };
        let short = Note { bytes: 63, ..note };
        assert_eq!((read(&long), read(&short)), (None, None));
    }
}
