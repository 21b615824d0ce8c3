//! libkolo_ofi.so: libfabric as a network of kolo, for Slingshot, EFA and Omni-Path.
//!
//! **Problem.** These fabrics have no verbs, or poor ones; libfabric drives them all, each by a
//! *provider*, and kolo must run where it is not installed.
//!
//! **Idea.** All that needs libfabric is in this library, which is linked with it and is loaded on
//! demand, like that of verbs; the table and the meeting of the ends are those of [`kolo_plugin`].
//! A process has one endpoint for each device that it uses, whatever the number of connections,
//! because adapters have few: reliable datagrams, with tagged messages.
//!
//! **Way of a message.** The receiver posts a tagged receive for each buffer, and then tells the
//! sender by a *notice* which buffers those are. The sender finds the oldest of its message's tag
//! and sends the message there: a tag of libfabric names the connection, the request and the
//! buffer ([`tags`]). So nothing arrives that was not posted, and a receiver that posts nothing
//! holds the sender back. Notices themselves arrive in places that each endpoint posts beforehand.
//!
//! **Reading order.** [`libfabric`] owned objects of libfabric; [`settings`], [`choice`] which
//! provider and devices, [`network`]; [`tags`], [`operation`] what is under way, [`notice`],
//! [`inbox`] what arrives of them, [`endpoint`] what drives it; [`hello`], [`ends`] what both ends
//! of a connection share, [`send`], [`recv`]; [`plugin`] the network behind the table.
#![cfg(not(no_libfabric))]

mod choice;
mod endpoint;
mod ends;
mod hello;
mod inbox;
mod libfabric;
mod network;
mod notice;
mod operation;
mod plugin;
mod recv;
mod send;
mod settings;
mod tags;
