//! Calls on their way: ops in the communicator's queue, who drives them, and how a rank waits.
//!
//! Whoever waits in kolo drives all that is in flight ([`drive`], [`wait`]); the owner lock
//! ([`lock`]) says who may touch the connections now.

pub(in crate::comm) mod completion;
pub(in crate::comm) mod direct;
pub(in crate::comm) mod drive;
pub(in crate::comm) mod lock;
pub(in crate::comm) mod moving;
pub(in crate::comm) mod op;
pub(in crate::comm) mod order;
pub(in crate::comm) mod relief;
pub(in crate::comm) mod stream;
pub(in crate::comm) mod turn;
#[cfg(test)]
mod turn_tests;
pub(in crate::comm) mod wait;
