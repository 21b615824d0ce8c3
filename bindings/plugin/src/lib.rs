//! Parts of kolo's own network plugins that do not depend on the network: the table's functions,
//! and how two ends of a connection meet and hear of each other later.
//!
//! **Problem.** RDMA and libfabric are two libraries with one table of functions. Its pointers are
//! to be checked, its panics kept inside, its errors kept as sentences; strangers are to be turned
//! away; and the end of a peer is to be heard of, whatever moves the data.
//!
//! **Idea.** All of that is written once, over a trait. A network says what it opens, and what its
//! two ends do ([`fabric::Fabric`]); [`exports!`](exports) makes a plugin of it. The ends meet by
//! TCP, prove that they know the secret of the handle, greet each other, and keep that connection
//! as a line for last words.
//!
//! **Reading order.** [`abi`] the table's types, [`fabric`] what a network provides, [`handle`],
//! [`greeting`], [`listener`], [`connecting`] how two ends meet, [`line`] how they know of each
//! other later; [`running`] who uses the network, [`connection`] what the table's functions work
//! on, [`table`] and [`calls`] those functions, [`guard`] what is done around each, [`report`] last
//! error and log, [`memory`] registrations that are shared, [`given`] settings that were handed
//! over, [`exports`] what else is exported, [`reading`] messages that the receiver reads.

pub mod abi;
pub mod calls;
pub mod connecting;
pub mod connection;
pub mod exports;
pub mod fabric;
pub mod given;
pub mod greeting;
pub mod guard;
pub mod handle;
pub mod line;
pub mod listener;
pub mod memory;
pub mod reading;
pub mod report;
pub mod running;
pub mod table;
