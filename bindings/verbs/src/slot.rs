//! Slots: what a receiver writes into the sender's memory about a buffer that it has posted.
//!
//! The sender watches this memory. An adapter may make the bytes of one write visible in any
//! order, so a slot counts only when its sequence number is the awaited one *and* its sum fits all
//! its words; until then it is read again. No assumption on the order of bytes is needed.
//!
//! Requests of a receiver stand in a ring; each has one slot for each of its buffers.

use kolo_plugin::fabric::{GROUP, RING};

const WORDS: usize = 8;

/// Facts about a posted buffer that the sender needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Where the message goes.
    pub address: u64,
    /// Its largest size.
    pub capacity: u64,
    /// The key of that memory.
    pub key: u32,
    /// The tag of the message.
    pub tag: u32,
    /// Number of the request, from 1.
    pub sequence: u64,
    /// Buffers of the request.
    pub count: u32,
}

/// A slot in memory: one cache line.
#[repr(C, align(64))]
#[derive(Clone, Copy, Default)]
pub struct Cell([u64; WORDS]);

const _: () = assert!(size_of::<Cell>() == 64);

/// All slots of a connection.
pub type Ring = [[Cell; GROUP]; RING];

fn sum(words: &[u64]) -> u64 {
    words.iter().fold(0x9e37_79b9_7f4a_7c15, |sum, word| {
        let mixed = (sum ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
        mixed ^ (mixed >> 32)
    })
}

impl Cell {
    pub fn new(slot: &Slot) -> Cell {
        let mut words = [
            slot.address,
            slot.capacity,
            u64::from(slot.key) << 32 | u64::from(slot.tag),
            slot.sequence,
            u64::from(slot.count),
            0,
            0,
            0,
        ];
        words[WORDS - 1] = sum(&words[..WORDS - 1]);
        Cell(words)
    }

    /// The slot at a place that the peer's adapter writes, when all of it has arrived and it is
    /// that of request `sequence`.
    ///
    /// # Safety
    /// `place` is valid for reads and aligned.
    pub unsafe fn read(place: *const Cell, sequence: u64) -> Option<Slot> {
        // SAFETY: the caller's promise; volatile, because somebody else writes it.
        let word = |index: usize| unsafe { (&raw const (*place).0[index]).read_volatile() };
        if word(3) != sequence {
            return None;
        }
        let words: [u64; WORDS] = std::array::from_fn(word);
        let slot = Slot {
            address: words[0],
            capacity: words[1],
            key: (words[2] >> 32) as u32,
            tag: words[2] as u32,
            sequence: words[3],
            count: words[4] as u32,
        };
        let whole = words[WORDS - 1] == sum(&words[..WORDS - 1]);
        (whole && slot.sequence == sequence).then_some(slot)
    }
}

/// In place of a size that is too large for an immediate value.
const IN_RECORD: u32 = (1 << 21) - 1;

/// In place of the size of a message that is lent.
const IN_NOTE: u32 = IN_RECORD - 1;

/// How long a message is, or where that stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    Bytes(usize),
    /// In the record of its buffer.
    InRecord,
    /// The message is lent: the buffer holds the note of it ([`crate::note`]).
    InNote,
}

impl Length {
    /// The length of a message that is written.
    pub fn of(bytes: usize) -> Length {
        if bytes >= IN_NOTE as usize {
            return Length::InRecord;
        }
        Length::Bytes(bytes)
    }
}

/// The immediate value of a message: place in the ring, buffer of the request, and length.
pub fn immediate(ring: usize, buffer: usize, length: Length) -> u32 {
    let size = match length {
        Length::Bytes(bytes) => bytes as u32,
        Length::InRecord => IN_RECORD,
        Length::InNote => IN_NOTE,
    };
    (ring as u32) << 24 | (buffer as u32) << 21 | size
}

/// Place in the ring, buffer, and length.
pub fn read_immediate(value: u32) -> (usize, usize, Length) {
    let length = match value & IN_RECORD {
        IN_RECORD => Length::InRecord,
        IN_NOTE => Length::InNote,
        bytes => Length::Bytes(bytes as usize),
    };
    ((value >> 24) as usize, (value >> 21 & 7) as usize, length)
}

const _: () = assert!(RING <= 256 && GROUP <= 8);

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT: Slot = Slot {
        address: 0x7f00_1234_5000,
        capacity: 1 << 33,
        key: 0xdead_beef,
        tag: u32::MAX,
        sequence: 5,
        count: 8,
    };

    #[test]
    fn a_slot_counts_only_whole() {
        let cell = Cell::new(&SLOT);
        // SAFETY: the cells are alive.
        let read = |cell: &Cell, sequence| unsafe { Cell::read(cell, sequence) };
        assert_eq!(read(&cell, 5), Some(SLOT));
        assert_eq!(read(&cell, 4), None);
        assert_eq!(read(&Cell::default(), 0), None);
        // Any mixture with what was there before is noticed.
        let before = Cell::new(&Slot {
            sequence: 4,
            address: 1,
            capacity: 2,
            ..SLOT
        });
        for mask in 0..255_u32 {
            let mut mixed = before;
            for word in 0..WORDS {
                if mask >> word & 1 != 0 {
                    mixed.0[word] = cell.0[word];
                }
            }
            let same = mixed.0 == cell.0;
            assert_eq!(read(&mixed, 5).is_some(), same, "words {mask:#b}");
        }
    }

    #[test]
    fn immediate_values() {
        for ring in [0, 1, RING - 1] {
            for buffer in 0..GROUP {
                for bytes in [0, 1, (1 << 21) - 3] {
                    let length = Length::of(bytes);
                    assert_eq!(length, Length::Bytes(bytes));
                    let value = immediate(ring, buffer, length);
                    assert_eq!(read_immediate(value), (ring, buffer, length));
                }
                for bytes in [(1 << 21) - 2, (1 << 21) - 1, 1 << 21, 1 << 40] {
                    assert_eq!(Length::of(bytes), Length::InRecord);
                }
                for length in [Length::InRecord, Length::InNote] {
                    let value = immediate(ring, buffer, length);
                    assert_eq!(read_immediate(value), (ring, buffer, length));
                }
            }
        }
    }
}
