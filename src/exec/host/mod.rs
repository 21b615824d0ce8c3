//! The engine of host memory.
//!
//! **Problem.** A step is data. Something must wait for its tokens, fold and publish, for any plan
//! and any size, and stop wherever something is missing. Interpretation would show in small calls.
//!
//! **Idea.** [`interpreter`] runs any plan: a lane can stop anywhere and go on later, on another
//! thread. Beside it are two short executors, without interpretation: [`oneshot`] does small
//! one-shot calls, and [`exchange`] what is a message or some, of which [`message`] moves the
//! tokens; tests compare them with those of the plans. [`engine`] is what communicators see of it.
//!
//! Buffers that are read where they lie need no slots ([`direct`]); whether they can be is asked by
//! [`cards`], before the call and inside of its flight. In jobs on several nodes each token says
//! whether its payload is read so ([`near`]).
//!
//! **Terms.** *Launch*: a plan with buffers, sizes, fold and connections. *Flight*: launches on
//! their way together. *Lane run*: a lane on its way. *Kernel*: the fold functions of one type and
//! operation. *Straight*: payload that goes to another node from where it lies, without a slot.
//!
//! Reference: T. Hoefler, C. Siebert, A. Lumsdaine, "Group Operation Assembly Language: a flexible
//! way to express collective communication", ICPP 2009.

pub mod cards;
pub mod carried;
mod direct;
pub mod engine;
pub mod exchange;
mod flight;
mod interpreter;
pub mod kernel;
mod lane;
pub mod launch;
mod lists;
mod message;
mod near;
pub mod oneshot;
mod packed;
mod private;
pub mod probe;
pub mod ran;
mod schedule;
pub mod scratch;
pub mod shown;
mod straight;
pub mod trials;
pub mod wires;

pub use engine::HostEngine;
pub use flight::HostFlight;
pub use interpreter::LaneRun;
pub use kernel::Kernel;
pub use launch::{Bound, Launch};
pub use wires::Wires;
