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

use super::counts::Counts;
use super::local::Outbox;
use super::token::{Trailer, message_bytes};
use super::trace::{Phase, Trace};
use crate::base::{Rank, Result};
use crate::plan::Direction;
use crate::transport::lasting::LastingMemory;
use crate::transport::net::{AT_ONCE, Region, Request, SendComm};
use crate::wire::line::{INLINE_BYTES, LINES, SMALL_BYTES};
use std::collections::VecDeque;
use std::sync::Arc;

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
    pub fn of(tokens: bool, bytes: bool) -> Went {
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
    /// Up to here payload that the network does not take from where it lies is in its slot.
    filled: u64,
    /// Bytes of payload that passed slots.
    copied: u64,
}

impl SendLink {
    /// Over a connection that was made for it.
    ///
    /// # Errors
    /// Where the network cannot register the slots.
    pub fn new(
        shape: Shape,
        memory: Outbox,
        mut comm: Box<dyn SendComm>,
        lasting: &Arc<dyn LastingMemory>,
    ) -> Result<Self> {
        let bytes = shape.slot_bytes * LINES;
        comm.reach(lasting);
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
            filled: 0,
            copied: 0,
        })
    }

    /// Bytes of payload that passed slots.
    pub fn copied(&self) -> u64 {
        self.copied
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
            let straight = self.straight(ahead);
            let Some(request) = self.transmit(ahead, straight)? else {
                break;
            };
            let bytes = self.memory.arrival(ahead).ack;
            handed += bytes;
            self.requests.push_back(request);
            match straight {
                Some(_) => note(Phase::Straight, self.transmitted + slice),
                None => self.copied += bytes,
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

    /// Where the payload of the next token lies, if the network takes it from there. Where it does
    /// not, the slot gets it.
    fn straight(&mut self, ahead: u32) -> Option<*mut u8> {
        if self.transmitted < self.filled {
            // The address that was in the slot is not there any more.
            return None;
        }
        let data = self.memory.elsewhere(ahead)?;
        let bytes = self.memory.arrival(ahead).ack as usize;
        if self.comm.sends_from(data, bytes) {
            return Some(data);
        }
        let slot = self.memory.slot(ahead.into());
        // SAFETY: whoever published the token leaves its payload alone until it is given back; its
        // slot has room for it, and is this end's until then.
        unsafe { std::ptr::copy_nonoverlapping(data.cast_const(), slot, bytes) };
        self.filled = self.transmitted + self.shape.slice;
        None
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

const _: () = assert!(INLINE_BYTES <= SMALL_BYTES);
