//! Host streams: calls on a stream run in order and asynchronously until `synchronize`.

use super::completion::Completion;
use super::op::Op;
use super::wait::Waiter;
use crate::base::{Error, Result};
use crate::comm::calling::tally;
use crate::comm::queue::Queue;
use crate::exec::operation::outside_operations;
use crate::exec::{DeviceStream, Waiting};
use crate::proxy::progress::Engine;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// An in-order queue of calls, possibly of several communicators. Cheap to clone; clones are the
/// same stream. May be shared between threads.
#[derive(Clone)]
#[doc(hidden)]
pub struct Stream {
    last: Arc<Mutex<Option<Last>>>,
    joins: bool,
    /// The device's own stream, where it is one.
    device: Option<DeviceStream>,
}

#[derive(Clone)]
struct Last {
    /// A stream does not keep a communicator: whatever is in flight does.
    queue: Weak<Queue>,
    completion: Arc<Completion>,
    /// The other message of a SendRecv, which has an end of its own.
    half: Option<Arc<Completion>>,
    name: &'static str,
}

impl Last {
    /// `None` while it runs.
    fn result(&self) -> Option<Result<()>> {
        let result = self.completion.result()?;
        match &self.half {
            None => Some(result),
            Some(half) => Some(half.result()?.and(result)),
        }
    }

    fn wait(&self, queue: &Queue) -> Result<()> {
        let _inside = Engine::global().enter();
        let mut waiter = Waiter::new(queue, (self.name, None));
        loop {
            if let Some(result) = self.result() {
                return result;
            }
            if Engine::global().drive() {
                waiter.moved();
            } else if let Err(error) = waiter.pause(queue.blocked_on()) {
                queue.stop(&error);
                // None of its calls touches a buffer after this returns.
                while self.result().is_none() {
                    queue.let_go();
                    std::thread::yield_now();
                }
                return Err(error);
            }
        }
    }
}

impl Stream {
    /// A new, empty stream.
    ///
    /// # Errors
    /// None now; kept for streams of devices.
    pub fn new() -> Result<Stream> {
        Ok(Stream {
            last: Arc::default(),
            joins: false,
            device: None,
        })
    }

    /// A stream for one asynchronous call: it ends with that call. A message on it joins the
    /// messages that were begun before it, so that messages of several such streams progress
    /// together whatever their order.
    ///
    /// # Errors
    /// None now; kept for streams of devices.
    pub fn for_one_call() -> Result<Stream> {
        Ok(Stream {
            last: Arc::default(),
            joins: true,
            device: None,
        })
    }

    /// A stream of the communicator's device: a `cudaStream_t` or `CUstream` as a number, 0 for the
    /// default stream. Calls on it return when they are on the stream; the program waits for it by
    /// functions of the device's own library.
    pub fn of_device(raw: u64) -> Stream {
        Stream {
            last: Arc::default(),
            joins: false,
            device: Some(DeviceStream(raw)),
        }
    }

    /// The device's own stream, where it is one.
    #[inline(always)]
    pub(in crate::comm) fn device(&self) -> Option<DeviceStream> {
        self.device
    }

    /// Whether a further call may be put on it.
    ///
    /// # Errors
    /// It was made for one call, and has it.
    pub(in crate::comm) fn takes_calls(&self) -> Result<()> {
        let last = || self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match self.joins && last().is_some() {
            false => Ok(()),
            true => Err(Error::argument(
                "this stream was made for one call, as that of a request is, and has it",
                "make a stream for calls that follow each other (Stream::new), or one more for \
                 this call",
            )),
        }
    }

    /// Whether messages on it join those begun before.
    #[inline]
    pub(in crate::comm) fn joins(&self) -> bool {
        self.joins
    }

    /// The stream, of one call, ends when `completion` does, and the message before it, if any.
    pub(in crate::comm) fn set_last(
        &self,
        queue: &Arc<Queue>,
        completion: Arc<Completion>,
        name: &'static str,
    ) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let half = last.take().map(|before| before.completion);
        *last = Some(Last {
            queue: Arc::downgrade(queue),
            completion,
            half,
            name,
        });
    }

    /// Makes `op` the last of the stream, behind the one before.
    pub(in crate::comm) fn follow(&self, queue: &Arc<Queue>, op: &mut Op) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let name = op.collective.name();
        let new = Last {
            queue: Arc::downgrade(queue),
            completion: Arc::clone(&op.completion),
            half: None,
            name,
        };
        if let Some(before) = last.replace(new)
            && before.result().is_none()
        {
            op.after.extend(before.half);
            op.after.push(before.completion);
        }
    }

    /// Only streams of the host are waited for here.
    fn is_of_host(&self) -> Result<()> {
        match self.device {
            None => Ok(()),
            Some(_) => Err(Error::usage(
                "the stream is one of a GPU",
                "wait for it by cuStreamSynchronize or cudaStreamSynchronize",
            )),
        }
    }

    /// Whether both are the same stream.
    pub(in crate::comm) fn is_same(&self, other: &Stream) -> bool {
        Arc::ptr_eq(&self.last, &other.last)
    }

    /// Whether everything on the stream has ended; drives work in flight.
    ///
    /// # Errors
    /// The error of the last call, if it failed.
    pub fn query(&self) -> Result<bool> {
        self.is_of_host()?;
        outside_operations("waits for a stream")?;
        let _timed = tally::waiting(match self.joins {
            true => "Test",
            false => "StreamQuery",
        });
        Engine::global().drive();
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match last.as_ref().and_then(Last::result) {
            Some(result) => result.map(|()| true),
            None => Ok(last.is_none()),
        }
    }

    /// Returns when everything that is on the stream now has ended.
    ///
    /// # Errors
    /// The error of the last call, if it failed.
    pub fn synchronize(&self) -> Result<()> {
        self.is_of_host()?;
        outside_operations("waits for a stream")?;
        let (queue, last) = {
            let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(last) = last.as_ref() else {
                return Ok(());
            };
            let Some(queue) = last.queue.upgrade() else {
                return last.result().unwrap_or(Ok(()));
            };
            (queue, last.clone())
        };
        let _timed = tally::waiting(match self.joins {
            true => "Wait",
            false => "StreamSynchronize",
        });
        last.wait(&queue)
    }
}
