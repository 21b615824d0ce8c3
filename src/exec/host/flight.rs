//! The launches of one call, or of a bundle of messages, on their way on host memory.

use super::cards::ShownBuffers;
use super::interpreter::LaneRun;
use super::launch::Launch;
use super::schedule::Schedule;
use crate::plan::{Cards, Window};

/// Lane runs that a flight keeps for the next call.
const SPARE_RUNS: usize = 64;

/// Launches that are on their way together: all their lanes move as they can.
#[derive(Default)]
pub struct HostFlight {
    pub(super) launches: Vec<Launch>,
    pub(super) runs: Schedule<Run>,
    /// Which entries of [`super::schedule::Latest`] are this flight's; 0 before the first message.
    pub(super) stamp: u64,
    /// Fans were used: an epoch ends with the flight.
    pub(super) eager: bool,
    /// The call that may be direct, if it is one.
    pub(super) shown: ShownBuffers,
}

/// One lane of one launch.
pub(super) struct Run {
    pub launch: usize,
    pub lane: LaneRun,
}

impl HostFlight {
    /// Forgets the call, which has ended, and keeps memory.
    pub fn clear(&mut self) {
        self.shown.clear();
        self.clear_launches();
    }

    /// Forgets the launches, which have ended, and keeps their memory.
    pub(super) fn clear_launches(&mut self) {
        self.launches.clear();
        self.runs.clear(SPARE_RUNS);
        self.stamp = 0;
        self.eager = false;
    }

    /// Lanes that were added so far: the number of the next one.
    pub fn lanes(&self) -> usize {
        self.runs.len()
    }

    /// Whether peers may be reading its buffers, or writing into them.
    pub fn is_direct(&self) -> bool {
        let direct = |launch: &Launch| launch.direct.is_some() || launch.near.is_some();
        self.shown.exposed.is_some() || self.launches.iter().any(direct)
    }

    /// The memory of this rank into which peers may be writing: first byte, length.
    pub fn written(&self) -> impl Iterator<Item = (*mut u8, usize)> {
        let parts = self.shown.exposed.into_iter().flatten();
        parts.map(|(address, bytes)| (std::ptr::with_exposed_provenance_mut(address), bytes))
    }

    /// Has the call that may be direct show its cards: its turn was taken already.
    pub fn decide_to_show(&mut self) {
        if let Some(order) = &mut self.shown.order {
            order.is_decided = true;
        }
    }

    /// The answer of its cards, if they have given it.
    pub fn said(&self) -> Option<Cards> {
        self.shown.said
    }

    pub(super) fn push(&mut self, lane: usize, window: Window, after: Option<usize>) {
        let launch = self.launches.len();
        let new = || Run {
            launch,
            lane: LaneRun::new(lane, window),
        };
        self.runs.push(after, new, |run| {
            run.launch = launch;
            run.lane.restart(lane, window);
        });
    }
}
