//! The functions that programs call. Each takes the lock, looks at its arguments and hands on to
//! the file of its subject; what they mean is said in the documentation of CUDA's driver.

mod calls;
mod capture;
mod context;
mod copy;
mod device;
mod entry;
mod event;
mod general;
mod graph;
mod ipc;
mod launch;
mod memory;
mod module;
mod peer;
mod pointer;
mod pool;
mod stream;
mod symbols;
mod virtual_memory;
