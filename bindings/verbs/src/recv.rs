//! The receiving end: announces buffers in slots at the sender, and counts what arrives.
//!
//! Where a note arrives instead of a message ([`crate::note`]), this end reads the message, into
//! the buffer or to where it was diverted. Then it writes the word that tells the sender. (A write
//! that is fenced behind the reads would do without this end, but software RoCE forgets such
//! writes now and then.)

use crate::board::READ_AT;
use crate::ends::{Done, Ends};
use crate::flush::Flush;
use crate::hello::Hello;
use crate::network::Network;
use crate::note::{Note, ReadWords};
use crate::queue::{Kind, Work};
use crate::request::{Elsewhere, OF_READ, OF_SLOTS, OF_WORD, Request, not_open, work_id};
use crate::send::{PIECES, queue_of};
use crate::slot::{Cell, Length, Ring, Slot, read_immediate};
use crate::verbs::{self, LOCAL_WRITE, REMOTE_WRITE, Region, Registered};
use kolo::base::clock::now;
use kolo::base::{Code, Error, Result};
use kolo_plugin::fabric::{self, GROUP, RING};
use kolo_plugin::reading::Diversion;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

/// Receives that wait at each queue pair for immediate values: one for each buffer that may be
/// posted, whichever way its message takes.
const RECEIVES: u32 = (RING * GROUP) as u32;

/// Work of a queue pair: writes of slots and words for each request, and the pieces of a message
/// that is read.
const DEPTH: u32 = 3 * RING as u32 + PIECES as u32;

/// How long closing waits until the sender knows of what was read: its adapter answers within
/// microseconds, or not at all.
const SETTLE: Duration = Duration::from_millis(500);

type Records = [[u64; GROUP]; RING];

/// Memory that the peer writes, and from which this end does.
struct Area {
    // Given back before the memory itself.
    said_region: Region,
    record_region: Region,
    said: Box<Said>,
    records: Box<Records>,
}

/// Memory from which this end writes to the sender.
#[repr(C)]
struct Said {
    slots: Ring,
    read: ReadWords,
}

/// A buffer to receive into.
pub type Buffer<'a> = fabric::Buffer<'a, Registered>;

/// The receiving end of a connection.
pub struct Receiver {
    pub ends: Ends,
    area: Area,
    /// Where slots go at the peer.
    remote: (u64, u32),
    requests: [Request; RING],
    /// Number of the next request, from 1.
    next: u64,
    /// Values that complete a message: one for each queue pair that carries a share.
    values: u32,
    /// Words about what was read that are on their way.
    telling: u32,
    work: Vec<Work>,
    pub flush: Option<Flush>,
}

impl Receiver {
    /// Makes the end on a port, for a sender with that greeting; not yet connected.
    pub fn new(network: &Arc<Network>, port: usize, peer: &Hello) -> Result<Receiver> {
        let count = peer.queues.len() as u32;
        let mut ends = Ends::new(network, port, count, DEPTH, RECEIVES)?;
        let receives = RECEIVES.min(ends.port().device.max_work);
        if receives < RECEIVES {
            return Err(Error::new(
                Code::SystemError,
                format!(
                    "{} takes {receives} receives a queue pair",
                    ends.port().text()
                ),
                "use another adapter (KOLO_IB_HCA)",
            ));
        }
        for queue in &mut ends.queues {
            queue.post_receives(receives)?;
        }
        let domain = ends.port().device.domain.clone();
        let said = Box::new(Said {
            slots: [[Cell::default(); GROUP]; RING],
            read: [[0; GROUP]; RING],
        });
        let records: Box<Records> = Box::new([[0; GROUP]; RING]);
        let (said_at, records_at) = ((&raw const *said) as usize, (&raw const *records) as usize);
        // SAFETY: both boxes live in the area beside their regions and are freed after them.
        let (said_region, record_region) = unsafe {
            let access = LOCAL_WRITE | REMOTE_WRITE;
            (
                Region::new(&domain, said_at, size_of::<Said>(), LOCAL_WRITE)?,
                Region::new(&domain, records_at, size_of::<Records>(), access)?,
            )
        };
        Ok(Receiver {
            ends,
            area: Area {
                said_region,
                record_region,
                said,
                records,
            },
            remote: (peer.area, peer.area_key),
            requests: [Request::default(); RING],
            next: 1,
            values: if peer.split { count } else { 1 },
            telling: 0,
            work: Vec::with_capacity(2),
            flush: None,
        })
    }

    /// Where the peer writes sizes of large messages.
    pub fn area(&self) -> (u64, u32) {
        (
            (&raw const *self.area.records) as u64,
            self.area.record_region.remote_key(),
        )
    }

    /// Requests that have not been tested to their end.
    pub fn open(&self) -> usize {
        let flushes = self.flush.as_ref().map_or(0, Flush::open);
        self.requests.iter().filter(|request| request.open).count() + flushes
    }

    /// Makes what a flush needs, on the first memory of a device.
    pub fn prepare_flush(&mut self) -> Result<()> {
        if self.flush.is_none() {
            self.flush = Some(Flush::new(&self.ends)?);
        }
        Ok(())
    }

    /// Posts buffers as one request; its number, or `None`: not yet.
    ///
    /// # Safety
    /// The buffers stay valid and are left alone until the request is done or the connection ends.
    pub unsafe fn post(&mut self, buffers: &[Buffer]) -> Result<Option<usize>> {
        self.ends.check()?;
        if buffers.is_empty() || buffers.len() > GROUP {
            return Err(Error::argument(
                format!("{} buffers were posted as one request", buffers.len()),
                format!("post 1 to {GROUP} buffers at once"),
            ));
        }
        let ring = self.next as usize % RING;
        let queue = self.next as usize % self.ends.queues.len();
        if self.requests[ring].open || self.ends.queues[queue].room == 0 {
            self.poll()?;
            self.wait()?;
            return Ok(None);
        }
        let mut request = Request {
            open: true,
            count: buffers.len(),
            awaited: self.values * buffers.len() as u32,
            sequence: self.next,
            ..Request::default()
        };
        for (index, buffer) in buffers.iter().enumerate() {
            let key = key(buffer)?;
            request.capacity[index] = buffer.capacity;
            let local_key = buffer.memory.map_or(0, verbs::local_key);
            request.data[index] = (buffer.data, local_key);
            self.area.said.slots[ring][index] = Cell::new(&Slot {
                address: buffer.data as u64,
                capacity: buffer.capacity as u64,
                key,
                tag: buffer.tag,
                sequence: self.next,
                count: buffers.len() as u32,
            });
        }
        self.requests[ring] = request;
        let work = Work {
            id: work_id(OF_SLOTS, queue, ring),
            kind: Kind::Write,
            local: (&raw const self.area.said.slots[ring]) as u64,
            local_key: self.area.said_region.local_key(),
            bytes: (buffers.len() * size_of::<Cell>()) as u32,
            remote: self.remote.0 + (ring * GROUP * size_of::<Cell>()) as u64,
            remote_key: self.remote.1,
            told: true,
        };
        self.next += 1;
        self.ends.in_flight += 1;
        // SAFETY: the slots live in the area and stay until the request is done: the sender's
        // messages come after it has read them.
        match unsafe { self.ends.queues[queue].post(&[work]) } {
            Ok(()) => Ok(Some(ring)),
            Err(error) => Err(self.ends.fail(error, true)),
        }
    }

    /// Takes what has completed; a value is for a buffer, and lets another one in.
    fn poll(&mut self) -> Result<bool> {
        let (requests, telling) = (&mut self.requests, &mut self.telling);
        let mut wrong = None;
        let any = self.ends.poll(|queues, done| match done {
            Done::Work(id) => {
                queues[id as usize & 0xffff].room += 1;
                match id >> 16 & 0xffff {
                    OF_READ => requests[(id >> 32) as usize % RING].reading -= 1,
                    OF_WORD => *telling -= 1,
                    _ => {}
                }
            }
            Done::Value(value, queue) => {
                if let Err(error) = queues[queue].post_receives(1) {
                    wrong.get_or_insert(error);
                }
                let (ring, buffer, length) = read_immediate(value);
                match requests
                    .get_mut(ring)
                    .filter(|r| r.awaited > 0 && buffer < r.count)
                {
                    None => drop(wrong.get_or_insert(Error::internal("a value for no request"))),
                    Some(request) => {
                        request.awaited -= 1;
                        match length {
                            Length::Bytes(bytes) => request.bytes[buffer] = Some(bytes),
                            Length::InRecord => request.bytes[buffer] = None,
                            Length::InNote => request.noted |= 1 << buffer,
                        }
                    }
                }
            }
        })?;
        match wrong {
            None => Ok(any),
            Some(error) => Err(self.ends.fail(error, true)),
        }
    }

    fn wait(&mut self) -> Result<()> {
        self.ends.idle()?;
        match self.ends.left.clone() {
            Some(left) => Err(self.ends.fail(left, false)),
            None => Ok(()),
        }
    }

    /// Lets a lent message for this request of one buffer go elsewhere; false: too late.
    pub fn divert(&mut self, number: usize, to: &Diversion<Registered>) -> Result<bool> {
        let request = self.requests.get_mut(number);
        let Some(request) = request.filter(|it| it.open && it.count == 1) else {
            return Err(not_open());
        };
        let domain = &self.ends.port().device.domain;
        let is_here = to.memory.region().is_some_and(|it| it.is_of(domain));
        if !is_here || !to.memory.covers(to.data, to.bytes) || to.bytes > to.length {
            return Err(Error::argument(
                format!(
                    "{} bytes at {:#x} are not in the pinned memory that is named, or that is \
                     pinned for another device",
                    to.bytes, to.data
                ),
                "pin the whole buffer for the device of the connection",
            ));
        }
        let is_early = request.reading == 0 && (request.awaited > 0 || request.noted != 0);
        if is_early {
            request.elsewhere = Some(Elsewhere {
                data: to.data,
                bytes: to.bytes,
                length: to.length,
                key: verbs::local_key(to.memory),
            });
        }
        Ok(is_early)
    }

    /// The sizes of a request's messages, once, when all are there: they are written to `sizes`,
    /// and their number is returned. `None`: not yet. `hold`: no message is to be read yet.
    pub fn take(
        &mut self,
        number: usize,
        hold: bool,
        sizes: &mut [usize; GROUP],
    ) -> Result<Option<usize>> {
        self.ends.check()?;
        if !self.requests.get(number).is_some_and(|it| it.open) {
            return Err(not_open());
        }
        self.go_on(number, hold)?;
        if !self.requests[number].is_whole() {
            self.ends.idle()?;
            if self.ends.left.is_some() {
                // The peer left after its messages had arrived: those can be taken.
                self.go_on(number, hold)?;
                if !self.requests[number].is_whole() {
                    self.wait()?;
                }
            }
        }
        if !self.requests[number].is_whole() {
            return Ok(None);
        }
        self.finish(number, sizes).map(Some)
    }

    /// Whether the message of the request that was taken last went elsewhere.
    pub fn is_placed(&self, number: usize) -> bool {
        self.requests[number].is_placed
    }

    /// Takes what has completed, unless all is here, and begins to read what is lent.
    fn go_on(&mut self, number: usize, hold: bool) -> Result<()> {
        // Also where a message is only held: what has completed of others must be seen, or the link
        // would look silent.
        if !self.requests[number].is_whole() {
            self.poll()?;
        }
        let request = &self.requests[number];
        if request.awaited == 0 && !hold {
            self.each(request.noted, |receiver, buffer| {
                receiver.read(number, buffer)
            })?;
        }
        let request = &self.requests[number];
        if request.reading == 0 {
            self.each(request.untold, |receiver, buffer| {
                receiver.tell(number, buffer)
            })?;
        }
        Ok(())
    }

    /// Calls `act` for each buffer of a set, until it says that there is no room.
    fn each(
        &mut self,
        set: u8,
        mut act: impl FnMut(&mut Receiver, usize) -> Result<bool>,
    ) -> Result<()> {
        for buffer in (0..GROUP).filter(|buffer| set >> buffer & 1 != 0) {
            if !act(self, buffer)? {
                break;
            }
        }
        Ok(())
    }

    /// Reads the message whose note is in a buffer; false: there is no room yet.
    fn read(&mut self, ring: usize, buffer: usize) -> Result<bool> {
        let request = &self.requests[ring];
        let (data, key) = request.data[buffer];
        let capacity = request.capacity[buffer];
        // The note was written before the values that were polled.
        fence(Ordering::Acquire);
        // SAFETY: the buffer holds a note, and is this end's.
        let note = unsafe { Note::read(data as *const u8) };
        let Some(note) = note.filter(|note| note.bytes + note.length <= capacity) else {
            let error = Error::internal("a lent message is none, or larger than its buffer");
            return Err(self.ends.fail(error, true));
        };
        let length = note.bytes + note.length;
        let fits = |it: &Elsewhere| (it.bytes, it.length) == (note.bytes, length);
        let elsewhere = request.elsewhere.filter(fits);
        let to = elsewhere.map_or((data, key), |it| (it.data, it.key));
        let queue = queue_of(request.sequence, buffer, self.ends.queues.len());
        let piece = self.ends.port().piece;
        let pieces = note.bytes.div_ceil(piece);
        if pieces > PIECES {
            let error = Error::internal("a lent message is larger than the most of this port");
            return Err(self.ends.fail(error, true));
        }
        if (self.ends.queues[queue].room as usize) < pieces {
            self.poll()?;
            return Ok(false);
        }
        // SAFETY: the buffer has room for it behind the message; the note, which may be there, was
        // read.
        unsafe {
            let tail = (data as *mut u8).add(note.bytes);
            tail.copy_from_nonoverlapping(note.tail.as_ptr(), note.length);
        }
        self.work.clear();
        for start in (0..note.bytes).step_by(piece) {
            self.work.push(Work {
                id: work_id(OF_READ, queue, ring),
                kind: Kind::Read,
                local: (to.0 + start) as u64,
                local_key: to.1,
                bytes: (note.bytes - start).min(piece) as u32,
                remote: note.address + start as u64,
                remote_key: note.key,
                told: true,
            });
        }
        let request = &mut self.requests[ring];
        request.noted &= !(1 << buffer);
        request.untold |= 1 << buffer;
        request.reading += pieces as u32;
        request.bytes[buffer] = Some(length);
        request.is_placed = elsewhere.is_some();
        self.post_work(queue)?;
        Ok(true)
    }

    /// Tells the sender that a message was read; false: there is no room yet.
    fn tell(&mut self, ring: usize, buffer: usize) -> Result<bool> {
        let sequence = self.requests[ring].sequence;
        let queue = queue_of(sequence, buffer, self.ends.queues.len());
        if self.ends.queues[queue].room == 0 {
            return Ok(false);
        }
        self.area.said.read[ring][buffer] = sequence;
        let at = READ_AT + ((ring * GROUP + buffer) * size_of::<u64>()) as u64;
        self.work.clear();
        self.work.push(Work {
            id: work_id(OF_WORD, queue, ring),
            kind: Kind::Write,
            local: (&raw const self.area.said.read[ring][buffer]) as u64,
            local_key: self.area.said_region.local_key(),
            bytes: size_of::<u64>() as u32,
            remote: self.remote.0 + at,
            remote_key: self.remote.1,
            told: true,
        });
        self.requests[ring].untold &= !(1 << buffer);
        self.telling += 1;
        self.post_work(queue)?;
        Ok(true)
    }

    fn post_work(&mut self, queue: usize) -> Result<()> {
        self.ends.in_flight += self.work.len() as u32;
        // SAFETY: buffers and places stay until the request is done, and the words with the area.
        let posted = unsafe { self.ends.queues[queue].post(&self.work) };
        posted.map_err(|error| self.ends.fail(error, true))
    }

    /// Waits, before this end closes, until the sender knows of what was read.
    pub fn settle(&mut self) {
        let start = now();
        // Who closes in the middle of reading gives up.
        let all_read = self.requests.iter().all(|request| request.reading == 0);
        while all_read && self.telling > 0 && self.ends.left.is_none() && !start.past(SETTLE) {
            if self.poll().and_then(|_| self.ends.idle()).is_err() {
                return;
            }
            std::thread::yield_now();
        }
    }

    fn finish(&mut self, number: usize, sizes: &mut [usize; GROUP]) -> Result<usize> {
        // Records were written before the values that were polled.
        fence(Ordering::Acquire);
        let request = &mut self.requests[number];
        request.open = false;
        let count = request.count;
        for (index, size) in sizes[..count].iter_mut().enumerate() {
            let record = &raw const self.area.records[number][index];
            // SAFETY: the record lives in the area; volatile, because the peer writes it.
            let in_record = || unsafe { record.read_volatile() } as usize;
            *size = request.bytes[index].unwrap_or_else(in_record);
            if *size > request.capacity[index] {
                let error = Error::internal("a message is larger than its buffer");
                return Err(self.ends.fail(error, true));
            }
        }
        Ok(count)
    }
}

/// The key of a buffer's memory.
fn key(buffer: &Buffer) -> Result<u32> {
    match buffer.memory {
        Some(memory) if memory.covers(buffer.data, buffer.capacity) => {
            Ok(verbs::remote_key(memory))
        }
        _ if buffer.capacity == 0 => Ok(0),
        _ => Err(Error::argument(
            format!(
                "{} bytes at {:#x} are not in the registered memory that is named",
                buffer.capacity, buffer.data
            ),
            "register the whole buffer, and name its registration",
        )),
    }
}
