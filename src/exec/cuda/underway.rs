//! Launches under way: which have ended, and in which order streams run them.
//!
//! Connections are used in the order of the calls. Launches of one stream run so by themselves;
//! when a call comes on another stream, that one waits for the launch before.

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
    /// Where the last launch went.
    last: Option<StreamId>,
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
            last: None,
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

    /// Before a launch on `stream`: it waits for the one before, where that is on another stream.
    /// What a graph captures is in the order in which the program replays it.
    ///
    /// # Errors
    /// The driver refuses, as after a fault of the device.
    pub fn before(&mut self, stream: StreamId, is_captured: bool) -> Result<()> {
        // The default stream of a thread has the same number in every thread.
        let is_same = self.last == Some(stream) && !stream.is_of_thread();
        if is_captured || is_same {
            return Ok(());
        }
        match self.pending.back() {
            Some((_, event)) => event.wait_on(&self.context, stream),
            None => Ok(()),
        }
    }

    /// After a launch on `stream`. What a graph captures runs later, and is none of these.
    ///
    /// # Errors
    /// As [`Underway::before`].
    pub fn after(&mut self, stream: StreamId, is_captured: bool) -> Result<()> {
        self.begun += 1;
        if is_captured {
            return Ok(());
        }
        if self.pending.len() >= MOST_PENDING {
            self.look()?;
        }
        let event = match self.spare.pop() {
            Some(event) => event,
            None => DeviceEvent::new(&self.context)?,
        };
        event.record(stream)?;
        self.pending.push_back((self.begun, event));
        self.last = Some(stream);
        Ok(())
    }

    /// What comes on stream `later` waits for what is on `earlier` now.
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
        self.ended = self.begun;
        Ok(true)
    }
}
