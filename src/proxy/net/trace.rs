//! Record of what the engine did, in order: for tests, and for whoever wants to see it.

use crate::base::Rank;
use crate::plan::Direction;

/// A phase that a token passed; see [`super::link`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// An operation was taken over from its caller; the count is that of its slots.
    Appended,
    /// There is room for it.
    Posted,
    /// It has arrived from the network.
    Received,
    /// It may be read.
    Flushed,
    /// Its payload needs no slot: the one of the caller is used.
    Straight,
    /// It was handed to the network, or published to its reader.
    Transmitted,
    /// Its slot is free again.
    Done,
}

/// One step of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Which way.
    pub direction: Direction,
    /// The other rank.
    pub peer: Rank,
    /// The phase that a token has passed.
    pub phase: Phase,
    /// Slots that have come so far.
    pub count: u64,
}

/// A recorder, which records nothing unless it was switched on.
#[derive(Debug, Default)]
pub struct Trace(Option<Vec<Event>>);

impl Trace {
    /// Records from now on.
    pub fn switch_on(&mut self) {
        self.0 = Some(Vec::new());
    }

    /// Takes out what was recorded since the last time.
    pub fn take(&mut self) -> Vec<Event> {
        self.0.as_mut().map(std::mem::take).unwrap_or_default()
    }

    #[inline]
    pub(super) fn note(&mut self, direction: Direction, peer: Rank, phase: Phase, count: u64) {
        if let Some(events) = &mut self.0 {
            events.push(Event {
                direction,
                peer,
                phase,
                count,
            });
        }
    }
}
