//! The launches of one call, or of a bundle of messages, on their way on host memory.

use super::interpreter::LaneRun;
use super::launch::Launch;
use super::schedule::Schedule;
use crate::plan::Window;

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
}

/// One lane of one launch.
pub(super) struct Run {
    pub launch: usize,
    pub lane: LaneRun,
}

impl HostFlight {
    /// Forgets the launches, which have ended, and keeps their memory.
    pub fn clear(&mut self) {
        self.launches.clear();
        self.runs.clear(SPARE_RUNS);
        self.stamp = 0;
        self.eager = false;
    }

    /// Lanes that were added so far: the number of the next one.
    pub fn lanes(&self) -> usize {
        self.runs.len()
    }

    /// Whether peers may be reading the buffers of a launch, or writing into them.
    pub fn is_direct(&self) -> bool {
        self.launches.iter().any(|launch| launch.direct.is_some())
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
