//! The receiving end of a connection between nodes; its phases are those of [`super::link`].

use super::active::Sub;
use super::counts::{Counts, SLOTS};
use super::link::{Shape, Went};
use super::local::Inbox;
use super::token::{Trailer, message_bytes};
use super::trace::{Phase, Trace};
use super::wanted::Wanted;
use crate::base::{Error, Result};
use crate::plan::Direction;
use crate::transport::lasting::LastingMemory;
use crate::transport::net::{Receive, Received, RecvComm, Region, Request};
use crate::wire::line::LINES;
use crate::wire::pair::STRAIGHT_BYTES;
use std::collections::VecDeque;
use std::sync::Arc;

/// Messages for which the time of a system call counts more than that of their bytes.
const SHORT_MESSAGE: usize = 4096;

/// Messages that are brought beside the oldest one. As many of 128 KiB as these hide the way to the
/// sender and back at the rates of today's adapters; more of them would wait for each other's data,
/// and an adapter that hears nothing of one for its timeout gives up.
const BROUGHT_AHEAD: usize = 3;

/// A message that is awaited.
struct Awaited {
    request: Request,
    /// The network was told where its payload is wanted.
    is_told: bool,
    /// Where its payload goes if not to its slot.
    diverted: Option<*mut u8>,
}

/// A message that is here.
struct Here {
    length: usize,
    /// Where its payload lies, if not in its slot.
    elsewhere: Option<*mut u8>,
}

/// The receiving end.
pub(super) struct RecvLink {
    shape: Shape,
    memory: Inbox,
    comm: Box<dyn RecvComm>,
    region: Region,
    requests: VecDeque<Awaited>,
    /// Tokens up to which end the reader has wishes for, and whether the network can fulfil them
    /// as far as it was asked.
    holding: (u64, bool),
    /// Messages that are here, and what is to be tested before they may be read.
    flushing: VecDeque<(Here, Option<Request>)>,
    posted: u64,
    received: u64,
    /// Length of the message that was received last.
    last_length: usize,
    transmitted: u64,
    done: u64,
    /// Bytes of payload that passed slots.
    copied: u64,
    /// Why nothing can be posted any more.
    broken: Option<Error>,
}

// SAFETY: the places to which payload is diverted belong to the link until it is published,
// whichever thread drives it; everything else is owned.
unsafe impl Send for RecvLink {}

impl RecvLink {
    /// Over a connection that was made for it.
    ///
    /// # Errors
    /// Where the network cannot register the slots.
    pub fn new(
        shape: Shape,
        memory: Inbox,
        mut comm: Box<dyn RecvComm>,
        lasting: &Arc<dyn LastingMemory>,
    ) -> Result<Self> {
        let bytes = shape.slot_bytes * LINES;
        comm.reach(lasting);
        // SAFETY: the slots stay mapped as long as the communicator, which closes its links first.
        let region = unsafe { comm.register(memory.slot(0), bytes)? };
        Ok(RecvLink {
            shape,
            memory,
            comm,
            region,
            requests: VecDeque::with_capacity(LINES),
            holding: (0, true),
            flushing: VecDeque::with_capacity(LINES),
            posted: 0,
            received: 0,
            last_length: 0,
            transmitted: 0,
            done: 0,
            copied: 0,
            broken: None,
        })
    }

    /// Bytes of payload that passed slots.
    pub fn copied(&self) -> u64 {
        self.copied
    }

    /// Slots that the reader has given back.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// How far it is.
    pub fn counts(&self) -> Counts {
        Counts {
            posted: self.posted,
            full: self.received,
            transmitted: self.transmitted,
            done: self.done,
        }
    }

    /// Posts buffers for the slots that are free, however many tokens are expected.
    ///
    /// # Errors
    /// Of the network.
    fn post(&mut self, trace: &mut Trace) -> Result<()> {
        let Shape { slice, peer, .. } = self.shape;
        // Each posting is a word to the sender: many slots at a time, while it has others. Where
        // messages are short, a word costs as much as one of them.
        let many = match self.last_length <= SHORT_MESSAGE {
            true => SLOTS * 3 / 4,
            false => SLOTS / 2,
        };
        let few = self.posted - self.received > 0 && self.done + SLOTS - self.posted < many;
        if few {
            return Ok(());
        }
        while self.posted < self.done + SLOTS {
            let receive = self.buffer(self.posted);
            // SAFETY: the slot is free, by the reader's credit, and stays so until what arrives in
            // it is published and given back.
            let Some(request) = (unsafe { self.comm.irecv(&[receive])? }) else {
                break;
            };
            self.requests.push_back(Awaited {
                request,
                is_told: false,
                diverted: None,
            });
            self.posted += slice;
            trace.note(Direction::Recv, peer, Phase::Posted, self.posted);
        }
        self.comm.announce();
        Ok(())
    }

    /// The buffer at a slot count that is not published yet.
    fn buffer(&self, position: u64) -> Receive {
        Receive {
            data: self.memory.slot(position - self.transmitted),
            capacity: self.shape.slot_bytes * self.shape.slice as usize,
            tag: 0,
            region: self.region,
        }
    }

    /// Posts buffers as [`RecvLink::post`] does, but keeps the error until a token is wanted that
    /// cannot come any more. The writer may have said goodbye already, behind the tokens for
    /// buffers that it has heard of.
    pub fn post_ahead(&mut self, trace: &mut Trace) {
        if self.broken.is_none()
            && let Err(error) = self.post(trace)
        {
            self.broken = Some(error);
        }
    }

    /// One look at each phase, for the tokens of a sub, of which some may be wanted elsewhere than
    /// in their slots.
    ///
    /// # Errors
    /// Of the network, or a message that is no token of this connection.
    pub fn progress(&mut self, sub: &Sub, wanted: &Wanted, trace: &mut Trace) -> Result<Went> {
        let end = sub.end;
        if self.holding.0 < end {
            self.holding = (end, sub.wished);
        }
        let before = (self.transmitted, self.done);
        let carried = self.comm.carried();
        let Shape { slice, peer, .. } = self.shape;
        let given = self.memory.given();
        while self.done < given {
            self.done += slice;
            trace.note(Direction::Recv, peer, Phase::Done, self.done);
        }
        self.post_ahead(trace);
        // A peer may close when it has sent what it was to send: buffers that were posted ahead of
        // the last token are no reason to complain.
        while self.received < end && !self.requests.is_empty() {
            let Some(received) = self.look(wanted)? else {
                break;
            };
            let awaited = self.requests.pop_front();
            let length = received.bytes().first().copied().unwrap_or(0);
            let flush = self.comm.flush(&[self.buffer(self.received)])?;
            // A message of another length has not been diverted.
            let diverted = awaited.and_then(|it| it.diverted);
            let elsewhere = diverted.filter(|_| received.is_diverted());
            self.last_length = length;
            self.flushing.push_back((Here { length, elsewhere }, flush));
            self.received += slice;
            trace.note(Direction::Recv, peer, Phase::Received, self.received);
            // The reader is asked first where it wants the next one.
            if length >= STRAIGHT_BYTES {
                break;
            }
        }
        if self.received < end && self.requests.is_empty() {
            self.broken.clone().map_or(Ok(()), Err)?;
        }
        self.publish_flushed(trace)?;
        let tokens = before != (self.transmitted, self.done);
        Ok(Went::of(tokens, carried != self.comm.carried()))
    }

    /// Passes wishes on, looks whether the oldest message is here, and has those brought that are
    /// behind it and whose place is known.
    fn look(&mut self, wanted: &Wanted) -> Result<Option<Received>> {
        if self.shape.slice == 1 {
            self.pass_wishes(wanted);
        }
        let mut awaited = self.requests.iter();
        let Some(first) = awaited.next() else {
            return Ok(None);
        };
        let is_held = self.holding.1 && self.shape.slice == 1 && !first.is_told;
        let found = if is_held {
            self.comm.test_held(&first.request)?
        } else {
            self.comm.test(&first.request)?
        };
        let known = awaited.take_while(|it| it.diverted.is_some());
        for next in known.take(BROUGHT_AHEAD) {
            self.comm.bring(&next.request)?;
        }
        Ok(found)
    }

    /// Tells the network where messages are wanted, as far as their reader has said so.
    fn pass_wishes(&mut self, wanted: &Wanted) {
        let (comm, holding) = (&mut self.comm, &mut self.holding.1);
        for (position, awaited) in (self.received..).zip(&mut self.requests) {
            if awaited.is_told {
                continue;
            }
            let Some((data, bytes)) = wanted.at(position) else {
                return;
            };
            awaited.is_told = true;
            if data.is_null() {
                continue;
            }
            let length = message_bytes(bytes);
            // SAFETY: who wants it there leaves the place to this end until it is published.
            let takes = unsafe { comm.divert(&awaited.request, data, bytes, length) };
            awaited.diverted = takes.then_some(data);
            // Where wishes come to nothing, messages need not wait for them.
            *holding &= takes;
        }
    }

    /// Publishes, in order, what is here and may be read.
    fn publish_flushed(&mut self, trace: &mut Trace) -> Result<()> {
        let Shape { slice, peer, .. } = self.shape;
        while let Some((_, flush)) = self.flushing.front() {
            if let Some(request) = flush
                && self.comm.test(request)?.is_none()
            {
                break;
            }
            let Some((here, _)) = self.flushing.pop_front() else {
                break;
            };
            trace.note(
                Direction::Recv,
                peer,
                Phase::Flushed,
                self.transmitted + slice,
            );
            if here.elsewhere.is_some() {
                trace.note(
                    Direction::Recv,
                    peer,
                    Phase::Straight,
                    self.transmitted + slice,
                );
            }
            self.publish(&here)?;
            self.transmitted += slice;
            trace.note(Direction::Recv, peer, Phase::Transmitted, self.transmitted);
        }
        Ok(())
    }

    /// Publishes the message in the next slot to the local reader.
    fn publish(&mut self, here: &Here) -> Result<()> {
        let length = here.length;
        let slot = self.memory.slot(0);
        // SAFETY: the message is in the slot, which nobody writes before it is published.
        let trailer = unsafe { Trailer::read(slot, length) };
        let trailer = trailer.filter(|trailer| trailer.position == self.transmitted);
        let Some(Trailer {
            bytes, signature, ..
        }) = trailer
        else {
            return Err(Error::remote(
                self.shape.peer,
                format!(
                    "rank {} sent {length} bytes on channel {} that are not the token at {}",
                    self.shape.peer, self.shape.channel, self.transmitted
                ),
                "let all ranks use the same version of kolo; if they do, switch on \
                 KOLO_NET_CHECKSUM to see whether the network changes data",
            ));
        };
        if let Some(data) = here.elsewhere {
            // SAFETY: the payload was received there, where the reader wants it.
            unsafe { self.memory.publish_elsewhere(data, bytes, signature) };
            return Ok(());
        }
        self.copied += bytes as u64;
        self.memory
            .publish(self.shape.slice as u32, bytes, signature);
        Ok(())
    }

    /// Adds what a `poll` may sleep on.
    pub fn watch(&self, set: &mut Vec<libc::pollfd>) -> bool {
        self.comm.watch(set)
    }

    /// Ends the connection; buffers that were posted ahead are given up.
    pub fn close(self) {
        // It says that buffers were posted, which is as it should be.
        let _ = self.comm.close();
    }
}
