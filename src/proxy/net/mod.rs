//! The progress engine of connections between nodes.
//!
//! **Problem.** Executors move tokens through memory that both ends can address. Between nodes
//! there is none, and the network's calls must neither wait nor be made by two threads at once.
//!
//! **Idea.** Data path: executor -> slot of the connection in this node's memory -> the engine
//! reads it as a peer would -> `Net` -> the engine on the other node writes it to the same place
//! of that node's memory -> executor. An executor says beforehand how many slots will pass (an
//! *op*, by way of a bounded queue without locks); the plan knows. [`Links::pass`] looks once at
//! everything that is under way; whoever waits calls it, one thread at a time. An engine without
//! ops does nothing and costs nothing.
//!
//! - [`active`]: ops, grouped and in order.
//! - [`closing`]: how connections end.
//! - [`counts`]: how far a connection is.
//! - [`doors`]: where connections arrive while nobody is inside a call.
//! - [`ends`]: what the ends of connections are made with.
//! - [`fold`]: tokens that the network folds on their way.
//! - [`fold_links`]: the engine's part in this.
//! - [`link`]: the phases of one end of a connection.
//! - [`links`]: the engine.
//! - [`live`]: what is under way, for people who look at a job that hangs.
//! - [`local`]: ends in this node's memory, of the host or of a device.
//! - [`meet`]: how connections come about on first use.
//! - [`open`]: the listeners of a rank.
//! - [`profile`]: begin and end of what happens to each step, for profilers.
//! - [`proxied`]: engines for other ranks of the node, which send through this one (PXN).
//! - [`rails`]: over which devices connections go.
//! - [`token`]: what a token is on the network.
//! - [`trace`]: what happened, for tests.
//! - [`wanted`]: where readers want payload that needs no slot.

mod active;
mod carrier;
mod closing;
mod counts;
mod doors;
pub mod drain;
mod ends;
pub mod fold;
mod fold_links;
mod link;
mod links;
pub mod live;
mod local;
mod meet;
mod open;
pub mod profile;
pub mod proxied;
mod rails;
mod recv_link;
mod token;
pub mod trace;
mod wanted;

#[cfg(test)]
mod tests;

pub use active::{Op, Taking};
pub use ends::{Handles, Setup, Through};
pub use links::Links;
pub use open::Open;
pub use proxied::ProxiedSenders;
pub use rails::{Rail, Rails};
pub use token::SPARE_BYTES;
