//! The memory that the ranks of a node share, by name instead of by offset.
//!
//! Every connection between local ranks is a position in this memory ([`crate::wire::layout`]), so
//! making one is arithmetic and no handshake: each end maps its part when it first uses it. The
//! memory is a memfd shared between processes, or ordinary memory when all ranks are threads of
//! this process.

mod source;

use super::futex::SystemFutex;
use super::homes::{self, Home, Homes};
use super::pool::Lease;
use super::room;
use super::segment::Segment;
use super::slots::Account;
use crate::base::{Code, Error, Rank, Result};
use crate::wire::abort::{Abort, AbortRecord};
use crate::wire::board::Board;
use crate::wire::doorbell::{ArmedBells, Doorbell, Fencing, OwnBell};
use crate::wire::fan::{FanMemory, Fans};
use crate::wire::layout::{ARMED_OFFSET, BOARD_BYTES, FIRST_BYTES, Layout, Part};
use crate::wire::reading::Reading;
use crate::wire::{Bell, Slots};
use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

/// The shared memory of one communicator on one node.
#[derive(Clone)]
pub struct NodeMemory {
    base: *mut u8,
    layout: Layout,
    me: usize,
    /// Who fences between what is published and a look at bells.
    fencing: Fencing,
    /// Segment of which parts are mapped, and where this memory begins there; `None` if all is.
    parts: Option<(Arc<Segment>, usize)>,
    /// Where the pages of parts are to lie.
    homes: Homes,
    /// The memory of the slots that this rank writes.
    account: Arc<Account>,
    /// Keeps the mapping alive.
    _owner: Arc<dyn Any + Send + Sync>,
}

// SAFETY: the memory is shared by construction; the protocols of `wire` decide who touches what.
unsafe impl Send for NodeMemory {}
// SAFETY: as above.
unsafe impl Sync for NodeMemory {}

/// Where the doorbell lies in a rank's part of the board.
const BELL_OFFSET: usize = 128;
/// Where its mark lies there while it reads the buffers of others.
const READING_OFFSET: usize = 192;

const _: () = assert!(BELL_OFFSET + size_of::<Doorbell>() <= READING_OFFSET);
const _: () = assert!(READING_OFFSET + size_of::<Reading>() <= BOARD_BYTES);

impl NodeMemory {
    /// Wraps memory that `owner` keeps mapped.
    ///
    /// # Safety
    /// `base` is aligned to 4,096 bytes and points to `layout.total()` bytes, zeroed before the
    /// first rank came, that stay mapped as long as `owner` lives.
    pub unsafe fn new(
        base: *mut u8,
        layout: Layout,
        me: usize,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> NodeMemory {
        NodeMemory {
            base,
            layout,
            me,
            fencing: Fencing::Publisher,
            parts: None,
            homes: Homes::default(),
            account: Arc::default(),
            _owner: owner,
        }
    }

    /// The memory from `offset` on of a leased segment that maps its parts when they are used.
    ///
    /// # Safety
    /// `offset` is a multiple of 4,096, from there on the segment's head has `layout.head()` bytes
    /// and its span `layout.total()`, and all were zeroed before the first rank came.
    pub unsafe fn of(
        (segment, lease): (Arc<Segment>, Lease),
        offset: usize,
        layout: Layout,
        me: usize,
    ) -> NodeMemory {
        NodeMemory {
            base: segment.as_ptr().wrapping_add(offset),
            layout,
            me,
            fencing: Fencing::Publisher,
            parts: Some((segment, offset)),
            homes: Homes::default(),
            account: Arc::default(),
            _owner: Arc::new(lease),
        }
    }

    /// With another fencing than that of publishers: the same on all ranks of the node, before any
    /// of them publishes.
    pub fn fenced_by(self, fencing: Fencing) -> NodeMemory {
        NodeMemory { fencing, ..self }
    }

    /// With a bound on the memory of the slots that this process writes: so many bytes for each of
    /// its `ranks`.
    pub fn bounded_by(self, of_rank: usize, ranks: usize) -> NodeMemory {
        NodeMemory {
            account: Arc::new(Account::new(of_rank, ranks)),
            ..self
        }
    }

    /// With the NUMA nodes of all ranks of the layout, before any of them writes: what this one
    /// writes in the head is to lie on its own, and from now on a part on that of its writer.
    pub fn homed_at(self, homes: Homes) -> NodeMemory {
        if let Some(home) = homes.of_rank(self.me) {
            let layout = &self.layout;
            let headers = [self.me, self.me + 1].map(|rank| layout.fan_header(rank));
            let slots = [self.me, self.me + 1].map(|rank| layout.fan_data(rank));
            for ends in [headers, slots] {
                // A page that two ranks share is that of the lower one.
                let page = room::page_bytes();
                let [first, end] = ends.map(|at| at.next_multiple_of(page));
                // SAFETY: whole pages of the head, which is mapped.
                unsafe { homes::prefer(self.at(first), end - first, home) };
            }
        }
        NodeMemory { homes, ..self }
    }

    /// Who fences between what is published and a look at bells.
    pub fn fencing(&self) -> Fencing {
        self.fencing
    }

    #[inline(always)]
    fn at(&self, offset: usize) -> *mut u8 {
        // SAFETY: offsets in the head are in what is mapped.
        unsafe { self.base.add(offset) }
    }

    /// The first byte of a part of the layout, mapped on first use with the memory of its first
    /// `ready` bytes. Its pages come from `home`, where that is said.
    fn part(
        &self,
        part: &Part,
        ready: usize,
        home: Option<Home>,
        what: &dyn Fn() -> String,
    ) -> Result<*mut u8> {
        match &self.parts {
            None => Ok(self.at(part.offset)),
            Some((segment, start)) => {
                let place = (start + part.offset, part.bytes);
                segment.part(place, ready, home, &what())
            }
        }
    }

    /// Sizes and positions.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Why some rank stopped the communicator, if one did.
    #[inline(always)]
    pub fn abort_record(&self) -> &AbortRecord {
        // SAFETY: the record is at the start; zero is a valid state; it is only ever shared.
        unsafe { &*self.base.cast::<AbortRecord>() }
    }

    /// The board of a local rank.
    #[inline(always)]
    pub fn board(&self, local: usize) -> &Board {
        // SAFETY: the layout has a board for every rank; zero is valid; only ever shared.
        unsafe { &*self.at(self.layout.board(local)).cast::<Board>() }
    }

    /// The doorbell of a local rank.
    #[inline(always)]
    pub fn bell(&self, local: usize) -> &Doorbell {
        // SAFETY: the second half of a rank's board is its doorbell; zero is valid; only shared.
        unsafe {
            &*self
                .at(self.layout.board(local) + BELL_OFFSET)
                .cast::<Doorbell>()
        }
    }

    /// How many ranks sleep or are about to.
    #[inline(always)]
    fn armed_bells(&self) -> &ArmedBells {
        // SAFETY: a line of the layout that nothing else uses; zero is valid; only ever shared.
        unsafe { &*self.at(ARMED_OFFSET).cast::<ArmedBells>() }
    }

    /// The doorbell of a local rank, for itself to sleep on.
    pub fn own_bell(&self, local: usize) -> OwnBell<'_> {
        OwnBell {
            bell: self.bell(local),
            count: Some(self.armed_bells()),
            fencing: self.fencing,
        }
    }

    /// Whether a local rank reads buffers of others now.
    pub fn reading(&self, local: usize) -> &Reading {
        // SAFETY: the last quarter of a rank's board; zero is valid; only ever shared.
        unsafe {
            &*self
                .at(self.layout.board(local) + READING_OFFSET)
                .cast::<Reading>()
        }
    }

    /// Whether some rank has aborted: one load.
    #[inline(always)]
    pub fn aborted(&self) -> bool {
        self.abort_record().is_set()
    }

    /// Tells all ranks of the node that `rank` stops because of `error`, and wakes them.
    pub fn abort(&self, rank: u32, error: &Error) {
        self.set_abort(&Abort {
            code: error.code as u32,
            rank,
            peer: error.peer.map(|peer| peer.0),
            text: match &error.operation {
                Some(operation) => format!("{operation}: {}", error.what),
                None => error.what.clone(),
            },
        });
    }

    /// Tells all ranks of the node of an abort, and wakes them.
    pub fn set_abort(&self, abort: &Abort) {
        self.abort_record().set(abort);
        for local in 0..self.layout.ranks {
            self.bell(local).ring(Fencing::Publisher, &SystemFutex);
        }
    }

    /// Wakes all other ranks of the node.
    pub fn wake_others(&self) {
        self.ring_others();
    }

    /// Why some rank aborted, as an error for this rank.
    pub fn abort_reason(&self) -> Option<Error> {
        let abort = self.abort_record().get()?;
        let unnamed = abort.peer.filter(|&peer| !names(&abort.text, peer));
        let concerns =
            unnamed.map_or_else(String::new, |peer| format!(" (it concerns rank {peer})"));
        let mut error = Error::new(
            Code::RemoteError,
            format!(
                "rank {} stopped the communicator: {}{concerns}",
                abort.rank, abort.text
            ),
            match (Code::from_number(abort.code as i32), abort.peer) {
                (Some(Code::InvalidUsage | Code::InvalidArgument), _) => {
                    "see the message of that rank, and make all ranks call the same operations"
                }
                (Some(Code::RemoteError), Some(_)) => {
                    "see the message of that rank; then end the job, or make a new communicator \
                     without the failed rank"
                }
                _ => "see the message of that rank; then end the job, or make a new communicator",
            },
        );
        error.peer = Some(Rank(abort.peer.unwrap_or(abort.rank)));
        Some(error)
    }

    /// The fans of all local ranks.
    pub fn fans(&self) -> Fans {
        let fan = |writer: usize| {
            let header = self.at(self.layout.fan_header(writer));
            let slots = self.at(self.layout.fan_data(writer));
            // SAFETY: positions of the layout, zeroed, mapped while `_owner` lives, which the
            // communicator keeps longer than its fans.
            unsafe { FanMemory::new(header.cast(), slots, self.layout.eager_bytes) }
        };
        Fans::new(self.me, (0..self.layout.ranks).map(fan).collect())
    }
}

/// Whether a sentence names a rank.
fn names(text: &str, rank: u32) -> bool {
    let name = format!("rank {rank}");
    let mut found = text.match_indices(&name);
    found.any(|(at, _)| !text[at + name.len()..].starts_with(|c: char| c.is_ascii_digit()))
}

/// A connection, for messages.
fn pair_name(writer: usize, reader: usize, channel: usize) -> String {
    format!("the connection from rank {writer} to rank {reader} on channel {channel}")
}

fn cast_name(writer: usize, channel: usize, cast: usize) -> String {
    format!("cast {cast} of rank {writer} on channel {channel}")
}

impl NodeMemory {
    fn check(&self, ranks: &[usize], channel: usize) -> Result<()> {
        let layout = &self.layout;
        if ranks.iter().all(|&rank| rank < layout.ranks) && channel < layout.channels {
            return Ok(());
        }
        let what = format!("there is no connection between ranks {ranks:?} on channel {channel}");
        Err(Error::internal(what))
    }
}

impl NodeMemory {
    /// The part of what this rank writes, where that lies there, and the name of the connection.
    fn area(&self, slots: Slots) -> Result<(Part, Range<usize>, String)> {
        let (layout, me) = (&self.layout, self.me);
        let (part, name) = match slots {
            Slots::Cast { channel, cast } => {
                self.check(&[], channel)?;
                (layout.cast(me, channel, cast), cast_name(me, channel, cast))
            }
            Slots::Pair { reader, channel }
            | Slots::Small { reader, channel }
            | Slots::Words {
                reader, channel, ..
            } => {
                self.check(&[reader], channel)?;
                let part = match slots {
                    Slots::Words { encoding, .. } => layout.lines((me, reader), channel, encoding),
                    _ => layout.pair(me, reader, channel),
                };
                (part, pair_name(me, reader, channel))
            }
        };
        let area = match slots {
            Slots::Small { .. } => FIRST_BYTES..part.header_bytes,
            _ => part.header_bytes..part.bytes,
        };
        Ok((part, area, name))
    }

    /// Wakes who sleeps of all other ranks.
    #[cold]
    fn wake_sleepers(&self) {
        for local in (0..self.layout.ranks).filter(|&local| local != self.me) {
            self.bell(local).ring_fenced(&SystemFutex);
        }
    }
}

impl Bell for NodeMemory {
    #[inline(always)]
    fn ring(&self, local: usize) {
        self.bell(local).ring(self.fencing, &SystemFutex);
    }

    #[inline(always)]
    fn ring_others(&self) {
        self.fencing.published();
        if self.armed_bells().any() {
            self.wake_sleepers();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Source;
    use crate::wire::layout::{ENCODINGS, SMALL_AREA_BYTES};

    /// Pages that tokens touch are taken before, and those that were given back are taken anew.
    #[test]
    fn flagged_lines_and_small_places_have_the_memory_that_tokens_touch() {
        let layout = Layout {
            ranks: 2,
            channels: 2,
            slot_bytes: 4096,
            eager_bytes: 4096,
        };
        let lengths = (layout.head(), layout.total());
        let (segment, _file) = Segment::create(lengths, 0, 1).unwrap();
        let segment = Arc::new(segment);
        let pool = Arc::clone(segment.region().expect("a pool").0);
        // SAFETY: the head and the span are those of the layout, from the beginning on.
        let memory = unsafe { NodeMemory::of((segment, Lease::of(None)), 0, layout, 1) };
        let first = FIRST_BYTES as u64;
        let (reader, channel) = (0, 1);
        let begun = |areas: &[(Slots, Range<usize>)], before: u64| {
            assert_eq!(pool.bytes().unwrap() - before, first);
            for _ in 0..2 {
                for (slots, place) in areas {
                    let before = pool.bytes().unwrap();
                    memory.reserve(*slots, place.clone()).unwrap();
                    let taken = pool.bytes().unwrap() - before;
                    assert_eq!(taken, place.len() as u64, "{slots:?}");
                }
                for (slots, place) in areas {
                    assert!(memory.give_back(*slots, place.len()), "{slots:?}");
                }
                assert_eq!(pool.bytes().unwrap() - before, first);
            }
        };
        for encoding in 0..ENCODINGS {
            let before = pool.bytes().unwrap();
            memory.lines(1, reader, channel, encoding).unwrap();
            let words = Slots::Words {
                reader,
                channel,
                encoding,
            };
            begun(&[(words, 16384..20480)], before);
        }
        let before = pool.bytes().unwrap();
        memory.pair(1, reader, channel).unwrap();
        let small = Slots::Small { reader, channel };
        let slots = Slots::Pair { reader, channel };
        begun(&[(small, 0..SMALL_AREA_BYTES), (slots, 0..8192)], before);
        let before = pool.bytes().unwrap();
        memory.take_small(1, reader, channel).unwrap();
        assert_eq!(pool.bytes().unwrap() - before, SMALL_AREA_BYTES as u64);
    }

    /// Machines with one NUMA node refuse a second one, so only that of rank 0 is seen there.
    #[test]
    fn what_a_rank_writes_prefers_its_numa_node() {
        if homes::policy([0u8].as_ptr()).is_none() {
            return crate::base::skip::skip("mbind", "the system forbids it");
        }
        let layout = Layout {
            ranks: 3,
            channels: 1,
            slot_bytes: 4096,
            eager_bytes: 4096,
        };
        let (segment, _file) = Segment::create((layout.head(), layout.total()), 0, 1).unwrap();
        let segment = Arc::new(segment);
        let memory = |me: usize| {
            let lease = Lease::of(None);
            // SAFETY: the head and the span are those of the layout, from the beginning on.
            let memory = unsafe { NodeMemory::of((Arc::clone(&segment), lease), 0, layout, me) };
            memory.homed_at(Homes::of([Some(0), Some(1), None]))
        };
        let is_at_home = |at: *const u8| homes::policy(at) == Some((libc::MPOL_PREFERRED, 1));
        let (zero, one) = (memory(0), memory(1));
        let head = |memory: &NodeMemory, offset| is_at_home(memory.at(offset));
        let fans = [0, 1].map(|rank| [layout.fan_header(rank) + 4096, layout.fan_data(rank)]);
        assert_eq!(fans[0].map(|at| head(&zero, at)), [true; 2]);
        assert_eq!(fans[1].map(|at| head(&one, at)), [false; 2]);
        assert!(!head(&zero, layout.board(0)), "all ranks share its page");
        // Of a pair the writer counts, whoever comes first, and of one from elsewhere the reader.
        for (writer, reader, is) in [(0, 1, true), (1, 0, false), (2, 0, true), (2, 1, false)] {
            for memory in [&one, &zero] {
                memory.pair(writer, reader, 0).unwrap();
                memory.lines(writer, reader, 0, 1).unwrap();
                let parts = [
                    layout.pair(writer, reader, 0),
                    layout.lines((writer, reader), 0, 1),
                ];
                for part in parts {
                    let base = memory.part(&part, 0, None, &String::new).unwrap();
                    assert_eq!(is_at_home(base), is, "{writer} to {reader}");
                }
            }
        }
        // Whoever has the memory next, and no home, is given none of an earlier one.
        // SAFETY: the head and the span are those of the layout, from the beginning on.
        let next = unsafe { NodeMemory::of((Arc::clone(&segment), Lease::of(None)), 0, layout, 0) };
        let next = next.homed_at(Homes::of([None, Some(0), None]));
        assert!(!head(&next, layout.fan_data(0)));
        for (writer, is) in [(0, true), (1, false)] {
            one.cast(writer, 0, 0).unwrap();
            let base = one.part(&layout.cast(writer, 0, 0), 0, None, &String::new);
            assert_eq!(is_at_home(base.unwrap()), is, "cast of {writer}");
        }
    }

    #[test]
    fn a_sentence_names_a_rank_by_its_whole_number() {
        assert!(names("rank 12 and rank 1 differ", 1));
        assert!(!names("rank 12 died", 1) && !names("", 0));
    }
}
