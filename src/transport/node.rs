//! The memory that the ranks of a node share, by name instead of by offset.
//!
//! Every connection between local ranks is a position in this memory ([`crate::wire::layout`]), so
//! making one is arithmetic: no handshake, no system call. The memory is a memfd shared between
//! processes, or ordinary memory when all ranks are threads of this process.

use super::futex::SystemFutex;
use crate::base::{Code, Error, Rank};
use crate::wire::board::{Abort, AbortRecord, Board};
use crate::wire::cast::CastMemory;
use crate::wire::doorbell::Doorbell;
use crate::wire::fan::{FanMemory, Fans};
use crate::wire::layout::{ENCODINGS, Layout};
use crate::wire::ll::LinesMemory;
use crate::wire::pair::PairMemory;
use crate::wire::{Bell, Source};
use std::any::Any;
use std::sync::Arc;

/// The shared memory of one communicator on one node.
#[derive(Clone)]
pub struct NodeMemory {
    base: *mut u8,
    layout: Layout,
    me: usize,
    /// Keeps the mapping alive.
    _owner: Arc<dyn Any + Send + Sync>,
}

// SAFETY: the memory is shared by construction; the protocols of `wire` decide who touches what.
unsafe impl Send for NodeMemory {}
// SAFETY: as above.
unsafe impl Sync for NodeMemory {}

/// Where the doorbell lies in a rank's part of the board.
const BELL_OFFSET: usize = 128;

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
            _owner: owner,
        }
    }

    #[inline(always)]
    fn at(&self, offset: usize) -> *mut u8 {
        // SAFETY: every offset of the layout is below `layout.total()`.
        unsafe { self.base.add(offset) }
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
            self.bell(local).ring(&SystemFutex);
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
            "see the message of that rank; then end the job, or make a new communicator \
             without the failed rank",
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

impl Source for NodeMemory {
    fn pair(&self, writer: usize, reader: usize, channel: usize) -> Option<PairMemory> {
        let layout = &self.layout;
        if writer >= layout.ranks || reader >= layout.ranks || channel >= layout.channels {
            return None;
        }
        let header = self.at(layout.pair_header(writer, reader, channel));
        let slots = self.at(layout.pair_data(writer, reader, channel));
        // SAFETY: positions of the layout, zeroed, mapped while `_owner` lives, which the
        // communicator keeps longer than its connections.
        Some(unsafe { PairMemory::new(header.cast(), slots, layout.slot_bytes) })
    }

    fn lines(
        &self,
        writer: usize,
        reader: usize,
        channel: usize,
        encoding: usize,
    ) -> Option<LinesMemory> {
        let layout = &self.layout;
        let known = writer < layout.ranks && reader < layout.ranks && channel < layout.channels;
        if !known || encoding >= ENCODINGS {
            return None;
        }
        let credit = self.at(layout.lines_credit((writer, reader), channel, encoding));
        let words = self.at(layout.lines_data((writer, reader), channel, encoding));
        // SAFETY: as above; each encoding has a position of its own.
        Some(unsafe { LinesMemory::new(credit.cast(), words.cast()) })
    }

    fn cast(&self, writer: usize, channel: usize) -> Option<CastMemory> {
        let layout = &self.layout;
        if writer >= layout.ranks || channel >= layout.channels {
            return None;
        }
        let header = self.at(layout.cast_header(writer, channel));
        let tails = self.at(layout.cast_tail(writer, channel)).cast_const();
        let slots = self.at(layout.cast_data(writer, channel));
        let tails = (tails.cast(), layout.ranks);
        // SAFETY: as above; there is a tail for each rank.
        Some(unsafe { CastMemory::new(header.cast(), tails, slots, layout.slot_bytes) })
    }
}

impl Bell for NodeMemory {
    #[inline(always)]
    fn ring(&self, local: usize) {
        self.bell(local).ring(&SystemFutex);
    }

    #[inline(always)]
    fn ring_others(&self) {
        crate::base::sync::fence(crate::base::sync::Ordering::SeqCst);
        for local in (0..self.layout.ranks).filter(|&local| local != self.me) {
            self.bell(local).ring_fenced(&SystemFutex);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_names_a_rank_by_its_whole_number() {
        assert!(names("rank 12 and rank 1 differ", 1));
        assert!(!names("rank 12 died", 1) && !names("", 0));
    }
}
