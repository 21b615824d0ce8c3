//! The driver as programs see it: by the declarations of others (cudarc), which load the library by
//! its name.
//!
//! Each test runs in a process of its own, with the variables that it asks for: a driver begins
//! once in a process, and what fails there fails for good.

#[path = "../../../kernels-host/tests/plans/call.rs"]
#[expect(dead_code, reason = "calls of fewer kinds are made here")]
mod call;

mod alone;
mod beginning;
mod captures;
mod context;
mod copies;
mod faults;
mod gate;
mod graphs;
mod kernels;
mod memory;
mod places;
mod processes;
mod ring;
mod streams;
mod virtual_memory;
mod world;
