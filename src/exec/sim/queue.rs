//! Queue of events: earliest first, equal times in the order of insertion.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Picoseconds since the call.
pub(super) type Time = u64;

/// Picoseconds of some nanoseconds.
pub(super) fn picoseconds(ns: f64) -> Time {
    (ns * 1e3).round() as Time
}

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// A lane may go on.
    Lane(u32),
    /// A token's head reaches its next link.
    Token(u32),
}

#[derive(Default)]
pub(super) struct EventQueue {
    heap: BinaryHeap<Reverse<(Time, u64, Event)>>,
    inserted: u64,
    most: usize,
}

impl EventQueue {
    pub fn push(&mut self, time: Time, event: Event) {
        self.inserted += 1;
        self.heap.push(Reverse((time, self.inserted, event)));
        self.most = self.most.max(self.heap.len());
    }

    pub fn pop(&mut self) -> Option<(Time, Event)> {
        self.heap
            .pop()
            .map(|Reverse((time, _, event))| (time, event))
    }

    /// Whether nothing else happens up to and including `time`.
    pub fn is_free_until(&self, time: Time) -> bool {
        self.heap.peek().is_none_or(|Reverse(first)| first.0 > time)
    }

    /// Bytes it took at its largest.
    pub fn memory_bytes(&self) -> usize {
        self.most * size_of::<Reverse<(Time, u64, Event)>>()
    }
}
