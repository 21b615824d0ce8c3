//! Launches under way: which have ended, and in which order streams run them.
//!
//! Connections are used in the order of the calls, on whichever streams these come: each launch
//! waits for the one before.

use super::places::LaunchPlace;
use crate::base::Result;
use crate::cuda::{Context, DeviceEvent, StreamId, exchange_capture_mode_relaxed};
use std::collections::VecDeque;
use std::sync::Arc;

/// So many launches may be pending before one looks which have ended, at least.
const MOST_PENDING: usize = 32;

/// A launch that was not seen to end.
struct PendingLaunch {
    number: u64,
    /// Is over when the launch has ended.
    end: DeviceEvent,
    /// Lasting number of the stream that it is on.
    stream: Option<u64>,
}

/// Launches of one engine.
pub(super) struct Underway {
    context: Arc<Context>,
    /// Launches that were not seen to end, in order.
    pending: VecDeque<PendingLaunch>,
    /// So many may be pending before one looks again.
    most: usize,
    spare: Vec<DeviceEvent>,
    /// A launch runs of which nothing will say that it has ended.
    is_lost: bool,
    /// The number of the last launch, and of the last one that was seen to end.
    begun: u64,
    ended: u64,
}

impl Underway {
    /// None yet.
    pub fn new(context: &Arc<Context>) -> Underway {
        Underway {
            context: Arc::clone(context),
            pending: VecDeque::new(),
            most: MOST_PENDING,
            spare: Vec::new(),
            is_lost: false,
            begun: 0,
            ended: 0,
        }
    }

    /// The number of the launch that comes next.
    pub fn next(&self) -> u64 {
        self.begun + 1
    }

    /// Launches up to this number have ended.
    pub fn ended(&self) -> u64 {
        self.ended
    }

    /// Before a launch, which waits for the one before, unless that is surely on the same stream.
    /// Returns what [`Underway::after`] marks the end with; none for what a graph captures, which
    /// runs in the order in which the program replays it.
    ///
    /// # Errors
    /// The driver refuses, as after a fault of the device. Nothing was launched then.
    pub fn before(&mut self, to: &LaunchPlace) -> Result<Option<DeviceEvent>> {
        if to.is_captured() {
            return Ok(None);
        }
        if self.pending.len() >= self.most {
            self.look()?;
            // Each look is for as many launches as it finds unfinished.
            self.most = MOST_PENDING.max(2 * self.pending.len());
        }
        if let Some(last) = self.pending.back()
            && !to.is_the_stream(last.stream)
        {
            last.end.wait_on(&self.context, to.stream)?;
        }
        let spare = self.spare.pop();
        spare
            .map_or_else(|| DeviceEvent::new(&self.context), Ok)
            .map(Some)
    }

    /// After a launch, with what [`Underway::before`] gave.
    ///
    /// # Errors
    /// As there; the launch runs.
    pub fn after(&mut self, to: &LaunchPlace, end: Option<DeviceEvent>) -> Result<()> {
        self.begun += 1;
        let Some(end) = end else {
            return Ok(());
        };
        // The program may destroy its stream at once, so the mark cannot be set later.
        end.record(to.stream).inspect_err(|_| self.is_lost = true)?;
        self.pending.push_back(PendingLaunch {
            number: self.begun,
            end,
            stream: to.lasting,
        });
        Ok(())
    }

    /// Lets all that comes on stream `later` wait for all that is on `earlier` now.
    ///
    /// # Errors
    /// As [`Underway::before`].
    pub fn join(&mut self, earlier: StreamId, later: StreamId) -> Result<()> {
        if earlier == later {
            return Ok(());
        }
        let event = DeviceEvent::new(&self.context)?;
        event.record(earlier)?;
        event.wait_on(&self.context, later)
    }

    /// Looks which have ended; whether all have.
    ///
    /// # Errors
    /// A fault of the device.
    pub fn look(&mut self) -> Result<bool> {
        if !self.pending.is_empty() {
            // A question about an event spoils a capture of the program's, unless one says so.
            let _relaxed = exchange_capture_mode_relaxed()?;
            let context = Arc::clone(&self.context);
            let _current = context.enter()?;
            let over = self.over()?;
            for launch in self.pending.drain(..over) {
                self.ended = launch.number;
                self.spare.push(launch.end);
            }
            if !self.pending.is_empty() {
                return Ok(false);
            }
        }
        if self.is_lost {
            return Ok(false);
        }
        self.ended = self.begun;
        Ok(true)
    }

    /// How many of the pending launches have ended. They end in their order, so few questions tell.
    fn over(&self) -> Result<usize> {
        let Some(last) = self.pending.back() else {
            return Ok(0);
        };
        if last.end.is_over()? {
            return Ok(self.pending.len());
        }
        // All before `over` have ended, and none from `open` on.
        let (mut over, mut open) = (0, self.pending.len() - 1);
        while over < open {
            let middle = usize::midpoint(over, open);
            if self.pending[middle].end.is_over()? {
                over = middle + 1;
            } else {
                open = middle;
            }
        }
        Ok(over)
    }
}
