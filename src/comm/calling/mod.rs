//! From a call of the program to its route: what is asked, whether it may be, which way it goes.
//!
//! A call is checked ([`call`], [`buffers`]), takes the owner lock, and goes by its route
//! ([`crate::tune::route`]): the shortest ones at once ([`enqueue`]), others by [`routed`]. Groups
//! ([`mod@group`]) take calls down and begin them together.

pub(in crate::comm) mod buffers;
pub(in crate::comm) mod call;
pub(in crate::comm) mod compose;
pub(in crate::comm) mod device;
pub(in crate::comm) mod enqueue;
pub(in crate::comm) mod exact;
pub(in crate::comm) mod exact_calls;
pub(in crate::comm) mod graph;
pub mod group;
pub(in crate::comm) mod handles;
pub(in crate::comm) mod in_call;
pub(in crate::comm) mod member;
pub(in crate::comm) mod messages;
pub(in crate::comm) mod notes;
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
