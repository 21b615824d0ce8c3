//! Ranks of one communicator that share a device in this process, and on which streams their calls
//! are.
//!
//! **Problem.** The kernels of a call wait for each other. Where two ranks of it are on one stream,
//! the second kernel is behind the first, which waits for it: for ever.
//!
//! **Idea.** Each such rank has a *seat*, where it notes the stream of each of its last calls. Who
//! comes second to a stream with the same call is refused, whatever the device has done meanwhile:
//! so it does not depend on who is faster.

use super::places::LaunchPlace;
use crate::base::{Error, Result};
use crate::cuda::{Context, StreamCapture, StreamId};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

/// Calls that each rank remembers: threads of one process are hardly further apart.
const REMEMBERED: usize = 64;

/// The seat of one rank.
pub struct DeviceSeat {
    context: Arc<Context>,
    name: u128,
    rank: u32,
}

/// The stream of a call, by what decides its order beside others.
#[derive(Clone, Copy)]
struct StreamOrder {
    stream: StreamId,
    /// Default streams of threads have one name.
    thread: ThreadId,
    /// The legacy default stream waits for it, and it for that.
    is_blocking: bool,
    /// The capture that the stream is in. In a graph the streams of the capture are an order.
    capture: Option<u64>,
}

struct DeviceSeated {
    name: u128,
    device: u32,
    rank: u32,
    calls: VecDeque<(u64, StreamOrder)>,
}

static SEATS: Mutex<Vec<DeviceSeated>> = Mutex::new(Vec::new());

fn seats() -> MutexGuard<'static, Vec<DeviceSeated>> {
    SEATS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl StreamOrder {
    fn is_legacy(&self) -> bool {
        self.stream.0 < StreamId::OF_THREAD.0
    }

    /// Whether work on one waits for work on the other.
    fn is_one_with(&self, other: &StreamOrder) -> bool {
        if self.capture != other.capture {
            // A graph runs where it is launched, and who replays it does not say so here.
            return false;
        }
        match (self.is_legacy(), other.is_legacy()) {
            (true, true) => true,
            (true, false) => other.is_blocking,
            (false, true) => self.is_blocking,
            (false, false) if self.stream != other.stream => false,
            (false, false) => self.stream != StreamId::OF_THREAD || self.thread == other.thread,
        }
    }
}

impl DeviceSeat {
    /// For a rank of the communicator of this name.
    pub fn take(context: &Arc<Context>, name: u128, rank: u32) -> DeviceSeat {
        let device = context.device();
        seats().push(DeviceSeated {
            name,
            device,
            rank,
            calls: VecDeque::new(),
        });
        DeviceSeat {
            context: Arc::clone(context),
            name,
            rank,
        }
    }

    /// The rank's collective of this number goes to a stream, with which the legacy default stream
    /// waits or not.
    ///
    /// # Errors
    /// `InvalidUsage`: that of another rank of the device is on the same one.
    pub(super) fn call(&self, number: u64, place: &LaunchPlace, is_blocking: bool) -> Result<()> {
        let queue = StreamOrder {
            stream: place.stream,
            thread: thread::current().id(),
            is_blocking,
            capture: place.capture.map(StreamCapture::id),
        };
        let device = self.context.device();
        let mut seats = seats();
        let near = seats
            .iter_mut()
            .filter(|seated| (seated.name, seated.device) == (self.name, device));
        let mut taken = None;
        for seated in near {
            if seated.rank == self.rank {
                seated.calls.truncate(REMEMBERED - 1);
                seated.calls.push_front((number, queue));
                continue;
            }
            let same =
                |(call, other): &(u64, StreamOrder)| *call == number && queue.is_one_with(other);
            if seated.calls.iter().any(same) {
                taken = Some(seated.rank);
            }
        }
        let Some(other) = taken else { return Ok(()) };
        Err(Error::usage(
            format!(
                "ranks {other} and {} are both on CUDA device {device}, and their calls of one \
                 collective are on one stream: the second would wait for the first, which waits \
                 for it",
                self.rank
            ),
            "give each rank of a device a stream of its own, made with cudaStreamNonBlocking",
        ))
    }
}

impl Drop for DeviceSeat {
    fn drop(&mut self) {
        let own = (self.name, self.context.device(), self.rank);
        seats().retain(|seated| (seated.name, seated.device, seated.rank) != own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_streams_wait_for_each_other() {
        let on = |stream: u64, is_blocking: bool| StreamOrder {
            stream: StreamId(stream),
            thread: thread::current().id(),
            is_blocking,
            capture: None,
        };
        let in_capture = |id: u64| StreamOrder {
            capture: Some(id),
            ..on(4096, false)
        };
        let (legacy, named) = (on(0, true), on(1, true));
        let (own, blocking, free) = (on(2, true), on(4096, true), on(8192, false));
        let elsewhere = StreamOrder {
            thread: thread::spawn(|| thread::current().id()).join().expect("it"),
            ..own
        };
        for (one, other, wait) in [
            (legacy, named, true),
            (legacy, blocking, true),
            (legacy, own, true),
            (legacy, free, false),
            (own, own, true),
            (own, elsewhere, false),
            (blocking, blocking, true),
            (blocking, free, false),
            (own, blocking, false),
            (in_capture(1), in_capture(1), true),
            (in_capture(1), in_capture(2), false),
            (in_capture(1), on(4096, false), false),
        ] {
            assert_eq!(one.is_one_with(&other), wait, "{:?}", other.stream);
            assert_eq!(other.is_one_with(&one), wait, "{:?}", one.stream);
        }
    }
}
