//! The end of a connection in this node's memory: of host memory, or of a device.

use crate::wire::line::{Arrival, SMALL_BYTES};
use crate::wire::pair::{PairReceiver, PairSender};
use crate::wire::stage::{StageReader, StageWriter};

/// The end from which the engine reads what it sends.
pub(super) enum Outbox {
    Host(PairReceiver),
    Device(StageReader),
}

impl Outbox {
    /// Whether the token `ahead` slots behind the oldest one is there.
    pub fn ready(&self, ahead: u32) -> bool {
        match self {
            Outbox::Host(pair) => pair.ready(ahead),
            Outbox::Device(stage) => stage.ready(ahead),
        }
    }

    /// Bytes and signature of that token.
    pub fn arrival(&self, ahead: u32) -> Arrival {
        match self {
            Outbox::Host(pair) => pair.arrival(ahead),
            // Kernels know of no signatures: their ranks are compared by the host.
            Outbox::Device(stage) => Arrival {
                signature: 0,
                ack: stage.bytes(ahead) as u64,
            },
        }
    }

    /// Where its payload lies, if not in its slot or beside it.
    pub fn elsewhere(&self, ahead: u32) -> Option<*mut u8> {
        match self {
            Outbox::Host(pair) => pair.elsewhere(ahead),
            Outbox::Device(_) => None,
        }
    }

    /// Its slot.
    pub fn slot(&self, ahead: u64) -> *mut u8 {
        match self {
            Outbox::Host(pair) => pair.slot(ahead),
            Outbox::Device(stage) => stage.slot(ahead),
        }
    }

    /// Its slot, with its payload of `bytes` in there.
    pub fn filled(&self, ahead: u32, bytes: usize) -> *mut u8 {
        let slot = self.slot(ahead.into());
        if let Outbox::Host(pair) = self
            && bytes <= SMALL_BYTES
        {
            let from = pair.place(bytes, ahead);
            // SAFETY: the token is there with so many bytes, and its slot, which its payload does
            // not use, is this end's until it is given back.
            unsafe { std::ptr::copy_nonoverlapping(from, slot, bytes) };
        }
        slot
    }

    /// Gives the oldest token back.
    pub fn release(&mut self, slots: u32) {
        match self {
            Outbox::Host(pair) => pair.release(slots),
            Outbox::Device(stage) => stage.release(slots),
        }
    }
}

/// The end at which the engine publishes what it has received.
pub(super) enum Inbox {
    Host(PairSender),
    Device(StageWriter),
}

impl Inbox {
    /// Slots that the reader has given back so far.
    pub fn given(&mut self) -> u64 {
        match self {
            Inbox::Host(pair) => pair.given(),
            Inbox::Device(stage) => stage.given(),
        }
    }

    /// The slot `ahead` slots behind the next one.
    pub fn slot(&self, ahead: u64) -> *mut u8 {
        match self {
            Inbox::Host(pair) => pair.slot(ahead),
            Inbox::Device(stage) => stage.slot(ahead),
        }
    }

    /// Publishes the token in the next slot.
    pub fn publish(&mut self, slots: u32, bytes: usize, signature: u64) {
        match self {
            Inbox::Host(pair) => {
                if bytes <= SMALL_BYTES {
                    let (from, to) = (pair.slot(0), pair.place(bytes));
                    // SAFETY: the place of the token is this end's until it is published, and is
                    // not its slot.
                    unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
                }
                pair.publish(slots, bytes, signature);
            }
            Inbox::Device(stage) => stage.publish(slots),
        }
    }

    /// Publishes a token whose payload was received at `data`, where the reader wants it.
    ///
    /// # Safety
    /// As [`PairSender::publish_elsewhere`].
    pub unsafe fn publish_elsewhere(&mut self, data: *mut u8, bytes: usize, signature: u64) {
        match self {
            // SAFETY: passed on.
            Inbox::Host(pair) => unsafe { pair.publish_elsewhere(data, bytes, signature) },
            // Readers on devices want nothing elsewhere.
            Inbox::Device(_) => unreachable!("a device has no wishes"),
        }
    }
}
