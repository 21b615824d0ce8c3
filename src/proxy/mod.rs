//! Helpers that work beside the callers: the service thread, the progress thread, and the engine
//! between nodes.
//!
//! **Problem.** Ranks must notice the death of others, calls on streams must end, and messages must
//! reach the network, while the program's own threads compute or wait elsewhere.
//!
//! **Idea.** A process has two threads for it, which sleep until there is something to do.
//!
//! - [`service`]: the thread that answers other processes of the machine and notices their death.
//!   `attended` is what it looks after besides; `frame`, `socket`, `state` are its messages, its
//!   sockets, and what it knows.
//! - [`mod@join`]: how the processes of a node come to share memory.
//! - [`progress`]: the thread that moves calls in flight, unless somebody who waits does.
//! - [`net`]: the engine of connections between nodes, whoever drives it. [`asked`] shows what is
//!   under way there, to who asks by a signal.
//! - [`inquiry`]: questions from outside, by which `kolo ras` looks into a job.
//! - [`lookout`]: one rank of each node tells the other nodes of aborts and deaths; [`death`] has
//!   the words.
//!
//! **Terms.** *Link*: a socket to another process of the machine. *Drive*: to look once at all that
//! is under way. *Posted, transmitted, done*: how far a slot has come on its way to another node.
//! *Proxy rank*: a rank that sends for others of its node. `docs/between-nodes.md` has the whole
//! way.
//!
//! The shape (a service thread, a progress engine over 8 slots) is that of NCCL's proxy.

pub mod asked;
mod attended;
pub mod death;
mod frame;
#[doc(hidden)]
pub mod fuzz;
pub mod inquiry;
pub mod join;
pub mod lookout;
pub mod net;
mod patience;
pub mod progress;
pub mod service;
mod socket;
mod state;
mod stopped;

pub use attended::Attended;
pub use join::{Joined, LocalGroup, join};
pub use patience::try_lock;
pub use service::{OnDeath, Watch};
