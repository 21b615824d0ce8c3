//! libkolo_verbs.so: RDMA (InfiniBand and RoCE) as a network of kolo.
//!
//! **Problem.** kolo must run where libibverbs is not installed, and must use it where it is.
//!
//! **Idea.** All that needs libibverbs is in this library, which is linked with it. kolo loads it
//! on demand; where libibverbs is missing, loading fails with the system's sentence, and kolo goes
//! on to its next network. What it exports is the field's table of functions of a network
//! (`ncclNetPlugin_v11`), so it loads wherever such plugins are loaded. Of the library it uses
//! [`kolo::base`] alone, where no state is kept: one process has one state.
//!
//! **Way of a message.** The receiver posts buffers: it writes their places into *slots* in the
//! sender's memory ([`slot`]). The sender finds the slot of a message's tag and writes the message
//! where it says, by RDMA; the last write carries an *immediate* value that completes a receive at
//! the receiver and says which slot it was ([`send`], [`recv`]). Nothing is copied, and a receiver
//! that posts nothing holds the sender back.
//!
//! **Reading order.** [`plugin`] what is behind the table, whose functions are those of the crate
//! [`kolo_plugin`]; [`settings`]; [`network`] what is shared by all connections, [`device`] and
//! [`filter`] which ports, [`gid`] which address, [`events`] and [`health`] what happens to them,
//! [`hello`] how two ends meet; [`verbs`] owned objects of libibverbs,
//! [`queue`] queue pairs, [`ends`] what both ends of a connection share, [`board`], [`send`],
//! [`request`], [`recv`], [`flush`], [`explain`] sentences for error completions.

mod board;
mod device;
mod ends;
mod events;
mod explain;
mod filter;
mod flush;
mod gid;
mod health;
mod hello;
mod network;
mod note;
mod plugin;
mod queue;
mod recv;
mod request;
mod send;
mod settings;
mod slot;
mod verbs;
