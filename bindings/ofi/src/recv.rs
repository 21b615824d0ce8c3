//! The receiving end: posts buffers, tells the sender which, and counts what arrives.

use crate::endpoint::{Registered, Target};
use crate::ends::{Ends, Peer};
use crate::hello::Hello;
use crate::libfabric::Span;
use crate::network::Network;
use crate::notice::{self, NOTICE_BYTES, Notice};
use crate::operation::Operations;
use crate::send::description;
use crate::tags::{self, tag};
use kolo::base::{Error, Result};
use kolo_plugin::fabric::{self, GROUP, RING};
use std::collections::VecDeque;
use std::sync::Arc;

/// A buffer to receive into.
pub type Buffer<'a> = fabric::Buffer<'a, Registered>;

/// A request in the ring.
#[derive(Clone, Copy)]
struct Request {
    open: bool,
    notice: Notice,
    spans: [Span; GROUP],
    /// Buffers that the provider has.
    posted: usize,
}

const NO_SPAN: Span = Span {
    data: 0,
    bytes: 0,
    description: std::ptr::null_mut(),
};

const NO_REQUEST: Request = Request {
    open: false,
    notice: Notice {
        to: 0,
        sequence: 0,
        count: 0,
        buffers: [(0, 0); GROUP],
    },
    spans: [NO_SPAN; GROUP],
    posted: 0,
};

/// The receiving end of a connection.
pub struct Receiver {
    /// Parts that both ends have.
    pub ends: Ends,
    peer: Peer,
    // Given back before the memory itself.
    region: Registered,
    /// Notices while they are sent.
    notices: Box<[notice::Bytes; RING]>,
    telling: Operations,
    requests: [Request; RING],
    arriving: Operations,
    /// Requests of which the provider does not have all yet, in order.
    waiting: VecDeque<usize>,
    /// Number of the next request, from 1.
    next: u64,
    received: u64,
}

impl Receiver {
    /// Makes the end on a device, for a sender with that greeting.
    pub fn new(network: &Arc<Network>, device: usize, peer: &Hello) -> Result<Receiver> {
        let mut ends = Ends::new(network, device)?;
        let peer = ends.connect(peer)?;
        let notices = Box::new([[0; NOTICE_BYTES]; RING]);
        let (at, bytes) = ((&raw const *notices) as usize, RING * NOTICE_BYTES);
        // SAFETY: the box is freed after the registration, and after what uses it has ended.
        let region = unsafe { ends.endpoint.register(at, bytes) }?;
        Ok(Receiver {
            ends,
            peer,
            notices,
            region,
            telling: Operations::new(RING),
            requests: [NO_REQUEST; RING],
            arriving: Operations::new(RING * GROUP),
            waiting: VecDeque::with_capacity(RING),
            next: 1,
            received: 0,
        })
    }

    /// Posts buffers as one request; its number, or `None`: not yet.
    ///
    /// # Safety
    /// The buffers stay valid and are left alone until the request is done or the end is dropped.
    pub unsafe fn post(&mut self, buffers: &[Buffer]) -> Result<Option<usize>> {
        self.ends.check()?;
        if buffers.is_empty() || buffers.len() > GROUP {
            return Err(Error::argument(
                format!("{} buffers were posted as one request", buffers.len()),
                format!("post 1 to {GROUP} buffers at once"),
            ));
        }
        let ring = self.next as usize % RING;
        if self.requests[ring].open || self.telling.is_flying(ring) {
            self.ends.poll()?;
            self.go_on()?;
            self.ends.idle(self.received)?;
            return Ok(None);
        }
        let told = self.telling.ended(ring);
        told.map_err(|failure| self.ends.failed("a notice", &failure))?;
        let mut request = NO_REQUEST;
        request.open = true;
        request.notice.to = self.peer.number;
        request.notice.sequence = self.next;
        request.notice.count = buffers.len();
        for (index, buffer) in buffers.iter().enumerate() {
            request.spans[index] = span(buffer.data, buffer.capacity, buffer.memory)?;
            request.notice.buffers[index] = (buffer.tag, buffer.capacity as u64);
        }
        self.telling.forget(ring);
        self.requests[ring] = request;
        self.next += 1;
        self.waiting.push_back(ring);
        self.go_on()?;
        Ok(Some(ring))
    }

    /// Hands over to the provider what it did not take before: buffers of a request, then the
    /// notice of them.
    fn go_on(&mut self) -> Result<()> {
        while let Some(&ring) = self.waiting.front() {
            while self.requests[ring].posted < self.requests[ring].notice.count {
                let buffer = self.requests[ring].posted;
                let place = ring * GROUP + buffer;
                let (span, tag) = (
                    self.requests[ring].spans[buffer],
                    tag(self.ends.number, place),
                );
                // SAFETY: the caller of `post` keeps the buffer.
                let begun = unsafe { self.ends.endpoint.receive(&self.arriving, place, span, tag) };
                match begun {
                    Ok(true) => self.requests[ring].posted += 1,
                    Ok(false) => return self.ends.poll(),
                    Err(failure) => return Err(self.ends.failed("a receive", &failure)),
                }
            }
            self.notices[ring] = self.requests[ring].notice.write();
            let span = Span {
                data: (&raw const self.notices[ring]) as usize,
                bytes: NOTICE_BYTES,
                description: description(&self.region),
            };
            let to = Target {
                address: self.peer.address,
                tag: tags::NOTICES,
            };
            // SAFETY: the notices are freed after what uses them has ended.
            let begun = unsafe { self.ends.endpoint.send(&self.telling, ring, span, to) };
            match begun {
                Ok(true) => drop(self.waiting.pop_front()),
                Ok(false) => return self.ends.poll(),
                Err(failure) => return Err(self.ends.failed("a notice", &failure)),
            }
        }
        Ok(())
    }

    /// The sizes of a request's messages, once, when all are there: they are written to `sizes`,
    /// and their number is returned. `None`: not yet.
    pub fn take(&mut self, number: usize, sizes: &mut [usize; GROUP]) -> Result<Option<usize>> {
        self.ends.check()?;
        let open = self.requests.get(number).filter(|request| request.open);
        let Some(count) = open.map(|request| request.notice.count) else {
            return Err(Error::argument(
                "a request was tested that is not open",
                "test a request until it is done, and then no more",
            ));
        };
        self.go_on()?;
        if !self.has_all(number, count)? {
            self.ends.poll()?;
        }
        if !self.has_all(number, count)? {
            self.ends.idle(self.arrived())?;
            return Ok(None);
        }
        for (buffer, size) in sizes[..count].iter_mut().enumerate() {
            let place = number * GROUP + buffer;
            *size = self.arriving.ended(place).ok().flatten().unwrap_or(0);
            self.arriving.forget(place);
        }
        self.requests[number].open = false;
        self.received += count as u64;
        Ok(Some(count))
    }

    /// Messages that have come in all, also those of requests that are not done.
    fn arrived(&self) -> u64 {
        let places = 0..RING * GROUP;
        let ended = places.filter(|&place| matches!(self.arriving.ended(place), Ok(Some(_))));
        self.received + ended.count() as u64
    }

    fn has_all(&mut self, number: usize, count: usize) -> Result<bool> {
        let told = self.telling.ended(number);
        told.map_err(|failure| self.ends.failed("a notice", &failure))?;
        for buffer in 0..count {
            let ended = self.arriving.ended(number * GROUP + buffer);
            let ended = ended.map_err(|failure| self.ends.failed("a receive", &failure))?;
            if ended.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Says goodbye.
    pub fn part(&mut self) -> Result<()> {
        let unfinished = self.requests.iter().filter(|request| request.open).count();
        self.ends.part(unfinished, 0)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.ends.endpoint.settle(&[&self.telling, &self.arriving]);
    }
}

/// A place in the memory of a caller, which must lie in the registration that it names.
pub fn span(data: usize, bytes: usize, memory: Option<&Registered>) -> Result<Span> {
    match memory {
        _ if bytes == 0 => Ok(NO_SPAN),
        Some(memory) if memory.covers(data, bytes) => Ok(Span {
            data,
            bytes,
            description: description(memory),
        }),
        _ => Err(Error::argument(
            format!("{bytes} bytes at {data:#x} are not in the registered memory that is named"),
            "register the whole buffer, and name its registration",
        )),
    }
}
