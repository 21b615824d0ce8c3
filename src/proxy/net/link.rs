//! One end of a connection between nodes, and its phases.
//!
//! The memory of the connection lies on both nodes at the same place. On the writer's node the
//! engine reads it as a peer would, on the reader's node it writes it: so the executors know of no
//! network. Counts are of slots, begin at 0 and are never reset, and keep this order:
//!
//! - sending: `done` <= `transmitted` <= `posted` <= `done` + 8. *Posted*: the local writer may
//!   fill it. *Transmitted*: handed to the network. *Done*: the network needs the slot no more, and
//!   the writer has it back.
//! - receiving: `done` <= `transmitted` <= `received` <= `posted` <= `done` + 8. *Posted*: the
//!   network may fill it. *Received*: it did. *Transmitted*: flushed, and published to the local
//!   reader. *Done*: the reader has given it back.
//!
//! Buffers are posted ahead of the calls that will want them, as far as slots are free: so the
//! first token of a call need not wait until the peer has heard that its receiver is there.

use super::counts::{Counts, SLOTS};
use super::local::{Inbox, Outbox};
use super::token::{Trailer, message_bytes};
use super::trace::{Phase, Trace};
use super::wanted::Wanted;
use crate::base::{Error, Rank, Result};
use crate::plan::Direction;
use crate::transport::net::{AT_ONCE, Receive, RecvComm, Region, Request, SendComm};
use crate::wire::line::{INLINE_BYTES, LINES, SMALL_BYTES};
use crate::wire::pair::STRAIGHT_BYTES;
use std::collections::VecDeque;

/// Messages for which the time of a system call counts more than that of their bytes.
const SHORT_MESSAGE: usize = 4096;

/// Facts about a connection that hold for both of its ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub peer: Rank,
    pub channel: u16,
    /// Bytes of a slot in memory.
    pub slot_bytes: usize,
    /// Slots of a token.
    pub slice: u64,
}

/// Result of a look at an end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Went {
    /// Nothing moved.
    Nothing,
    /// A part of a token: there may be more to move, and nobody else can go on yet.
    Part,
    /// A token went a phase on.
    Token,
}

impl Went {
    fn of(tokens: bool, bytes: bool) -> Went {
        match (tokens, bytes) {
            (true, _) => Went::Token,
            (false, true) => Went::Part,
            (false, false) => Went::Nothing,
        }
    }
}

/// The sending end.
pub(super) struct SendLink {
    shape: Shape,
    memory: Outbox,
    comm: Box<dyn SendComm>,
    region: Region,
    requests: VecDeque<Request>,
    posted: u64,
    transmitted: u64,
    done: u64,
}

impl SendLink {
    /// Over a connection that was made for it.
    ///
    /// # Errors
    /// Where the network cannot register the slots.
    pub fn new(shape: Shape, memory: Outbox, mut comm: Box<dyn SendComm>) -> Result<Self> {
        let bytes = shape.slot_bytes * LINES;
        // SAFETY: the slots stay mapped as long as the communicator, which closes its links first.
        let region = unsafe { comm.register(memory.slot(0), bytes)? };
        Ok(SendLink {
            shape,
            memory,
            comm,
            region,
            requests: VecDeque::with_capacity(LINES),
            posted: 0,
            transmitted: 0,
            done: 0,
        })
    }

    /// Slots that the writer has back.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// How far it is.
    pub fn counts(&self) -> Counts {
        let mut full = self.transmitted;
        while full < self.posted && self.memory.ready((full - self.done) as u32) {
            full += self.shape.slice;
        }
        Counts {
            posted: self.posted,
            full,
            transmitted: self.transmitted,
            done: self.done,
        }
    }

    /// One look at each phase, for tokens up to slot `end`, of which `depth` may be on their way.
    /// It hands over about [`AT_ONCE`] bytes at most.
    pub fn progress(&mut self, end: u64, depth: u64, trace: &mut Trace) -> Result<Went> {
        let before = (self.transmitted, self.done);
        let carried = self.comm.carried();
        let Shape { slice, peer, .. } = self.shape;
        let depth = depth.max(slice);
        let mut note = |phase, count| trace.note(Direction::Send, peer, phase, count);
        while self.posted < end && self.posted < self.done + depth {
            self.posted += slice;
            note(Phase::Posted, self.posted);
        }
        // The bytes of this look.
        let mut handed = 0;
        while self.transmitted < self.posted
            && self.transmitted < self.done + depth
            && handed < AT_ONCE as u64
        {
            let ahead = (self.transmitted - self.done) as u32;
            if !self.memory.ready(ahead) {
                break;
            }
            let straight = self.memory.elsewhere(ahead);
            let Some(request) = self.transmit(ahead, straight)? else {
                break;
            };
            handed += self.memory.arrival(ahead).ack;
            self.requests.push_back(request);
            if straight.is_some() {
                note(Phase::Straight, self.transmitted + slice);
            }
            self.transmitted += slice;
            note(Phase::Transmitted, self.transmitted);
        }
        while let Some(request) = self.requests.front() {
            if self.comm.test(request)?.is_none() {
                break;
            }
            self.requests.pop_front();
            self.done += slice;
            self.memory.release(slice as u32);
            note(Phase::Done, self.done);
        }
        let tokens = before != (self.transmitted, self.done);
        Ok(Went::of(tokens, carried != self.comm.carried()))
    }

    /// Hands the next token, `ahead` slots behind the oldest one that was not given back, to the
    /// network, if the peer has room. `straight`: where its payload lies, if not in its slot.
    fn transmit(&mut self, ahead: u32, straight: Option<*mut u8>) -> Result<Option<Request>> {
        let arrival = self.memory.arrival(ahead);
        let bytes = arrival.ack as usize;
        let trailer = Trailer {
            bytes,
            signature: arrival.signature,
            position: self.transmitted,
        };
        if let Some(data) = straight {
            let (words, length) = trailer.words();
            // SAFETY: whoever published the token leaves its payload alone until it is given back,
            // which is when the request is done.
            return unsafe { self.comm.isend_with_tail(data, bytes, &words[..length], 0) };
        }
        let slot = self.memory.filled(ahead, bytes);
        // SAFETY: a slot has room for a token, and it is this end's.
        unsafe { trailer.write(slot) };
        // SAFETY: the slot is not written before the token is given back, which is when the
        // request is done.
        unsafe { self.comm.isend(slot, message_bytes(bytes), 0, self.region) }
    }

    /// Adds what a `poll` may sleep on.
    pub fn watch(&self, set: &mut Vec<libc::pollfd>) -> bool {
        self.comm.watch(set)
    }

    /// Says that it will be closed.
    pub fn finish(&mut self) {
        self.comm.finish();
    }

    /// Whether it can be closed without waiting.
    pub fn is_settled(&mut self) -> bool {
        self.comm.is_settled()
    }

    /// Who receives.
    pub fn peer(&self) -> Rank {
        self.shape.peer
    }

    /// Ends the connection.
    pub fn close(self) -> Result<()> {
        self.comm.close()
    }
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
    requests: VecDeque<Request>,
    /// Where the payload of the first request goes if not to its slot, and its length.
    diverted: Option<(*mut u8, usize)>,
    /// Messages that are here, and what is to be tested before they may be read.
    flushing: VecDeque<(Here, Option<Request>)>,
    posted: u64,
    received: u64,
    /// Length of the message that was received last.
    last_length: usize,
    transmitted: u64,
    done: u64,
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
    pub fn new(shape: Shape, memory: Inbox, mut comm: Box<dyn RecvComm>) -> Result<Self> {
        let bytes = shape.slot_bytes * LINES;
        // SAFETY: the slots stay mapped as long as the communicator, which closes its links first.
        let region = unsafe { comm.register(memory.slot(0), bytes)? };
        Ok(RecvLink {
            shape,
            memory,
            comm,
            region,
            requests: VecDeque::with_capacity(LINES),
            diverted: None,
            flushing: VecDeque::with_capacity(LINES),
            posted: 0,
            received: 0,
            last_length: 0,
            transmitted: 0,
            done: 0,
            broken: None,
        })
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
            self.requests.push_back(request);
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

    /// One look at each phase, for tokens up to slot `end`, of which one may be wanted elsewhere
    /// than in its slot.
    ///
    /// # Errors
    /// Of the network, or a message that is no token of this connection.
    pub fn progress(&mut self, end: u64, wanted: &Wanted, trace: &mut Trace) -> Result<Went> {
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
        while self.received < end
            && let Some(request) = self.requests.front()
        {
            if self.diverted.is_none() && slice == 1 {
                let comm = &mut *self.comm;
                self.diverted = wanted.at(self.received).filter(|&(data, bytes)| {
                    // SAFETY: who wants it there leaves the place to this end until it is
                    // published.
                    unsafe { comm.divert(request, data, bytes, message_bytes(bytes)) }
                });
            }
            let Some(received) = self.comm.test(request)? else {
                break;
            };
            self.requests.pop_front();
            let length = received.bytes().first().copied().unwrap_or(0);
            let flush = self.comm.flush(&[self.buffer(self.received)])?;
            // A message of another length has not been diverted.
            let diverted = self.diverted.take();
            let fits = diverted.filter(|&(_, bytes)| message_bytes(bytes) == length);
            let elsewhere = fits.map(|(data, _)| data);
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

const _: () = assert!(INLINE_BYTES <= SMALL_BYTES);
