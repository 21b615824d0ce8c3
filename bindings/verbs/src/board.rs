//! The board of a sending end: memory that its receiver writes. Which buffers are posted stands
//! there, and which lent messages were read.

use crate::note::ReadWords;
use crate::slot::{Cell, Ring, Slot};
use crate::verbs::{Domain, LOCAL_WRITE, REMOTE_WRITE, Region};
use kolo::base::Result;
use kolo_plugin::fabric::{GROUP, RING};
use std::collections::VecDeque;
use std::sync::Arc;

#[repr(C)]
struct Told {
    slots: Ring,
    read: ReadWords,
}

/// Where the words about messages that were read lie, from the beginning of the board.
pub const READ_AT: u64 = std::mem::offset_of!(Told, read) as u64;

/// A request of the peer of which not every buffer is taken.
struct Posted {
    sequence: u64,
    count: u32,
    /// Bit set of the buffers that have their message.
    taken: u32,
}

/// Where a message goes: its slot, and which buffer of the request it is.
pub struct Place {
    pub slot: Slot,
    pub buffer: usize,
}

/// Where it stands that a message was read, and the number that stands there then.
#[derive(Clone, Copy)]
pub struct ReadWord {
    ring: usize,
    buffer: usize,
    sequence: u64,
}

impl ReadWord {
    /// Whether both are one word.
    pub fn is_at(&self, other: &ReadWord) -> bool {
        (self.ring, self.buffer) == (other.ring, other.buffer)
    }
}

impl Place {
    /// The word of this buffer.
    pub fn read_word(&self) -> ReadWord {
        ReadWord {
            ring: self.slot.sequence as usize % RING,
            buffer: self.buffer,
            sequence: self.slot.sequence,
        }
    }
}

/// See the file's first line.
pub struct Board {
    // Given back before the memory itself.
    region: Region,
    told: Box<Told>,
    posted: VecDeque<Posted>,
    /// The next request of the peer that was not seen yet.
    next: u64,
}

impl Board {
    /// An empty one.
    pub fn new(domain: &Arc<Domain>) -> Result<Board> {
        let told = Box::new(Told {
            slots: [[Cell::default(); GROUP]; RING],
            read: [[0; GROUP]; RING],
        });
        let (at, bytes) = ((&raw const *told) as usize, size_of::<Told>());
        // SAFETY: the box lives beside its region and is freed after it.
        let region = unsafe { Region::new(domain, at, bytes, LOCAL_WRITE | REMOTE_WRITE)? };
        Ok(Board {
            region,
            told,
            posted: VecDeque::with_capacity(RING),
            next: 1,
        })
    }

    /// Address and key for the peer.
    pub fn place(&self) -> (u64, u32) {
        ((&raw const *self.told) as u64, self.region.remote_key())
    }

    /// The oldest posted buffer of this tag: the index of its request for [`Board::take`], and its
    /// place.
    pub fn find(&mut self, tag: u32) -> Option<(usize, Place)> {
        for index in 0.. {
            if index == self.posted.len() && !self.see_next() {
                return None;
            }
            let posted = &self.posted[index];
            let ring = posted.sequence as usize % RING;
            for buffer in (0..posted.count as usize).filter(|b| posted.taken >> b & 1 == 0) {
                let cell = &raw const self.told.slots[ring][buffer];
                // SAFETY: the cell is alive.
                let slot = unsafe { Cell::read(cell, posted.sequence) };
                // Slots of a request that was seen stay until all its messages have arrived.
                if let Some(slot) = slot.filter(|slot| slot.tag == tag) {
                    return Some((index, Place { slot, buffer }));
                }
            }
        }
        None
    }

    /// Takes up the next request of the peer, when all of its slots have arrived.
    fn see_next(&mut self) -> bool {
        if self.posted.len() == RING {
            return false;
        }
        let ring = self.next as usize % RING;
        // SAFETY: the cells are alive.
        let read = |buffer: usize| unsafe {
            Cell::read(&raw const self.told.slots[ring][buffer], self.next)
        };
        let Some(first) = read(0) else {
            return false;
        };
        let count = first.count.min(GROUP as u32);
        if !(1..count as usize).all(|buffer| read(buffer).is_some()) {
            return false;
        }
        self.posted.push_back(Posted {
            sequence: self.next,
            count,
            taken: 0,
        });
        self.next += 1;
        true
    }

    /// Marks a buffer as used, and forgets requests that are used up.
    pub fn take(&mut self, index: usize, buffer: usize) {
        self.posted[index].taken |= 1 << buffer;
        let full = |posted: &Posted| posted.taken.count_ones() == posted.count;
        if full(&self.posted[index]) {
            self.posted.remove(index);
        }
    }

    /// Whether the message of this word was read.
    pub fn is_read(&self, word: &ReadWord) -> bool {
        let place = &raw const self.told.read[word.ring][word.buffer];
        // SAFETY: the word is alive; volatile, because the peer writes it.
        unsafe { place.read_volatile() == word.sequence }
    }
}
