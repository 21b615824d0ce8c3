//! Where launches go: streams of the engine's device, and graphs that capture them.
//!
//! **Problem.** The number of a stream does not tell it from one that is gone: a driver gives
//! numbers out again. So each call would ask anew whose stream it is, and wait for the call before,
//! which may be on another stream that had the same number.
//!
//! **Idea.** Newer drivers number streams for good ([`StreamId::lasting`]). What was asked of such
//! a number once holds as long as the process lives. A stream that is being captured is asked only
//! for its context: its flags say nothing, as a graph runs where it is launched, and a driver
//! refuses the question.

use crate::base::{Error, Result};
use crate::cuda::{Context, StreamCapture, StreamId};
use std::collections::VecDeque;

/// Streams that are remembered: a program takes few.
const REMEMBERED: usize = 16;

/// Where a launch goes, now: a call later the stream may be captured.
#[derive(Clone, Copy, Debug)]
pub struct LaunchPlace {
    /// The stream.
    pub stream: StreamId,
    /// A number that no other stream of the process ever has, where the driver tells one.
    pub lasting: Option<u64>,
    /// The capture that the stream is in.
    pub capture: Option<StreamCapture>,
}

impl LaunchPlace {
    /// A graph captures it.
    pub fn is_captured(&self) -> bool {
        self.capture.is_some()
    }

    /// Whether both are surely the same stream.
    pub fn is_the_stream(&self, lasting: Option<u64>) -> bool {
        self.lasting.is_some() && self.lasting == lasting
    }
}

/// A stream of the device.
struct KnownStream {
    lasting: u64,
    /// The legacy default stream and it wait for each other; none before somebody has asked.
    is_blocking: Option<bool>,
}

/// Streams of the device that calls were put on lately.
#[derive(Default)]
pub(super) struct KnownStreams(VecDeque<KnownStream>);

impl KnownStreams {
    /// Where a launch goes that is put on a stream.
    ///
    /// # Errors
    /// `InvalidArgument`: the stream belongs to another device. A capture elsewhere forbids its
    /// use.
    pub fn place(&mut self, context: &Context, stream: StreamId) -> Result<LaunchPlace> {
        let capture = StreamCapture::of(context, stream)?;
        let lasting = match capture {
            Some(_) => None,
            None => stream.lasting(context)?,
        };
        let place = LaunchPlace {
            stream,
            lasting,
            capture,
        };
        if self.find(lasting).is_none() {
            belongs(context, stream)?;
            if let Some(lasting) = lasting {
                self.0.truncate(REMEMBERED - 1);
                self.0.push_front(KnownStream {
                    lasting,
                    is_blocking: None,
                });
            }
        }
        Ok(place)
    }

    /// Whether the legacy default stream waits for the place's stream, and that for it. Of a stream
    /// that is captured nobody knows.
    ///
    /// # Errors
    /// The driver's.
    pub fn is_blocking(&mut self, context: &Context, place: &LaunchPlace) -> Result<bool> {
        if place.is_captured() {
            return Ok(false);
        }
        let known = self.find(place.lasting);
        if let Some(is_blocking) = known.as_ref().and_then(|known| known.is_blocking) {
            return Ok(is_blocking);
        }
        let is_blocking = place.stream.is_blocking(context)?;
        if let Some(known) = known {
            known.is_blocking = Some(is_blocking);
        }
        Ok(is_blocking)
    }

    fn find(&mut self, lasting: Option<u64>) -> Option<&mut KnownStream> {
        let lasting = lasting?;
        self.0.iter_mut().find(|known| known.lasting == lasting)
    }
}

/// An error unless the stream is one of the device.
fn belongs(context: &Context, stream: StreamId) -> Result<()> {
    let device = context.device();
    // A default stream is that of whatever context is current: here the engine's.
    if stream.is_default() || stream.context(device)?.device() == device {
        return Ok(());
    }
    Err(Error::argument(
        format!("the stream is none of CUDA device {device}, the communicator's"),
        "give a stream of the communicator's device",
    ))
}
