//! Executors of plans: what moves bytes, or only counts time.
//!
//! **Problem.** A step is data. Something must wait for its tokens, fold and publish, for any plan
//! and any size, and stop wherever something is missing. Interpretation would show in small calls.
//!
//! **Idea.** [`host`] interprets any plan on host memory; a lane can stop anywhere and go on later,
//! on another thread. [`oneshot`] does small one-shot calls without interpretation, and
//! [`messages`] small messages; tests compare their tokens with those of the plans. [`sim`] runs
//! the plans of all ranks on a model of a machine.
//!
//! Data path of a call: `comm` binds a plan to buffers ([`launch`]) -> `host` or `oneshot` waits
//! for tokens and credits, folds with a kernel of `dtype`, and publishes -> `wire` hands the line
//! over. Waiting itself (spin, yield, sleep, abort) belongs to the caller, through [`Waiting`].
//!
//! **Terms.** *Launch*: a plan with buffers, sizes, fold and connections. *Lane run*: a lane on its
//! way. *Straight*: payload that goes to another node from where it lies, without a slot.
//!
//! References: T. Hoefler, C. Siebert, A. Lumsdaine, "Group Operation Assembly Language: a flexible
//! way to express collective communication", ICPP 2009; T. Hoefler, T. Schneider, A. Lumsdaine,
//! "LogGOPSim: simulating large-scale applications in the LogGOPS model", HPDC 2010,
//! doi:10.1145/1851476.1851564.

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
