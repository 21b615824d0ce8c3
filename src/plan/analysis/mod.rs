//! Freedoms of a plan beside its steps: found once when it is bound, read by every engine.
//!
//! **Problem.** Some tokens need no slot: a peer may read the data where they lie, or the network
//! may send them from there. Which ones depends on what other steps of the plan write, and not on
//! the device that runs it.
//!
//! **Idea.** Each question is a pure function of a plan. [`direct`]: may peers read the buffers of
//! the whole call? [`outlets`]: which steps send the caller's own memory as it will stay, to other
//! nodes or to ranks of this one? [`inlets`]: which connections bring only what belongs into the
//! caller's memory?
//!
//! **Terms.** *Direct*: tokens say where data lie, and slots hold no payload. *Outlet*: the operand
//! of a step whose memory the network may send without a slot.
//!
//! Reference: the races that forbid it are those of [`crate::plan::check`].

pub mod direct;
pub mod inlets;
pub mod outlets;
