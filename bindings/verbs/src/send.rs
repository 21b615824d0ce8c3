//! The sending end: finds the slot of a message's tag, and writes the message where it says.
//!
//! A message goes by one queue pair, which follows from the number of its slot, so that both ends
//! know it; or, by a setting, in equal shares by all. On each the last write carries the immediate
//! value. When the adapter says that the last write is done, the peer's node has the message.
//!
//! Of a message that is lent only a note goes this way ([`crate::note`]); it is done when the peer
//! has written that it was read.

use crate::board::{Board, Place, ReadWord};
use crate::ends::{Done, Ends};
use crate::network::Network;
use crate::note::{Note, Slip};
use crate::queue::{Kind, Work};
use crate::slot::{Length, immediate};
use crate::verbs::{self, LOCAL_WRITE, Region, Registered};
use kolo::base::{Code, Error, Result};
use kolo_plugin::fabric::{GROUP, MESSAGES, RING};
use kolo_plugin::reading::LentMessage;
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

/// Memory that this end writes from.
#[repr(C)]
struct Said {
    slips: [Slip; MESSAGES],
    sizes: [u64; MESSAGES],
}

/// Memory that this end writes from, registered.
struct Area {
    // Given back before the memory itself.
    region: Region,
    said: Box<Said>,
}

#[derive(Clone, Copy, Default)]
struct Message {
    open: bool,
    bytes: usize,
    /// Completions that are awaited.
    awaited: u32,
    /// For one that is lent.
    lent: Option<ReadWord>,
}

/// The sending end of a connection.
pub struct Sender {
    pub ends: Ends,
    board: Board,
    area: Area,
    /// Where the sizes of large messages go at the peer.
    records: (u64, u32),
    messages: [Message; MESSAGES],
    split: bool,
    /// Whether the peer reads messages.
    pub is_read: bool,
    work: Vec<Work>,
}

/// Bytes that are written for a message.
#[derive(Clone, Copy)]
struct Written {
    data: usize,
    bytes: usize,
    key: u32,
    length: Length,
}

/// One queue pair's share of them.
#[derive(Clone, Copy)]
struct Share {
    queue: usize,
    start: usize,
    bytes: usize,
}

impl Sender {
    /// Makes the end on a port, not yet connected.
    pub fn new(network: &Arc<Network>, port: usize) -> Result<Sender> {
        let queues = network.settings.queues;
        let ends = Ends::new(network, port, queues, DEPTH, 1)?;
        let domain = ends.port().device.domain.clone();
        let board = Board::new(&domain)?;
        let said = Box::new(Said {
            slips: [Slip::default(); MESSAGES],
            sizes: [0; MESSAGES],
        });
        let (at, bytes) = ((&raw const *said) as usize, size_of::<Said>());
        // SAFETY: the box lives in the area beside its region and is freed after it.
        let region = unsafe { Region::new(&domain, at, bytes, LOCAL_WRITE)? };
        Ok(Sender {
            ends,
            board,
            area: Area { region, said },
            records: (0, 0),
            messages: [Message::default(); MESSAGES],
            split: network.settings.split,
            is_read: false,
            work: Vec::with_capacity(PIECES + 2),
        })
    }

    /// Where the peer writes.
    pub fn area(&self) -> (u64, u32) {
        self.board.place()
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
        let key = self.check_memory(data, bytes, memory)?;
        let Some((free, index, place)) = self.find_place(tag, bytes)? else {
            return Ok(None);
        };
        let written = Written {
            data,
            bytes,
            key,
            length: Length::of(bytes),
        };
        self.area.said.sizes[free] = bytes as u64;
        // SAFETY: the caller keeps the message's memory.
        if !unsafe { self.write(free, &place, &written)? } {
            return Ok(None);
        }
        self.board.take(index, place.buffer);
        self.messages[free].bytes = bytes;
        Ok(Some(free))
    }

    /// Starts a message that is lent; its number, or `None`: not yet.
    ///
    /// # Safety
    /// The memory stays pinned and unchanged until the message is done or the connection ends.
    pub unsafe fn isend_at(&mut self, lent: &LentMessage<Registered>) -> Result<Option<usize>> {
        self.ends.check()?;
        self.check_lent(lent)?;
        let bytes = lent.bytes + lent.tail.len();
        let Some((free, index, place)) = self.find_place(lent.tag, bytes)? else {
            return Ok(None);
        };
        if !self.is_vacant(&place.read_word()) {
            self.wait()?;
            return Ok(None);
        }
        let mut note = Note {
            address: lent.data as u64,
            bytes: lent.bytes,
            key: verbs::remote_key(lent.memory),
            length: lent.tail.len(),
            tail: Default::default(),
        };
        note.tail[..note.length].copy_from_slice(lent.tail);
        self.area.said.slips[free] = note.slip();
        let written = Written {
            data: (&raw const self.area.said.slips[free]) as usize,
            bytes: size_of::<Slip>(),
            key: self.area.region.local_key(),
            length: Length::InNote,
        };
        // SAFETY: the slip lives in the area, and is the message's.
        if !unsafe { self.write(free, &place, &written)? } {
            return Ok(None);
        }
        self.board.take(index, place.buffer);
        let message = &mut self.messages[free];
        message.bytes = bytes;
        message.lent = Some(place.read_word());
        Ok(Some(free))
    }

    /// Whether no message awaits another number in this word, which is that of many requests.
    fn is_vacant(&mut self, word: &ReadWord) -> bool {
        let board = &self.board;
        let open = self.messages.iter_mut().filter(|message| message.open);
        let mut same = open.filter(|it| it.lent.is_some_and(|it| it.is_at(word)));
        same.all(|message| {
            message.lent.take_if(|lent| board.is_read(lent));
            message.lent.is_none()
        })
    }

    fn check_lent(&self, lent: &LentMessage<Registered>) -> Result<()> {
        let domain = &self.ends.port().device.domain;
        let is_here = |region: &Region| region.is_of(domain);
        let is_pinned = lent.memory.covers(lent.data, lent.bytes);
        if !is_pinned || !lent.memory.region().is_some_and(is_here) || !self.is_read {
            return Err(Error::argument(
                format!(
                    "{} bytes at {:#x} cannot be lent: they are not in the memory that is named, \
                     that is pinned for another device, or the peer reads nothing",
                    lent.bytes, lent.data
                ),
                "pin the whole buffer for the device of the connection, and ask it first",
            ));
        }
        self.check_size(lent.bytes)
    }

    /// A free number, and the oldest posted buffer of this tag, as the index of its request in
    /// `posted` and its place; `None`: not yet.
    fn find_place(&mut self, tag: u32, bytes: usize) -> Result<Option<(usize, usize, Place)>> {
        let free = self.messages.iter().position(|message| !message.open);
        let found = free.and_then(|free| Some((free, self.board.find(tag)?)));
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
        Ok(Some((free, index, place)))
    }

    /// Posts what is to be written for message `number`; false: there is no room yet.
    ///
    /// # Safety
    /// The memory stays valid and unchanged until the message is done or the connection ends.
    unsafe fn write(&mut self, number: usize, place: &Place, written: &Written) -> Result<bool> {
        let shares = self.shares(place, written.bytes);
        let record = usize::from(written.length == Length::InRecord);
        let piece = self.ends.port().piece;
        let fits = shares.clone().all(|share| {
            let need = share.bytes.div_ceil(piece).max(1) + record;
            self.ends.queues[share.queue].room as usize >= need
        });
        if !fits {
            // Completed work makes room.
            self.poll()?;
            self.wait()?;
            return Ok(false);
        }
        self.messages[number] = Message {
            open: true,
            ..Message::default()
        };
        for share in shares {
            self.plan(number, share, place, written);
            self.messages[number].awaited += 1;
            self.ends.in_flight += 1;
            // SAFETY: the caller's promise, and the area lives with the queues.
            let posted = unsafe { self.ends.queues[share.queue].post(&self.work) };
            if let Err(error) = posted {
                return Err(self.ends.fail(error, true));
            }
        }
        Ok(true)
    }

    fn check_size(&self, bytes: usize) -> Result<()> {
        let most = largest(self.ends.port().piece);
        if bytes <= most {
            return Ok(());
        }
        Err(Error::usage(
            format!("a message of {bytes} bytes is larger than {most}, the most of this port"),
            "send it in parts",
        ))
    }

    fn check_memory(&self, data: usize, bytes: usize, memory: Option<&Registered>) -> Result<u32> {
        self.check_size(bytes)?;
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

    /// Splits what is written into shares.
    fn shares(&self, place: &Place, bytes: usize) -> impl Iterator<Item = Share> + Clone + use<> {
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
            Share {
                queue,
                start,
                bytes: share.min(bytes - start),
            }
        })
    }

    /// Lists the work of one share: the size if it is large, pieces, and a last one with the value.
    fn plan(&mut self, message: usize, share: Share, place: &Place, written: &Written) {
        let piece = self.ends.port().piece;
        let ring = place.slot.sequence as usize % RING;
        self.work.clear();
        let blank = Work {
            id: 0,
            kind: Kind::Write,
            local: (written.data + share.start) as u64,
            local_key: written.key,
            bytes: 0,
            remote: place.slot.address + share.start as u64,
            remote_key: place.slot.key,
            told: false,
        };
        if written.length == Length::InRecord {
            let at = (ring * GROUP + place.buffer) * size_of::<u64>();
            self.work.push(Work {
                local: (&raw const self.area.said.sizes[message]) as u64,
                local_key: self.area.region.local_key(),
                bytes: size_of::<u64>() as u32,
                remote: self.records.0 + at as u64,
                remote_key: self.records.1,
                ..blank
            });
        }
        let mut done = 0;
        loop {
            let now = (share.bytes - done).min(piece);
            self.work.push(Work {
                local: blank.local + done as u64,
                remote: blank.remote + done as u64,
                bytes: now as u32,
                ..blank
            });
            done += now;
            if done == share.bytes {
                break;
            }
        }
        let count = self.work.len() as u64;
        if let Some(last) = self.work.last_mut() {
            last.kind = Kind::WriteWith(immediate(ring, place.buffer, written.length));
            last.told = true;
            last.id = message as u64 | count << 16 | (share.queue as u64) << 32;
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
        let is_open = self.messages.get(number).is_some_and(|it| it.open);
        let is_lent = is_open && self.messages[number].lent.is_some();
        // The peer may have closed since it has read the message, with buffers that are posted.
        if is_lent && self.is_done(number) {
            return Ok(Some(self.end(number)));
        }
        self.ends.check()?;
        if !is_open {
            return Err(Error::new(
                Code::InvalidArgument,
                "a request was tested that is not open",
                "test a request until it is done, and then no more",
            ));
        }
        // Also where only the peer's word is missing: what has completed of others must be seen, or
        // the link would look silent.
        if !self.is_done(number) {
            self.poll()?;
        }
        if !self.is_done(number) {
            let looked = self.ends.idle();
            if looked.is_err() && !(is_lent && self.is_done(number)) {
                looked?;
            }
            if self.ends.left.is_some() {
                // What the adapter confirmed before the peer left has arrived.
                self.poll()?;
                if !self.is_done(number) {
                    self.wait()?;
                }
            }
        }
        Ok(self.is_done(number).then(|| self.end(number)))
    }

    fn end(&mut self, number: usize) -> usize {
        let message = &mut self.messages[number];
        message.open = false;
        message.bytes
    }

    /// Whether all is written of a message, and it was read if it is lent.
    fn is_done(&self, number: usize) -> bool {
        let Message { awaited, lent, .. } = &self.messages[number];
        let is_read = |lent: &ReadWord| self.board.is_read(lent);
        *awaited == 0 && lent.as_ref().is_none_or(is_read)
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
