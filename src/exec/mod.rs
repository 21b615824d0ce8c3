//! Executors of plans. [`host`] interprets any plan on host memory; [`oneshot`] is its monomorphic
//! form for one-shot plans, for which the cost of interpretation would show, and [`messages`] that
//! for small messages; [`sim`] runs the plans of all ranks on a model of a machine.
//!
//! Data path of a call: `comm` binds a plan to buffers ([`launch`]) -> `host` or `oneshot` waits
//! for tokens and credits, folds with a kernel of `dtype`, and publishes -> `wire` hands the line
//! over. Waiting itself (spin, yield, sleep, abort) belongs to the caller, through [`Waiting`].

pub mod carried;
pub mod host;
pub mod launch;
mod lines;
pub mod messages;
pub mod oneshot;
pub mod probe;
mod reserve;
pub mod scratch;
pub mod sim;
pub mod straight;
pub mod trace;
pub mod wires;

pub use host::{LaneRun, Progress};
pub use launch::{Bound, Kernel, Launch};
pub use wires::Wires;

use crate::base::Result;

/// What an executor does when it can't move: implemented by the communicator.
pub trait Waiting {
    /// Passes a moment. `peer` is the local rank whose token or credit is missing.
    ///
    /// # Errors
    /// When the communicator was aborted, a peer died, or a limit ran out.
    fn pause(&mut self, peer: usize) -> Result<()>;
}
