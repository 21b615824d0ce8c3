//! Fans: one writer, many readers, and the credit is that of the slowest reader.
//!
//! Every rank of a node owns one fan: 8 lines with a slot each. A rank publishes one line, not one
//! per peer. Credit needs no traffic of its own: an *epoch* counts the eager calls that a rank has
//! completed on the communicator, each line carries its writer's epoch in the ack word, and a slot
//! may be reused when every reader's epoch has reached the call that published it. Ranks that only
//! read (a broadcast) say so by an explicit ack word every 4 calls, half of the lines.
//!
//! All ranks of a communicator make the same calls in the same order; so an epoch means the same
//! call everywhere. A call publishes at most one token on each fan.

use super::line::{Arrival, Credit, INLINE_BYTES, LINES, Line};
use crate::base::sync::MODEL;

/// The shared words of a fan.
#[repr(C, align(64))]
pub struct FanHeader {
    /// One line a slot.
    pub lines: [Line; LINES],
    /// The owner's explicit ack, as a reader of the others.
    pub ack: Credit,
    pad: [u64; 8],
}

const _: () = assert!(MODEL || size_of::<FanHeader>() == 640);

impl Default for FanHeader {
    fn default() -> Self {
        Self::new()
    }
}

impl FanHeader {
    /// A header in ordinary memory, for tests.
    pub fn new() -> FanHeader {
        FanHeader {
            lines: std::array::from_fn(|_| Line::new()),
            ack: Credit::new(),
            pad: [0; 8],
        }
    }
}

/// Explicit acks are written when the epoch is a multiple of this: half the lines, so that a
/// writer never waits for an ack that a completed call should have given.
const ACK_EVERY: u64 = LINES as u64 / 2;

/// Shared memory of one fan.
#[derive(Clone, Copy)]
pub struct FanMemory {
    header: *const FanHeader,
    slots: *mut u8,
    slot_bytes: usize,
}

// SAFETY: as for pair connections: epochs and sequences decide who touches what when.
unsafe impl Send for FanMemory {}

impl FanMemory {
    /// Describes a fan in shared memory.
    ///
    /// # Safety
    /// `header` is a zeroed or live [`FanHeader`] and `slots` has `8 * slot_bytes` bytes; both stay
    /// mapped as long as a [`Fans`] that was made of this is used.
    pub unsafe fn new(header: *const FanHeader, slots: *mut u8, slot_bytes: usize) -> FanMemory {
        FanMemory {
            header,
            slots,
            slot_bytes,
        }
    }

    #[inline(always)]
    fn header(&self) -> &FanHeader {
        // SAFETY: valid for the life of the connection (contract of `new`); only ever shared.
        unsafe { &*self.header }
    }

    #[inline(always)]
    fn place(&self, count: u64, bytes: usize) -> *mut u8 {
        let index = count as usize % LINES;
        if bytes <= INLINE_BYTES {
            return self.header().lines[index]
                .payload()
                .write(|payload| payload.cast());
        }
        // SAFETY: `index < LINES`, and the slots hold `LINES * slot_bytes` bytes.
        unsafe { self.slots.add(index * self.slot_bytes) }
    }
}

/// What a rank knows of one fan.
struct Member {
    memory: FanMemory,
    /// Tokens of this fan that this rank has published or read.
    count: u64,
    /// Calls that the owner is known to have completed.
    epoch: u64,
}

/// All fans of a node, as one rank uses them.
pub struct Fans {
    me: usize,
    members: Vec<Member>,
    /// Calls completed by this rank.
    epoch: u64,
    /// The call that last published each of this rank's slots, plus 1; 0 for never.
    published_in: [u64; LINES],
    slot_bytes: usize,
}

impl Fans {
    /// The fans of `memories`, in local rank order, for local rank `me`.
    pub fn new(me: usize, memories: Vec<FanMemory>) -> Fans {
        let slot_bytes = memories.first().map_or(0, |memory| memory.slot_bytes);
        let members = memories
            .into_iter()
            .map(|memory| Member {
                memory,
                count: 0,
                epoch: 0,
            })
            .collect();
        Fans {
            me,
            members,
            epoch: 0,
            published_in: [0; LINES],
            slot_bytes,
        }
    }

    /// Bytes that one token can carry.
    pub fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    /// Whether this rank may publish its next token.
    #[inline]
    pub fn may_publish(&mut self) -> bool {
        let needed = self.published_in[self.members[self.me].count as usize % LINES];
        self.acknowledged(needed) || self.acknowledged_explicitly(needed)
    }

    #[inline]
    fn acknowledged(&self, needed: u64) -> bool {
        self.members
            .iter()
            .enumerate()
            .all(|(i, m)| i == self.me || m.epoch >= needed)
    }

    #[cold]
    fn acknowledged_explicitly(&mut self, needed: u64) -> bool {
        for member in &mut self.members {
            member.epoch = member.epoch.max(member.memory.header().ack.given());
        }
        self.acknowledged(needed)
    }

    /// The readers that hold back this rank's next token.
    pub fn holding_back(&self) -> Vec<usize> {
        let needed = self.published_in[self.members[self.me].count as usize % LINES];
        let late = |&(i, m): &(usize, &Member)| i != self.me && m.epoch < needed;
        self.members
            .iter()
            .enumerate()
            .filter(late)
            .map(|(i, _)| i)
            .collect()
    }

    /// Where this rank's next payload of `bytes` goes.
    #[inline]
    pub fn place(&self, bytes: usize) -> *mut u8 {
        let mine = &self.members[self.me];
        mine.memory.place(mine.count, bytes)
    }

    /// Publishes it.
    #[inline]
    pub fn publish(&mut self, signature: u64) {
        let epoch = self.epoch;
        let mine = &mut self.members[self.me];
        let index = mine.count as usize % LINES;
        mine.count += 1;
        mine.memory.header().lines[index].publish(mine.count, signature, epoch);
        self.published_in[index] = epoch + 1;
    }

    /// Whether the next token of `writer` is there.
    #[inline]
    pub fn ready(&self, writer: usize) -> bool {
        let member = &self.members[writer];
        member.memory.header().lines[member.count as usize % LINES].arrived(member.count)
    }

    /// Signature and epoch of the token that is there.
    #[inline]
    pub fn arrival(&self, writer: usize) -> Arrival {
        let member = &self.members[writer];
        member.memory.header().lines[member.count as usize % LINES].arrival()
    }

    /// Whether the token that is there was published in the call that this rank is in. An older one
    /// is left over from a call in which this rank took another token than its writer meant.
    #[inline]
    pub fn is_of_this_call(&self, arrival: &Arrival) -> bool {
        arrival.ack == self.epoch
    }

    /// Where the token's payload of `bytes` lies; valid until the call completes.
    #[inline]
    pub fn source(&self, writer: usize, bytes: usize) -> *const u8 {
        let member = &self.members[writer];
        member.memory.place(member.count, bytes)
    }

    /// Counts the token of `writer` as read; its payload stays valid until [`Fans::complete`].
    #[inline]
    pub fn release(&mut self, writer: usize) {
        let member = &mut self.members[writer];
        let index = member.count as usize % LINES;
        let ack = member.memory.header().lines[index].arrival().ack;
        member.epoch = member.epoch.max(ack);
        member.count += 1;
    }

    /// Ends a call: everything that it read may be overwritten. Returns whether an explicit ack
    /// was written, for which somebody may sleep.
    #[inline]
    pub fn complete(&mut self) -> bool {
        self.epoch += 1;
        let explicit = self.epoch.is_multiple_of(ACK_EVERY);
        if explicit {
            self.members[self.me].memory.header().ack.give(self.epoch);
        }
        explicit
    }

    /// Tokens of `writer`'s fan that this rank has published or read.
    pub fn count(&self, writer: usize) -> u64 {
        self.members[writer].count
    }
}
