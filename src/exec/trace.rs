//! The one hook of instrumentation: which tokens moved, in which order.

use crate::plan::Link;

/// A token that moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// This rank published a slice.
    Publish {
        /// On this connection.
        link: Link,
        /// Of this many bytes.
        bytes: usize,
    },
    /// This rank gave a slice back.
    Release {
        /// On this connection.
        link: Link,
        /// Of this many bytes.
        bytes: usize,
    },
}

/// Hears of every token. The empty implementation for `()` costs nothing.
pub trait Tracer {
    /// A token moved.
    #[inline(always)]
    fn event(&mut self, event: Event) {
        let _ = event;
    }
}

impl Tracer for () {}

impl Tracer for Vec<Event> {
    fn event(&mut self, event: Event) {
        self.push(event);
    }
}
