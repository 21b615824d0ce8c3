//! Launches under way: which have ended, and in which order streams run them.
//!
//! Connections are used in the order of the calls, on whichever streams these come: each launch
//! waits for the one before.

use crate::base::Result;
use crate::cuda::{Context, DeviceEvent, StreamId, exchange_capture_mode_relaxed};
use std::collections::VecDeque;
use std::sync::Arc;

/// So many launches may be pending before one looks which have ended.
const MOST_PENDING: usize = 32;

/// Launches of one engine.
pub(super) struct Underway {
    context: Arc<Context>,
    /// Launches that were not seen to end, in order, each with what says that it has.
    pending: VecDeque<(u64, DeviceEvent)>,
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

    /// Before a launch on `stream`, which waits for the one before: whether that is on the same
    /// stream a number does not tell, for the driver gives those of streams that are gone out
    /// again. Returns what [`Underway::after`] marks the end with; none for what a graph captures,
    /// which runs in the order in which the program replays it.
    ///
    /// # Errors
    /// The driver refuses, as after a fault of the device. Nothing was launched then.
    pub fn before(&mut self, stream: StreamId, is_captured: bool) -> Result<Option<DeviceEvent>> {
        if is_captured {
            return Ok(None);
        }
        if self.pending.len() >= MOST_PENDING {
            self.look()?;
        }
        if let Some((_, event)) = self.pending.back() {
            event.wait_on(&self.context, stream)?;
        }
        let spare = self.spare.pop();
        spare
            .map_or_else(|| DeviceEvent::new(&self.context), Ok)
            .map(Some)
    }

    /// After a launch on `stream`, with what [`Underway::before`] gave.
    ///
    /// # Errors
    /// As there; the launch runs.
    pub fn after(&mut self, stream: StreamId, end: Option<DeviceEvent>) -> Result<()> {
        self.begun += 1;
        let Some(end) = end else {
            return Ok(());
        };
        end.record(stream).inspect_err(|_| self.is_lost = true)?;
        self.pending.push_back((self.begun, end));
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
        // A question about an event spoils a capture of the program's, unless one says so.
        let _relaxed = match self.pending.is_empty() {
            true => None,
            false => Some(exchange_capture_mode_relaxed()?),
        };
        while let Some((number, event)) = self.pending.pop_front() {
            if !event.is_over()? {
                self.pending.push_front((number, event));
                return Ok(false);
            }
            self.ended = number;
            self.spare.push(event);
        }
        if self.is_lost {
            return Ok(false);
        }
        self.ended = self.begun;
        Ok(true)
    }
}
