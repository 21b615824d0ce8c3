//! The sending end: finds the slot of a message's tag, and writes the message where it says.
//!
//! A message goes by one queue pair, which follows from the number of its slot, so that both ends
//! know it; or, by a setting, in equal shares by all. On each the last write carries the immediate
//! value. When the adapter says that the last write is done, the peer's node has the message.

use crate::ends::{Done, Ends};
use crate::network::Network;
use crate::queue::{Kind, Work};
use crate::slot::{Cell, Ring, Slot, immediate, needs_record};
use crate::verbs::{self, LOCAL_WRITE, REMOTE_WRITE, Region, Registered};
use kolo::base::{Code, Error, Result};
use kolo_plugin::fabric::{GROUP, MESSAGES, RING};
use std::collections::VecDeque;
use std::sync::Arc;

/// Most pieces of a message on one queue pair.
pub const PIECES: usize = 128;

/// Work of a queue pair: a largest message, and small ones in number.
const DEPTH: u32 = 256;

/// Shares of a message on several queue pairs begin at multiples of this.
const SHARE_ALIGN: usize = 128;

/// Largest message, by the largest piece of a port.
pub fn largest(piece: usize) -> usize {
    // The table gives sizes as C integers.
    (piece * PIECES).min(i32::MAX as usize)
}

/// Memory that the peer writes, or that this end writes from.
struct Area {
    // Given back before the memory itself.
    region: Region,
    size_region: Region,
    slots: Box<Ring>,
    sizes: Box<[u64; MESSAGES]>,
}

/// A request of the peer of which not every buffer is taken.
struct Posted {
    sequence: u64,
    count: u32,
    /// Bit set of the buffers that have their message.
    taken: u32,
}

#[derive(Clone, Copy, Default)]
struct Message {
    open: bool,
    bytes: usize,
    /// Completions that are awaited.
    awaited: u32,
}

/// The sending end of a connection.
pub struct Sender {
    pub ends: Ends,
    area: Area,
    /// Where the sizes of large messages go at the peer.
    records: (u64, u32),
    messages: [Message; MESSAGES],
    posted: VecDeque<Posted>,
    /// The next request of the peer that was not seen yet.
    next: u64,
    split: bool,
    work: Vec<Work>,
}

/// Where a message goes: its slot, and which buffer of the request it is.
struct Place {
    slot: Slot,
    buffer: usize,
}

impl Sender {
    /// Makes the end on a port, not yet connected.
    pub fn new(network: &Arc<Network>, port: usize) -> Result<Sender> {
        let queues = network.settings.queues;
        let ends = Ends::new(network, port, queues, DEPTH, 1)?;
        let domain = ends.port().device.domain.clone();
        let slots = Box::new([[Cell::default(); GROUP]; RING]);
        let sizes = Box::new([0; MESSAGES]);
        let (at, bytes) = ((&raw const *slots) as usize, size_of::<Ring>());
        let (sizes_at, sizes_bytes) = ((&raw const *sizes) as usize, size_of::<[u64; MESSAGES]>());
        // SAFETY: both boxes live in the area beside their regions and are freed after them.
        let (region, size_region) = unsafe {
            (
                Region::new(&domain, at, bytes, LOCAL_WRITE | REMOTE_WRITE)?,
                Region::new(&domain, sizes_at, sizes_bytes, LOCAL_WRITE)?,
            )
        };
        Ok(Sender {
            ends,
            area: Area {
                region,
                size_region,
                slots,
                sizes,
            },
            records: (0, 0),
            messages: [Message::default(); MESSAGES],
            posted: VecDeque::with_capacity(RING),
            next: 1,
            split: network.settings.split,
            work: Vec::with_capacity(PIECES + 2),
        })
    }

    /// Where the peer writes its slots.
    pub fn area(&self) -> (u64, u32) {
        (
            (&raw const *self.area.slots) as u64,
            self.area.region.remote_key(),
        )
    }

    /// Where the peer takes sizes of large messages.
    pub fn set_records(&mut self, records: (u64, u32)) {
        self.records = records;
    }

    /// Messages that have not been tested to their end.
    pub fn open(&self) -> usize {
        self.messages.iter().filter(|message| message.open).count()
    }

    /// Starts a message; its number, or `None`: not yet.
    ///
    /// # Safety
    /// The memory stays valid and unchanged until the message is done or the connection ends.
    pub unsafe fn isend(
        &mut self,
        data: usize,
        bytes: usize,
        tag: u32,
        memory: Option<&Registered>,
    ) -> Result<Option<usize>> {
        self.ends.check()?;
        let local_key = self.check_memory(data, bytes, memory)?;
        let free = self.messages.iter().position(|message| !message.open);
        let found = free.and_then(|free| Some((free, self.find(tag)?)));
        let Some((free, (index, place))) = found else {
            self.wait()?;
            return Ok(None);
        };
        if bytes as u64 > place.slot.capacity {
            let error = Error::usage(
                format!(
                    "a message of {bytes} bytes with tag {tag} is larger than the buffer of {} \
                     bytes that was posted for it",
                    place.slot.capacity
                ),
                "post buffers that are as large as the messages",
            );
            return Err(self.ends.fail(error, true));
        }
        let shares = self.shares(&place, bytes);
        let record = usize::from(needs_record(bytes));
        let piece = self.ends.port().piece;
        let fits = shares.clone().all(|(queue, _, share)| {
            let need = share.div_ceil(piece).max(1) + record;
            self.ends.queues[queue].room as usize >= need
        });
        if !fits {
            // Completed work makes room.
            self.poll()?;
            self.wait()?;
            return Ok(None);
        }
        self.take(index, place.buffer);
        self.messages[free] = Message {
            open: true,
            bytes,
            awaited: 0,
        };
        self.area.sizes[free] = bytes as u64;
        for (queue, offset, share) in shares {
            self.plan(
                free,
                queue,
                (data + offset, offset, share, local_key),
                &place,
                bytes,
            );
            self.messages[free].awaited += 1;
            self.ends.in_flight += 1;
            // SAFETY: the caller keeps the message's memory, and the area lives with the queues.
            let posted = unsafe { self.ends.queues[queue].post(&self.work) };
            if let Err(error) = posted {
                return Err(self.ends.fail(error, true));
            }
        }
        Ok(Some(free))
    }

    fn check_memory(&self, data: usize, bytes: usize, memory: Option<&Registered>) -> Result<u32> {
        let most = largest(self.ends.port().piece);
        if bytes > most {
            return Err(Error::usage(
                format!("a message of {bytes} bytes is larger than {most}, the most of this port"),
                "send it in parts",
            ));
        }
        match memory {
            _ if bytes == 0 => Ok(0),
            Some(memory) if memory.covers(data, bytes) => Ok(verbs::local_key(memory)),
            _ => Err(Error::argument(
                format!(
                    "{bytes} bytes at {data:#x} are not in the registered memory that is named"
                ),
                "register the whole buffer, and name its registration",
            )),
        }
    }

    /// The oldest posted buffer of this tag: the index of its request in `posted`, and its place.
    fn find(&mut self, tag: u32) -> Option<(usize, Place)> {
        for index in 0.. {
            if index == self.posted.len() && !self.see_next() {
                return None;
            }
            let posted = &self.posted[index];
            let ring = posted.sequence as usize % RING;
            for buffer in (0..posted.count as usize).filter(|b| posted.taken >> b & 1 == 0) {
                let cell = &raw const self.area.slots[ring][buffer];
                // SAFETY: the cell lives in the area.
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
        // SAFETY: the cells live in the area.
        let read = |buffer: usize| unsafe {
            Cell::read(&raw const self.area.slots[ring][buffer], self.next)
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
    fn take(&mut self, index: usize, buffer: usize) {
        self.posted[index].taken |= 1 << buffer;
        let full = |posted: &Posted| posted.taken.count_ones() == posted.count;
        if full(&self.posted[index]) {
            self.posted.remove(index);
        }
    }

    /// Queue pair, offset and size of each share of a message.
    fn shares(
        &self,
        place: &Place,
        bytes: usize,
    ) -> impl Iterator<Item = (usize, usize, usize)> + Clone + use<> {
        let count = self.ends.queues.len();
        let split = self.split;
        let only = queue_of(place.slot.sequence, place.buffer, count);
        let share = match split {
            true => bytes.div_ceil(count).next_multiple_of(SHARE_ALIGN),
            false => bytes,
        };
        let queues = if split { 0..count } else { only..only + 1 };
        queues.enumerate().map(move |(index, queue)| {
            let start = (index * share).min(bytes);
            (queue, start, share.min(bytes - start))
        })
    }

    /// Lists the work of one share: the size if it is large, pieces, and a last one with the value.
    fn plan(
        &mut self,
        message: usize,
        queue: usize,
        (local, offset, share, local_key): (usize, usize, usize, u32),
        place: &Place,
        bytes: usize,
    ) {
        let ring = place.slot.sequence as usize % RING;
        let piece = self.ends.port().piece;
        self.work.clear();
        let blank = Work {
            id: 0,
            kind: Kind::Write,
            local: local as u64,
            local_key,
            bytes: 0,
            remote: place.slot.address + offset as u64,
            remote_key: place.slot.key,
            told: false,
        };
        if needs_record(bytes) {
            let at = (ring * GROUP + place.buffer) * size_of::<u64>();
            self.work.push(Work {
                local: (&raw const self.area.sizes[message]) as u64,
                local_key: self.area.size_region.local_key(),
                bytes: size_of::<u64>() as u32,
                remote: self.records.0 + at as u64,
                remote_key: self.records.1,
                ..blank
            });
        }
        let mut done = 0;
        loop {
            let now = (share - done).min(piece);
            self.work.push(Work {
                local: blank.local + done as u64,
                remote: blank.remote + done as u64,
                bytes: now as u32,
                ..blank
            });
            done += now;
            if done == share {
                break;
            }
        }
        let count = self.work.len() as u64;
        if let Some(last) = self.work.last_mut() {
            last.kind = Kind::WriteWith(immediate(ring, place.buffer, bytes));
            last.told = true;
            last.id = message as u64 | count << 16 | (queue as u64) << 32;
        }
    }

    fn poll(&mut self) -> Result<bool> {
        let messages = &mut self.messages;
        self.ends.poll(|queues, done| {
            if let Done::Work(id) = done {
                let message = &mut messages[id as usize & 0xffff];
                message.awaited = message.awaited.saturating_sub(1);
                queues[(id >> 32) as usize & 0xffff].room += (id >> 16) as u32 & 0xffff;
            }
        })
    }

    /// Nothing could be done: is the peer still there?
    fn wait(&mut self) -> Result<()> {
        self.ends.idle()?;
        match self.ends.left.clone() {
            Some(left) => Err(self.ends.fail(left, false)),
            None => Ok(()),
        }
    }

    /// The size of a message, once, when its memory is not needed any more; `None`: not yet.
    pub fn test(&mut self, number: usize) -> Result<Option<usize>> {
        self.ends.check()?;
        if !self
            .messages
            .get(number)
            .is_some_and(|message| message.open)
        {
            return Err(Error::new(
                Code::InvalidArgument,
                "a request was tested that is not open",
                "test a request until it is done, and then no more",
            ));
        }
        if self.messages[number].awaited > 0 {
            self.poll()?;
        }
        if self.messages[number].awaited > 0 {
            self.ends.idle()?;
            if self.ends.left.is_some() {
                // What the adapter confirmed before the peer left has arrived.
                self.poll()?;
                if self.messages[number].awaited > 0 {
                    self.wait()?;
                }
            }
        }
        let message = &mut self.messages[number];
        if message.awaited > 0 {
            return Ok(None);
        }
        message.open = false;
        Ok(Some(message.bytes))
    }
}

/// The queue pair of a message that goes by one.
pub fn queue_of(sequence: u64, buffer: usize, count: usize) -> usize {
    (sequence as usize).wrapping_add(buffer) % count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_alternate_between_queue_pairs() {
        let by: Vec<usize> = (1..7).map(|sequence| queue_of(sequence, 0, 3)).collect();
        assert_eq!(by, [1, 2, 0, 1, 2, 0]);
        let group: Vec<usize> = (0..4).map(|buffer| queue_of(5, buffer, 4)).collect();
        assert_eq!(group, [1, 2, 3, 0]);
    }

    #[test]
    fn the_largest_message_fits_a_queue_and_a_c_integer() {
        assert!(PIECES < DEPTH as usize);
        assert_eq!(largest(8 << 20), 1 << 30);
        assert_eq!(largest(1 << 30), i32::MAX as usize);
    }
}
