//! From a call of the program to its route: what is asked, whether it may be, which way it goes.
//!
//! The asked call ([`call`]) becomes one whose arguments hold ([`mod@checked`], [`buffers`]). It
//! takes the owner lock, begins ([`begin`]: it is counted and signed), and goes by its route
//! ([`crate::tune::route`]): the shortest ones at once ([`enqueue`]), others by
//! [`routed`], or as ops for the queue ([`ops`]). Groups ([`mod@group`]) take calls down and begin
//! them together. All are functions over the [`Queue`](super::queue::Queue) of the communicator.

pub(in crate::comm) mod begin;
pub(in crate::comm) mod buffers;
pub(in crate::comm) mod call;
pub(in crate::comm) mod checked;
pub(in crate::comm) mod compared;
pub(in crate::comm) mod compose;
pub(in crate::comm) mod device;
pub(in crate::comm) mod edges;
pub(in crate::comm) mod enqueue;
pub(in crate::comm) mod exact;
pub(in crate::comm) mod exact_calls;
pub mod group;
pub(in crate::comm) mod handles;
pub(in crate::comm) mod member;
pub(in crate::comm) mod messages;
pub(in crate::comm) mod notes;
pub(in crate::comm) mod ops;
pub(in crate::comm) mod parts;
pub(in crate::comm) mod past;
pub(in crate::comm) mod placing;
pub(in crate::comm) mod processes;
pub(in crate::comm) mod query;
pub(in crate::comm) mod redop;
pub(in crate::comm) mod routed;
pub(in crate::comm) mod sum;
pub(in crate::comm) mod summable;
pub(in crate::comm) mod tally;
pub(in crate::comm) mod traced;
pub(in crate::comm) mod vector;
pub(in crate::comm) mod waiting_call;
mod whole;
