//! Host streams: calls on a stream run in order and asynchronously until `synchronize`.

use super::op::{Completion, Op};
use super::state::Inner;
use super::wait::Waiter;
use crate::base::Result;
use crate::exec::Waiting;
use crate::proxy::progress::{Engine, Work};
use std::sync::{Arc, Mutex, PoisonError};

/// An in-order queue of calls, possibly of several communicators. Cheap to clone; clones are the
/// same stream. May be shared between threads.
#[derive(Clone)]
pub struct Stream {
    last: Arc<Mutex<Option<Last>>>,
    joins: bool,
}

struct Last {
    inner: Arc<Inner>,
    completion: Arc<Completion>,
    name: &'static str,
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
        })
    }

    /// Whether messages on it join those begun before.
    #[inline]
    pub(super) fn joins(&self) -> bool {
        self.joins
    }

    /// The stream ends when `completion` does.
    pub(super) fn set_last(
        &self,
        inner: &Arc<Inner>,
        completion: Arc<Completion>,
        name: &'static str,
    ) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some(Last {
            inner: Arc::clone(inner),
            completion,
            name,
        });
    }

    /// Makes `op` the last of the stream, behind the one before.
    pub(super) fn follow(&self, inner: &Arc<Inner>, op: &mut Op) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let name = op.collective.name();
        let new = Last {
            inner: Arc::clone(inner),
            completion: Arc::clone(&op.completion),
            name,
        };
        if let Some(before) = last.replace(new)
            && before.completion.result().is_none()
        {
            op.after.push(before.completion);
        }
    }

    /// Whether two optional streams are the same.
    pub(super) fn same(a: &Option<Stream>, b: &Option<Stream>) -> bool {
        match (a, b) {
            (None, None) => true,
            (Some(a), Some(b)) => Arc::ptr_eq(&a.last, &b.last),
            _ => false,
        }
    }

    /// Whether everything on the stream has ended; drives work in flight.
    ///
    /// # Errors
    /// The error of the last call, if it failed.
    pub fn query(&self) -> Result<bool> {
        Engine::global().drive();
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match last.as_ref().and_then(|last| last.completion.result()) {
            Some(result) => result.map(|()| true),
            None => Ok(last.is_none()),
        }
    }

    /// Returns when everything that is on the stream now has ended.
    ///
    /// # Errors
    /// The error of the last call, if it failed.
    pub fn synchronize(&self) -> Result<()> {
        let (inner, completion, name) = {
            let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(last) = last.as_ref() else {
                return Ok(());
            };
            (
                Arc::clone(&last.inner),
                Arc::clone(&last.completion),
                last.name,
            )
        };
        let mut waiter = Waiter::new(&inner, (name, None));
        loop {
            if let Some(result) = completion.result() {
                return result;
            }
            if Engine::global().drive() {
                waiter.moved();
            } else if let Err(error) = waiter.pause(inner.rank as usize) {
                inner.stop(&error);
                // A stopped communicator ends all its calls at the next pass, so that none of
                // them touches a buffer after this returns.
                while completion.result().is_none() {
                    inner.pass();
                    std::thread::yield_now();
                }
                return Err(error);
            }
        }
    }
}
