//! The sending end: takes notices of posted buffers, and sends each message to the oldest of its
//! tag.

use crate::endpoint::{Registered, Target};
use crate::ends::{Ends, Peer};
use crate::hello::Hello;
use crate::libfabric::Span;
use crate::network::Network;
use crate::notice::Notice;
use crate::operation::Operations;
use crate::tags::tag;
use kolo::base::{Error, Result};
use kolo_plugin::fabric::{GROUP, MESSAGES, RING};
use std::collections::VecDeque;
use std::sync::Arc;

/// A request of the peer of which not every buffer is taken.
struct Posted {
    notice: Notice,
    /// Bit set of the buffers that have their message.
    taken: u32,
}

/// The sending end of a connection.
pub struct Sender {
    /// Parts that both ends have.
    pub ends: Ends,
    peer: Peer,
    posted: VecDeque<Posted>,
    /// The next request of the peer that was not seen yet.
    next: u64,
    sending: Operations,
    /// Sizes of the messages that are open.
    open: [Option<usize>; MESSAGES],
    sent: u64,
}

/// A buffer of the peer: its request's place in `posted`, and which of that it is.
struct Place {
    index: usize,
    buffer: usize,
}

impl Sender {
    /// Makes the end on a device, not yet connected.
    pub fn new(network: &Arc<Network>, device: usize) -> Result<Sender> {
        let ends = Ends::new(network, device)?;
        ends.endpoint.enter(ends.number);
        Ok(Sender {
            ends,
            peer: Peer::default(),
            posted: VecDeque::with_capacity(RING),
            next: 1,
            sending: Operations::new(MESSAGES),
            open: [None; MESSAGES],
            sent: 0,
        })
    }

    /// Connects to the end that answers so.
    pub fn connect(&mut self, peer: &Hello) -> Result<()> {
        self.peer = self.ends.connect(peer)?;
        Ok(())
    }

    /// Starts a message; its number, or `None`: not yet.
    ///
    /// # Safety
    /// The memory stays valid and unchanged until the message is done or the end is dropped.
    pub unsafe fn start(&mut self, span: Span, message_tag: u32) -> Result<Option<usize>> {
        self.ends.check()?;
        let free = self.open.iter().position(Option::is_none);
        let found = free.and_then(|free| Some((free, self.find(message_tag)?)));
        let Some((free, Place { index, buffer })) = found else {
            self.ends.poll()?;
            self.ends.idle(0)?;
            return Ok(None);
        };
        let notice = self.posted[index].notice;
        let capacity = notice.buffers[buffer].1;
        if span.bytes as u64 > capacity {
            let error = Error::usage(
                format!(
                    "a message of {} bytes with tag {message_tag} is larger than the buffer of \
                     {capacity} bytes that was posted for it",
                    span.bytes
                ),
                "post buffers that are as large as the messages",
            );
            return Err(self.ends.fail(error, true));
        }
        let place = notice.sequence as usize % RING * GROUP + buffer;
        let to = Target {
            address: self.peer.address,
            tag: tag(self.peer.number, place),
        };
        // SAFETY: the caller keeps the message's memory.
        let begun = unsafe { self.ends.endpoint.send(&self.sending, free, span, to) };
        match begun {
            Ok(true) => {}
            Ok(false) => {
                self.ends.poll()?;
                self.ends.idle(0)?;
                return Ok(None);
            }
            Err(failure) => return Err(self.ends.failed("a send", &failure)),
        }
        self.take(&Place { index, buffer });
        self.open[free] = Some(span.bytes);
        self.sent += 1;
        Ok(Some(free))
    }

    /// The oldest posted buffer of this tag.
    fn find(&mut self, tag: u32) -> Option<Place> {
        for index in 0.. {
            if index == self.posted.len() && !self.see_next() {
                return None;
            }
            let Posted { notice, taken } = &self.posted[index];
            let free = |buffer: &usize| taken >> buffer & 1 == 0;
            let fits = |buffer: &usize| notice.buffers[*buffer].0 == tag;
            let found = (0..notice.count).filter(free).find(fits);
            if let Some(buffer) = found {
                return Some(Place { index, buffer });
            }
        }
        None
    }

    /// Takes up the next request of the peer, when its notice has arrived.
    fn see_next(&mut self) -> bool {
        let notice = self.ends.endpoint.notice(self.ends.number, self.next);
        if let Some(notice) = notice {
            self.posted.push_back(Posted { notice, taken: 0 });
            self.next += 1;
        }
        notice.is_some()
    }

    /// Marks a buffer as used, and forgets requests that are used up.
    fn take(&mut self, place: &Place) {
        let posted = &mut self.posted[place.index];
        posted.taken |= 1 << place.buffer;
        if posted.taken.count_ones() as usize == posted.notice.count {
            self.posted.remove(place.index);
        }
    }

    /// The size of a message, once, when its memory is not needed any more; `None`: not yet.
    pub fn finish(&mut self, number: usize) -> Result<Option<usize>> {
        self.ends.check()?;
        let Some(bytes) = self.open.get(number).copied().flatten() else {
            return Err(Error::argument(
                "a request was tested that is not open",
                "test a request until it is done, and then no more",
            ));
        };
        if self.sending.is_flying(number) {
            self.ends.poll()?;
        }
        let ended = self.sending.ended(number);
        match ended.map_err(|failure| self.ends.failed("a send", &failure))? {
            Some(_) => {
                self.open[number] = None;
                self.sending.forget(number);
                Ok(Some(bytes))
            }
            None => {
                // A peer that has left in good order has received it: the provider will say so.
                self.ends.idle(u64::MAX)?;
                Ok(None)
            }
        }
    }

    /// Says goodbye.
    pub fn part(&mut self) -> Result<()> {
        let unfinished = self.open.iter().flatten().count();
        self.ends.part(unfinished, self.sent)
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.ends.endpoint.leave(self.ends.number);
        self.ends.endpoint.settle(&[&self.sending]);
    }
}

/// Description of registered memory, which operations on it name.
pub fn description(memory: &Registered) -> *mut std::ffi::c_void {
    let region = memory.region();
    region.map_or(std::ptr::null_mut(), |region| region.description())
}
