//! A software GPU: a `libcuda.so.1` whose devices run kolo's own kernels, compiled for the host.
//! `README.md` says what is modelled.
//!
//! | file | what it has |
//! |---|---|
//! | [`api`] | the exported functions: thin |
//! | [`abi`], [`error`], [`table`] | what crosses from C; result codes; handles |
//! | [`state`], [`worker`] | all devices behind one lock; the thread that is the hardware |
//! | [`stream`], [`task`], [`event`], [`host_thread`] | queues, what is in them, marks |
//! | [`hardware`], [`progress`] | what a task uses; how far it is |
//! | [`graph`] | captures, graphs, user objects |
//! | [`memory`] | addresses, allocations, physical memory, copies |
//! | [`context`], [`device`], [`places`], [`module`] | as the driver knows them |
//! | [`settings`], [`fault`] | the environment; what goes wrong on request |

mod abi;
mod api;
mod context;
mod device;
mod error;
mod event;
mod fault;
mod graph;
mod hardware;
mod host_thread;
mod memory;
mod module;
mod places;
mod progress;
mod settings;
mod state;
mod stream;
mod table;
mod task;
mod worker;

pub use module::image;
