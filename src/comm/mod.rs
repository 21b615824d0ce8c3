//! Communicators: what the bindings call.
//!
//! **Problem.** A call must reach its first cache line in a few hundred instructions, and yet run
//! at once, on a stream or in a group, end when a peer dies, and say which rank is at fault.
//!
//! **Idea.** A call takes this way: [`Communicator::enqueue`] ([`calling`]) checks the arguments,
//! its [`crate::tune::route`] says which way it goes, and it runs on the calling thread. Groups
//! ([`mod@group`]) and streams ([`Stream`]) put ops into the communicator's queue instead, which
//! whoever waits drives ([`flight`]). How a communicator is made stands in [`start`], what
//! happens when something goes wrong in [`failing`], the safe calls in [`faces`]. What all of them
//! work on is [`state`]. `docs/calls.md` tells it in order.
//!
//! **Terms.** *Op*: a call in flight. *Owner*: the thread that may touch the connections now.
//! *Card*: what a rank says of its buffers before a call that may be direct. *Mate*: a rank of this
//! node.
//!
//! Reference: the shape of the interface (communicators, unique ids, group calls, streams) is that
//! of the NCCL User Guide; that of vector and neighbour calls is that of the MPI standard.

mod start;
mod calling;
mod communicator;
mod faces;
mod failing;
mod flight;
#[doc(hidden)]
pub mod fuzz;
mod handle;
pub mod logging;
mod owned;
mod registered;
mod registrations;
mod state;

pub use start::begun::Starting;
pub use start::{orders, stores, tuning};
pub use calling::group;
pub use faces::safe;
pub use faces::shared_buffer::SharedBuffer;

pub use crate::exec::CommDevice;
pub use calling::call::{Call, Collective, NO_RANK};
#[doc(hidden)]
pub use calling::exact::{ExactLaunch, exact_launches};
pub use calling::graph::Graph;
pub use calling::handles::RedOp;
pub use calling::query::Way;
#[doc(hidden)]
pub use calling::query::asked_of;
pub use calling::vector::{Blocks, VectorCall};
pub use flight::stream::Stream;
pub use flight::turn::IdleHook;
pub use handle::{CommConfig, Communicator};
pub use registrations::RegisteredBuffer;
