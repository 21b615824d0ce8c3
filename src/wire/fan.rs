//! Fans: one writer, many readers, and the credit is that of the slowest reader.
//!
//! Every rank of a node owns one fan: 32 lines with a small place each, and 8 slots. A rank
//! publishes one line, not one per peer. Credit needs no traffic of its own: an *epoch* counts the
//! eager calls that a rank has completed on the communicator, each line carries its writer's epoch
//! in the ack word, and a line or slot may be reused when every reader's epoch has reached the call
//! that published it. Ranks that only read (a broadcast) say so by an explicit ack word every 4
//! calls, half of the slots.
//!
//! All ranks of a communicator make the same calls in the same order; so an epoch means the same
//! call everywhere. A call publishes at most one token on each fan.

use super::line::{
    Arrival, Credit, INLINE_BYTES, LINES, Line, SMALL_BYTES, SmallPlaces, TOKENS, claim,
    payload_place,
};
use crate::base::sync::MODEL;

/// The shared words of a fan.
#[repr(C, align(64))]
pub struct FanHeader {
    /// One line a token.
    pub lines: [Line; TOKENS],
    /// The owner's explicit ack, as a reader of the others.
    pub ack: Credit,
    pad: [u64; 8],
    /// Small payloads.
    small: SmallPlaces,
}

const _: () = assert!(MODEL || size_of::<FanHeader>() == 18_560);

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
            small: SmallPlaces::new(),
        }
    }
}

/// Explicit acks are written when the epoch is a multiple of this: half the slots, so that a
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
        let header = self.header();
        let (lines, slots) = (
            (&header.lines, &header.small),
            (self.slots, self.slot_bytes),
        );
        // SAFETY: the contract of `new`.
        unsafe { payload_place(lines, slots, count, bytes) }
    }
}

/// View that a rank has of one fan; on lines of its own, for ranks that are threads.
#[repr(align(128))]
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
    /// The call that last published each of this rank's lines, plus 1; 0 for never.
    published_in: [u64; TOKENS],
    /// Epoch that all readers must have reached, as this rank last asked.
    wanted: u64,
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
            published_in: [0; TOKENS],
            wanted: 0,
            slot_bytes,
        }
    }

    /// Bytes that one token can carry.
    pub fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    /// Whether this rank may publish its next token, of `bytes`: its line must be free, and if it
    /// needs one, its slot.
    #[inline]
    pub fn may_publish(&mut self, bytes: usize) -> bool {
        let count = self.members[self.me].count as usize;
        let behind = if bytes <= SMALL_BYTES { TOKENS } else { LINES };
        self.wanted = match count.checked_sub(behind) {
            Some(earlier) => self.published_in[earlier % TOKENS],
            None => 0,
        };
        self.acknowledged(self.wanted) || self.acknowledged_explicitly(self.wanted)
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

    /// The readers that hold back the token that this rank last asked for.
    pub fn holding_back(&self) -> Vec<usize> {
        let needed = self.wanted;
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
        let index = mine.count as usize % TOKENS;
        mine.count += 1;
        mine.memory.header().lines[index].publish(mine.count, signature, epoch);
        self.published_in[index] = epoch + 1;
    }

    /// Claims what this rank's next token will be written to, if it has as many bytes.
    #[inline(always)]
    pub fn claim(&self, bytes: usize) {
        let mine = &self.members[self.me];
        let line = &raw const mine.memory.header().lines[mine.count as usize % TOKENS];
        claim(line.cast(), size_of::<Line>());
        if bytes > INLINE_BYTES {
            claim(mine.memory.place(mine.count, bytes), bytes);
        }
    }

    /// Whether the next token of `writer` is there.
    #[inline]
    pub fn ready(&self, writer: usize) -> bool {
        let member = &self.members[writer];
        member.memory.header().lines[member.count as usize % TOKENS].arrived(member.count)
    }

    /// Signature and epoch of the token that is there.
    #[inline]
    pub fn arrival(&self, writer: usize) -> Arrival {
        let member = &self.members[writer];
        member.memory.header().lines[member.count as usize % TOKENS].arrival()
    }

    /// Whether the token that is there was published in the call that this rank is in. An older one
    /// is left over from a call in which this rank took another token than its writer meant.
    #[inline]
    pub fn is_of_this_call(&self, arrival: &Arrival) -> bool {
        arrival.ack == self.epoch
    }

    /// Returns the token that `writer` has published, and whether it is of an earlier call.
    #[inline(always)]
    pub fn arrival_now(&self, writer: usize) -> (Arrival, bool) {
        let arrival = self.arrival(writer);
        let is_stale = !self.is_of_this_call(&arrival);
        (arrival, is_stale)
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
        let index = member.count as usize % TOKENS;
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::line::INLINE_BYTES;
    use super::*;

    /// A root that broadcasts payloads of all sizes, and a reader that lags as far as it may.
    #[test]
    fn small_broadcasts_run_further_ahead_than_slots() {
        let headers = [FanHeader::new(), FanHeader::new()];
        let slot_bytes = 1024;
        let mut memory = vec![0u8; 2 * LINES * slot_bytes];
        let slots = memory.as_mut_ptr();
        let fans = |me| {
            let memory = |(at, header): (usize, &FanHeader)| {
                // SAFETY: each fan has its own slots; all live until the end of the test.
                unsafe { FanMemory::new(header, slots.add(at * LINES * slot_bytes), slot_bytes) }
            };
            Fans::new(me, headers.iter().enumerate().map(memory).collect())
        };
        let (mut root, mut reader) = (fans(0), fans(1));
        let seed = fastrand::u64(..);
        let mut rng = fastrand::Rng::with_seed(seed);
        let sizes = [1, INLINE_BYTES, SMALL_BYTES, 513, 1024];
        let mut under_way = std::collections::VecDeque::new();
        let mut most = [0, 0];
        for token in 0..20_000u32 {
            let small_only = token / 100 % 2 == 0;
            let bytes = sizes[rng.usize(..if small_only { 3 } else { 5 })];
            let content = token as u8 ^ (bytes % 251) as u8;
            while !root.may_publish(bytes) || rng.u8(..100) == 0 && !under_way.is_empty() {
                let (bytes, content): (usize, u8) =
                    under_way.pop_front().expect("no token is lost");
                assert!(reader.ready(0) && reader.is_of_this_call(&reader.arrival(0)));
                // SAFETY: the token is there, and was written with so many bytes.
                let found = unsafe { std::slice::from_raw_parts(reader.source(0, bytes), bytes) };
                assert!(found.iter().all(|&b| b == content), "seed {seed}, {token}");
                reader.release(0);
                reader.complete();
            }
            // SAFETY: the place is the root's.
            unsafe { root.place(bytes).write_bytes(content, bytes) };
            root.publish(7);
            root.complete();
            under_way.push_back((bytes, content));
            let reached = &mut most[usize::from(bytes <= SMALL_BYTES)];
            *reached = under_way.len().max(*reached);
        }
        assert_eq!(most, [LINES, TOKENS], "seed {seed}");
    }
}
