//! Communicators: what the bindings call.
//!
//! **Problem.** A call must reach its first cache line in a few hundred instructions, and yet run
//! at once, on a stream or in a group, end when a peer dies, and say which rank is at fault.
//!
//! **Idea.** A communicator is objects that know only those below: an [`identity`], which never
//! changes; its [`health`], which every wait looks at; its [`queue`], which one thread at a time
//! owns. A call is checked, its [`crate::tune::route`] says which way it goes ([`calling`]), and it
//! runs on the calling thread. Groups ([`mod@group`]) and streams ([`Stream`]) put ops into the
//! queue instead, which whoever waits drives ([`flight`]). How a communicator is made stands in
//! [`start`], what happens when something goes wrong in [`failing`], what programs call in
//! [`communicator`] and [`faces`]. `docs/comm.md` draws it.
//!
//! **Terms.** *Op*: a call in flight. *Owner*: the thread that may touch the connections now.
//! *Card*: what a rank says of its buffers before a call that may be direct. *Mate*: a rank of this
//! node.
//!
//! Reference: the shape of the interface (communicators, unique ids, group calls, streams) is that
//! of the NCCL User Guide; that of vector and neighbour calls is that of the MPI standard.

mod calling;
mod comm_config;
mod communicator;
mod faces;
mod failing;
mod flight;
#[doc(hidden)]
pub mod fuzz;
mod health;
mod identity;
pub mod logging;
mod network;
mod owned;
mod queue;
mod registered;
mod registrations;
mod start;

pub use calling::group;
pub use faces::shared_buffer::SharedBuffer;
#[doc(hidden)]
pub use start::meet::place;
pub use start::{orders, stores, tuning};

pub use crate::exec::CommDevice;
pub use calling::call::{Call, Collective, NO_RANK};
#[doc(hidden)]
pub use calling::enqueue::enqueue;
#[doc(hidden)]
pub use calling::exact::{ExactLaunch, exact_launches};
pub use calling::handles::RedOp;
pub use calling::query::Way;
#[doc(hidden)]
pub use calling::query::asked_of;
pub use calling::vector::Blocks;
pub use comm_config::CommConfig;
pub use communicator::{Communicator, Graph, Scope, Starting};
#[doc(hidden)]
pub use faces::inspect::Inspect;
#[doc(hidden)]
pub use faces::raw::{RawCalls, VectorCall};
pub use flight::stream::Stream;
pub use flight::turn::IdleHook;
pub use registrations::RegisteredBuffer;
