//! Communicators of devices, on the software GPU: ranks are threads, and each has a device.

mod calls;
#[path = "../../../../drawn/mod.rs"]
mod drawn;
mod driver_calls;
mod graphs;
mod groups;
mod ledger;
mod mistakes;
mod nodes;
mod processes;
mod ranks;
mod streams;
