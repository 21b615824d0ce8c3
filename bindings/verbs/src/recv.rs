//! The receiving end: announces buffers in slots at the sender, and counts what arrives.

use crate::ends::{Done, Ends};
use crate::flush::Flush;
use crate::hello::Hello;
use crate::network::Network;
use crate::queue::{Kind, Work};
use crate::slot::{Cell, Ring, Slot, read_immediate};
use crate::verbs::{self, LOCAL_WRITE, REMOTE_WRITE, Region, Registered};
use kolo::base::{Code, Error, Result};
use kolo_plugin::fabric::{self, GROUP, RING};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// Receives that wait at each queue pair for immediate values: one for each buffer that may be
/// posted, whichever way its message takes.
const RECEIVES: u32 = (RING * GROUP) as u32;

/// Work of a queue pair: one write of slots for each request.
const DEPTH: u32 = 2 * RING as u32;

type Records = [[u64; GROUP]; RING];

/// Memory that the peer writes, and from which slots are written.
struct Area {
    // Given back before the memory itself.
    slot_region: Region,
    record_region: Region,
    slots: Box<Ring>,
    records: Box<Records>,
}

/// A request in the ring.
#[derive(Clone, Copy, Default)]
struct Request {
    open: bool,
    count: usize,
    /// Values that are awaited.
    awaited: u32,
    /// Sizes; `None`: it is in the record.
    bytes: [Option<usize>; GROUP],
    capacity: [usize; GROUP],
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
        let slots: Box<Ring> = Box::new([[Cell::default(); GROUP]; RING]);
        let records: Box<Records> = Box::new([[0; GROUP]; RING]);
        let (at, bytes) = ((&raw const *slots) as usize, size_of::<Ring>());
        let (records_at, records_bytes) = ((&raw const *records) as usize, size_of::<Records>());
        // SAFETY: both boxes live in the area beside their regions and are freed after them.
        let (slot_region, record_region) = unsafe {
            (
                Region::new(&domain, at, bytes, LOCAL_WRITE)?,
                Region::new(
                    &domain,
                    records_at,
                    records_bytes,
                    LOCAL_WRITE | REMOTE_WRITE,
                )?,
            )
        };
        Ok(Receiver {
            ends,
            area: Area {
                slot_region,
                record_region,
                slots,
                records,
            },
            remote: (peer.area, peer.area_key),
            requests: [Request::default(); RING],
            next: 1,
            values: if peer.split { count } else { 1 },
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
            ..Request::default()
        };
        for (index, buffer) in buffers.iter().enumerate() {
            let key = key(buffer)?;
            request.capacity[index] = buffer.capacity;
            self.area.slots[ring][index] = Cell::new(&Slot {
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
            id: queue as u64,
            kind: Kind::Write,
            local: (&raw const self.area.slots[ring]) as u64,
            local_key: self.area.slot_region.local_key(),
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
        let requests = &mut self.requests;
        let mut wrong = None;
        let any = self.ends.poll(|queues, done| match done {
            Done::Work(queue) => queues[queue as usize].room += 1,
            Done::Value(value, queue) => {
                if let Err(error) = queues[queue].post_receives(1) {
                    wrong.get_or_insert(error);
                }
                let (ring, buffer, bytes) = read_immediate(value);
                match requests
                    .get_mut(ring)
                    .filter(|r| r.awaited > 0 && buffer < r.count)
                {
                    None => drop(wrong.get_or_insert(Error::internal("a value for no request"))),
                    Some(request) => {
                        request.awaited -= 1;
                        request.bytes[buffer] = bytes;
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

    /// The sizes of a request's messages, once, when all are there: they are written to `sizes`,
    /// and their number is returned. `None`: not yet.
    pub fn take(&mut self, number: usize, sizes: &mut [usize; GROUP]) -> Result<Option<usize>> {
        self.ends.check()?;
        if !self
            .requests
            .get(number)
            .is_some_and(|request| request.open)
        {
            return Err(Error::argument(
                "a request was tested that is not open",
                "test a request until it is done, and then no more",
            ));
        }
        if self.requests[number].awaited > 0 {
            self.poll()?;
        }
        if self.requests[number].awaited > 0 {
            self.ends.idle()?;
            if self.ends.left.is_some() {
                // The peer left after its messages had arrived: those can be taken.
                self.poll()?;
                if self.requests[number].awaited > 0 {
                    self.wait()?;
                }
            }
        }
        if self.requests[number].awaited > 0 {
            return Ok(None);
        }
        self.finish(number, sizes).map(Some)
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
