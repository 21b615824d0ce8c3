//! What works beside the callers: the service thread, and the engine of work in flight.
//!
//! - [`service`]: one thread per process that answers other processes of the machine and notices
//!   their death.
//! - [`shm`]: how the local ranks of a new communicator come to share one segment.
//! - [`progress`]: calls on streams and groups move here, whoever drives.
//! - [`lookout`]: one rank of each node watches over the other nodes.
//! - [`death`]: what to say of ranks that are gone.
//! - `attended`: what the service thread looks after besides its links.
//! - [`net`]: connections between nodes move here, whoever drives.
//! - [`asked`]: what is under way there, for who asks by a signal.
//! - `frame`, `socket`, `state`: the service's messages, its sockets, and what it knows.

pub mod asked;
mod attended;
pub mod death;
mod frame;
#[doc(hidden)]
pub mod fuzz;
pub mod lookout;
pub mod net;
mod patience;
pub mod progress;
pub mod service;
pub mod shm;
mod socket;
mod state;
mod stopped;

pub use attended::Attended;
pub use service::{OnDeath, Watch};
pub use shm::{Joined, LocalGroup, join};
